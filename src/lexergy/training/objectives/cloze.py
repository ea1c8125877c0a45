"""Objectives that train a classifier of noise at each position, together with its noise: Electric and ELECTRA."""

from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from lexergy.core.cloze_nce import (
    choose_positions,
    classifier_accuracy,
    classifier_losses,
    log_mean_partition,
    num_noise_positions,
    one_pass_logits,
    weakened_noise,
)
from lexergy.core.decoding import Decoding, draw, pick
from lexergy.errors import LexergyError
from lexergy.models.loading.devices import device_of
from lexergy.training.objectives.contrastive import EVALUATION_ROWS, evaluating
from lexergy.training.objectives.language import VALIDATION_SEED, spread, stream_blocks
from lexergy.training.randomness import example_uniforms

CLASSIFIER_WEIGHT = 50.0  # beside the noise's own loss, as in ELECTRA
Classifier = Literal["electric", "electra"]


class Noised(NamedTuple):
    """Blocks of which some tokens were drawn again from the noise; only the noise's own loss has a gradient."""

    tokens: Tensor  # (B, n + 2)
    is_noise: Tensor  # (B, n): which were drawn again
    noise_log_prob: Tensor  # (B, n), of the tokens given what the noise read
    noise_loss: Tensor  # (), the noise's own cross-entropy


class NoiseDetection:
    """Tell the tokens of a block from those that were drawn again, ceil(0.15 n) of n, while the noise learns too.

    loss = noise's cross-entropy + 50 mean_t of the classifier's, over blocks packed from one stream of tokens, each
    with a token of context at its ends (as in `TwoTowerModelling`). Positions and tokens are drawn anew each time in
    training and fixed in validation. The classifier is

    - `electric`: sigma(E_t + log(k q(x_t) / (n - k))), Algorithm 2, Clark et al. 2020, NCE: the noise is a two-tower
      model, and any token drawn again is noise; `residual`: E_t is that of q exp(-E_t), so that the model starts as q;
    - `electra`: sigma(E_t), negative sampling: a token is a replacement where it differs from the original. Without
      a `mask_token` the noise is a two-tower model (ELECTRA-TT), with one it is a masked LM.

    A noise that is finished beforehand is so hard to tell from text that nothing is learnt from it alone. With
    `rising_steps` it starts as the tokens' `frequencies` and comes to its full strength in so many steps
    (`weakened_noise`), as one that learns beside the classifier would.

    The losses change with the noise, so validation has no "loss" to compare steps by. The model is a `NoisePair`.
    """

    def __init__(
        self,
        train_tokens: Tensor,
        validation_tokens: Tensor,
        block_length: int,
        *,
        classifier: Classifier,
        residual: bool = False,
        mask_token: int | None = None,
        frequencies: Tensor | None = None,  # (V,), log-probabilities of tokens without context
        rising_steps: int = 0,
        validation_blocks: int | None = None,
    ) -> None:
        if rising_steps and frequencies is None:
            raise LexergyError("a noise that rises starts as the tokens' frequencies; give `frequencies`.")
        self.train = stream_blocks(train_tokens, block_length + 2, block_length, "train_tokens")
        validation = stream_blocks(validation_tokens, block_length + 2, block_length, "validation_tokens")
        self.validation = spread(validation, validation_blocks)
        self.classifier = classifier
        self.residual = residual
        self.mask_token = mask_token
        self.frequencies = frequencies
        self.rising_steps = rising_steps
        self.strength = 1.0
        self.num_noise = num_noise_positions(block_length)

    @property
    def num_examples(self) -> int:
        return len(self.train)

    def begin(self, step: int) -> None:
        """Told by the training which step comes, or was the last before an evaluation."""
        self.strength = min(1.0, step / self.rising_steps) if self.rising_steps else 1.0

    def loss(self, model: Any, indices: Tensor, generator: torch.Generator) -> tuple[Tensor, dict[str, float]]:
        return self._loss(model, self.train[indices], indices, generator)

    def evaluate(self, model: Any) -> dict[str, float]:
        totals: dict[str, float] = {}
        with evaluating(model):
            for indices in torch.arange(len(self.validation)).split(EVALUATION_ROWS):
                generator = torch.Generator().manual_seed(VALIDATION_SEED)
                _, metrics = self._loss(model, self.validation[indices], indices, generator)
                for name, value in metrics.items():
                    totals[name] = totals.get(name, 0.0) + value * len(indices) / len(self.validation)
        return totals

    def _loss(
        self, pair: Any, blocks: Tensor, indices: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, dict[str, float]]:
        uniforms = example_uniforms(generator, indices, blocks.shape[1] - 2 + self.num_noise)
        noised = self.noise(pair.noise, blocks.to(device_of(pair)), uniforms.to(device_of(pair)))
        energies = pair.model(input_ids=noised.tokens).energies[:, 1:-1].float()  # (B, n)
        if self.classifier == "electra":
            logits, is_noise = energies, noised.tokens[:, 1:-1] != blocks[:, 1:-1].to(energies.device)
        else:
            if self.residual:
                energies = energies - noised.noise_log_prob
            logits = one_pass_logits(energies, noised.noise_log_prob, self.num_noise)
            is_noise = noised.is_noise
        classifier_loss = classifier_losses(logits, is_noise).mean()
        metrics = {
            "classifier_loss": classifier_loss.item(),
            "noise_loss": noised.noise_loss.item(),
            "accuracy": classifier_accuracy(logits, is_noise),
        }
        if self.classifier == "electric":  # exp(-E) of ELECTRA is no distribution
            metrics["log_z"] = log_mean_partition(energies[is_noise], noised.noise_log_prob[is_noise])
        return noised.noise_loss + CLASSIFIER_WEIGHT * classifier_loss, metrics

    def noise(self, noise: Any, blocks: Tensor, uniforms: Tensor) -> Noised:  # (B, n + 2), (B, n + k)
        """Draw tokens of each block again: the first n uniforms choose the positions, the others the tokens."""
        original = blocks[:, 1:-1]  # (B, n)
        order, draws = uniforms.split([original.shape[1], self.num_noise], dim=1)
        positions = choose_positions(order, self.num_noise)  # (B, k)
        is_noise = torch.zeros_like(original, dtype=torch.bool).scatter(1, positions, True)
        read = blocks if self.mask_token is None else _inside(blocks, original.masked_fill(is_noise, self.mask_token))
        logits = noise(input_ids=read).logits.float()  # (B, n, V)
        if self.strength < 1 and self.frequencies is not None:
            logits = weakened_noise(logits, self.frequencies.to(logits), self.strength)
        at_positions = logits.detach().gather(1, positions.unsqueeze(-1).expand(-1, -1, logits.shape[-1]))
        drawn = draw(at_positions.flatten(0, 1), draws.reshape(-1, 1), Decoding()).tokens.view_as(positions)
        replaced = original.scatter(1, positions, drawn)
        log_norm = logits.logsumexp(-1)  # (B, n)
        losses = log_norm - pick(logits, original)
        noise_loss = losses.mean() if self.mask_token is None else losses[is_noise].mean()
        noise_log_prob = (pick(logits, replaced) - log_norm).detach()
        return Noised(_inside(blocks, replaced), is_noise, noise_log_prob, noise_loss)


def _inside(blocks: Tensor, tokens: Tensor) -> Tensor:
    """The blocks (B, n + 2) with other tokens (B, n) between their ends."""
    return torch.cat([blocks[:, :1], tokens, blocks[:, -1:]], dim=1)
