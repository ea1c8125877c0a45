"""Training to fill masks in translations, and to tell their lengths."""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as functional
from torch import Tensor

from lexergy.models.architectures.conditional_transformer import ConditionalTransformer
from lexergy.models.loading.devices import device_of
from lexergy.training.objectives.contrastive import evaluating
from lexergy.training.objectives.language import VALIDATION_SEED
from lexergy.training.randomness import example_uniforms

ROWS_TOGETHER = 64  # of similar length, so that little of a batch is padding


class TokenPairs(NamedTuple):
    """Pairs as tokens, padded at their ends."""

    sources: Tensor  # (N, S)
    targets: Tensor  # (N, T)

    def select(self, rows: Tensor) -> "TokenPairs":
        return TokenPairs(self.sources[rows], self.targets[rows])


class ConditionalMasking:
    """Cross-entropy of masked target tokens and of the target's length, in nats per sentence.

    -sum over masked t of log p(y_t | x, y with its masks) - log p(n | x); the number of masks of a target of n tokens
    is uniform on 1 .. n, and so is their choice (Ghazvininejad et al. 2019, who smooth the labels as well). Masks are
    drawn anew each time in training and fixed in validation.
    """

    def __init__(self, train: TokenPairs, validation: TokenPairs, *, mask_token: int, pad_token: int) -> None:
        self.train = train
        self.validation = validation
        self.mask_token = mask_token
        self.pad_token = pad_token

    @property
    def num_examples(self) -> int:
        return len(self.train.targets)

    def loss(self, model: Any, indices: Tensor, generator: torch.Generator) -> tuple[Tensor, dict[str, float]]:
        pairs = self.train.select(indices)
        total = sum(self._sums(model, pairs, self.chosen(pairs.targets, indices, generator)))
        assert isinstance(total, Tensor)
        return total / len(indices), {}

    def evaluate(self, model: Any) -> dict[str, float]:
        count = len(self.validation.targets)
        generator = torch.Generator().manual_seed(VALIDATION_SEED)
        chosen = self.chosen(self.validation.targets, torch.arange(count), generator)
        with evaluating(model):
            masked, length = (float(part) for part in self._sums(model, self.validation, chosen))
        return {
            "loss": (masked + length) / count,
            "masked_token_loss": masked / int(chosen.sum()),
            "length_loss": length / count,
        }

    def chosen(self, targets: Tensor, indices: Tensor, generator: torch.Generator) -> Tensor:  # (B, T) -> (B, T) bool
        """Which tokens are masked."""
        uniforms = example_uniforms(generator, indices, 1 + targets.shape[1])
        is_token = targets != self.pad_token
        count = 1 + (uniforms[:, :1] * is_token.sum(dim=1, keepdim=True)).long()  # (B, 1)
        ranks = uniforms[:, 1:].masked_fill(~is_token, torch.inf).argsort(dim=1).argsort(dim=1)
        return ranks < count

    def _sums(self, model: ConditionalTransformer, pairs: TokenPairs, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """The losses of masked tokens and of lengths, summed; rows of similar length go through the model together."""
        device = device_of(model)
        lengths = (pairs.targets != self.pad_token).sum(dim=1)
        masked_sum, length_sum = torch.zeros((), device=device), torch.zeros((), device=device)
        for rows in lengths.argsort(stable=True).split(ROWS_TOGETHER):
            few = pairs.select(rows)
            sources, targets = (_trimmed(part, self.pad_token).to(device) for part in few)
            masked = chosen[rows, : targets.shape[1]].to(device)
            encoded = model.encode(sources)
            states = model.decode(targets.masked_fill(masked, self.mask_token), encoded)
            logits = model.logits(states[masked]).float()
            masked_sum = masked_sum + functional.cross_entropy(logits, targets[masked], reduction="sum")
            wanted = lengths[rows].to(device) - 1
            length_sum = length_sum + functional.cross_entropy(encoded.length_logits.float(), wanted, reduction="sum")
        return masked_sum, length_sum


def _trimmed(tokens: Tensor, pad_token: int) -> Tensor:  # (N, L) -> (N, l)
    """Without the columns that hold nothing but padding."""
    return tokens[:, : int((tokens != pad_token).sum(dim=1).max())]
