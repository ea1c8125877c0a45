"""Objectives that train a language model on a stream of tokens: the next token, masked ones, or each in its context."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor

from lexergy.errors import LexergyError
from lexergy.models.loading.devices import device_of
from lexergy.training.objectives.contrastive import EVALUATION_ROWS, evaluating
from lexergy.training.randomness import example_uniforms

MASK_SHARE = 0.15
UNMASKED_LABEL = -100
VALIDATION_SEED = 0


class LanguageModelling:
    """Next-token cross-entropy over blocks packed from one stream of tokens.

    -mean_t log p(x_t | x_<t). Documents follow each other with end-of-text between them. Blocks share one
    token with their neighbour, so that each token but the first is predicted exactly once:

        stream  a b c d e f g      block_length 3
        block 0 a b c d            predicts b c d
        block 1       d e f g      predicts e f g

    The model maps `input_ids` (B, L) to an output with `logits` (B, L, V). An evaluation reads
    `validation_blocks` blocks, spread evenly (None: all), `evaluation_rows` of them at a time.
    """

    num_shared = 1  # tokens that a block shares with its neighbour

    def __init__(
        self,
        train_tokens: Tensor,
        validation_tokens: Tensor,
        block_length: int,
        *,
        validation_blocks: int | None = None,
        evaluation_rows: int = EVALUATION_ROWS,
    ) -> None:
        size = block_length + self.num_shared
        self.train = stream_blocks(train_tokens, size, block_length, "train_tokens")
        validation = stream_blocks(validation_tokens, size, block_length, "validation_tokens")
        self.validation = spread(validation, validation_blocks)
        self.evaluation_rows = min(evaluation_rows, EVALUATION_ROWS)

    @property
    def num_examples(self) -> int:
        return len(self.train)

    def loss(self, model: Any, indices: Tensor, generator: torch.Generator) -> tuple[Tensor, dict[str, float]]:
        return self._block_loss(model, self.train[indices]), {}

    def evaluate(self, model: Any) -> dict[str, float]:
        return _mean_over_blocks(model, self.validation, self._block_loss, self.evaluation_rows)

    def _block_loss(self, model: Any, blocks: Tensor) -> Tensor:  # (B, L + 1) -> ()
        blocks = blocks.to(device_of(model))
        logits = model(input_ids=blocks[:, :-1]).logits  # (B, L, V)
        return functional.cross_entropy(logits.float().flatten(0, 1), blocks[:, 1:].flatten())


class MaskedLanguageModelling:
    """Cross-entropy at masked positions over blocks packed from one stream of tokens.

    -mean over masked t of log p(x_t | x with its masks) (Devlin et al. 2019): of each block 15 % of the
    tokens are chosen (the number is rounded and always the same, as in BERT's code); 80 % of these become the
    mask token, 10 % a random token, 10 % stay. Masks are drawn anew each time in training and fixed in
    validation.

    The model maps `input_ids` (B, L) to an output with `logits` (B, L, V).
    """

    def __init__(
        self,
        train_tokens: Tensor,
        validation_tokens: Tensor,
        block_length: int,
        *,
        mask_token: int,
        vocab_size: int,
        validation_blocks: int | None = None,
    ) -> None:
        self.train = stream_blocks(train_tokens, block_length, block_length, "train_tokens")
        self.mask_token = mask_token
        self.vocab_size = vocab_size
        validation = stream_blocks(validation_tokens, block_length, block_length, "validation_tokens")
        validation = spread(validation, validation_blocks)
        generator = torch.Generator().manual_seed(VALIDATION_SEED)
        masked = self.mask(validation, torch.arange(len(validation)), generator)
        self.validation = torch.stack(masked, dim=1)  # (N, 2, L): inputs and labels

    @property
    def num_examples(self) -> int:
        return len(self.train)

    def loss(self, model: Any, indices: Tensor, generator: torch.Generator) -> tuple[Tensor, dict[str, float]]:
        masked = self.mask(self.train[indices], indices, generator)
        return self._masked_loss(model, torch.stack(masked, dim=1)), {}

    def evaluate(self, model: Any) -> dict[str, float]:
        return _mean_over_blocks(model, self.validation, self._masked_loss)

    def mask(self, blocks: Tensor, indices: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Inputs and labels (B, L) each; a label is the token where it was chosen, elsewhere ignored."""
        length = blocks.shape[1]
        uniforms = example_uniforms(generator, indices, 3 * length).view(-1, 3, length)
        order, treatment, replacement = uniforms.unbind(dim=1)  # (B, L) each
        count = max(1, round(MASK_SHARE * length))
        chosen = torch.zeros_like(blocks, dtype=torch.bool).scatter_(1, order.topk(count).indices, True)
        inputs = blocks.masked_fill(chosen & (treatment < 0.8), self.mask_token)
        random_tokens = (replacement * self.vocab_size).long()
        inputs = torch.where(chosen & (treatment >= 0.9), random_tokens, inputs)
        return inputs, blocks.masked_fill(~chosen, UNMASKED_LABEL)

    def _masked_loss(self, model: Any, masked: Tensor) -> Tensor:  # (B, 2, L) -> ()
        inputs, labels = masked.to(device_of(model)).unbind(dim=1)
        chosen = labels != UNMASKED_LABEL
        logits = model(input_ids=inputs).logits[chosen]  # (masked, V)
        return functional.cross_entropy(logits.float(), labels[chosen])


class TwoTowerModelling(LanguageModelling):
    """Cross-entropy of each token given all others, over blocks packed from one stream of tokens.

    -mean_t log q(x_t | x_\\t), Sec. 2.4, Clark et al. 2020. Blocks share two tokens with their neighbour, context at
    their ends, so that each token of the stream but the first is predicted exactly once:

        stream  a b c d e f g h    block_length 3
        block 0 a b c d e          predicts b c d
        block 1       d e f g h    predicts e f g

    The model maps `input_ids` (B, L + 2) to an output with `logits` (B, L, V).
    """

    num_shared = 2

    def _block_loss(self, model: Any, blocks: Tensor) -> Tensor:  # (B, L + 2) -> ()
        blocks = blocks.to(device_of(model))
        logits = model(input_ids=blocks).logits  # (B, L, V)
        return functional.cross_entropy(logits.float().flatten(0, 1), blocks[:, 1:-1].flatten())


def stream_blocks(tokens: Tensor, size: int, stride: int, name: str) -> Tensor:
    """Consecutive blocks of a stream (T,) -> (N, size); what is left of the last one is dropped."""
    if tokens.ndim != 1 or len(tokens) < size:
        raise LexergyError(
            f"`{name}` has shape {tuple(tokens.shape)}; expected one stream of at least {size} tokens; "
            "give more text or shorten `block_length`."
        )
    return tokens.long().unfold(0, size, stride)


def spread(blocks: Tensor, count: int | None) -> Tensor:
    """At most `count` of the blocks, at equal distances: (N, L) -> (n, L)."""
    if count is None or count >= len(blocks):
        return blocks
    return blocks[torch.arange(count) * len(blocks) // count]


def _mean_over_blocks(
    model: Any, blocks: Tensor, loss: Callable[[Any, Tensor], Tensor], rows: int = EVALUATION_ROWS
) -> dict[str, float]:
    with evaluating(model):
        losses = [float(loss(model, part)) * len(part) for part in blocks.split(rows)]
    mean = torch.tensor(losses, dtype=torch.float64).sum() / len(blocks)
    return {"loss": float(mean), "perplexity": float(mean.exp())}
