"""What a training minimises: the contract of an objective; noise contrastive estimation, and ranking."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from lexergy.core.ends import lengths_until
from lexergy.core.losses import (
    hardest_negatives,
    nce_loss,
    nce_metrics,
    precision_at_1,
    ranking_loss,
    ranking_nce_loss,
)
from lexergy.errors import LexergyError
from lexergy.models.energies import score_unpadded
from lexergy.training.randomness import example_uniforms

EVALUATION_ROWS = 64
Mining = Literal["random", "hardest", "all"]


class Objective(Protocol):
    """A loss over numbered examples, and a validation metric.

    `loss` is a mean over examples, so that parts of a batch may be averaged; its random choices come from
    `generator` and should depend on the example's index alone (`randomness.example_uniforms`).
    `evaluate` is deterministic; training stops on, and keeps the weights of, its lowest "loss". Without a "loss", as
    where the task itself changes while its noise learns, the last weights are kept.
    """

    @property
    def num_examples(self) -> int: ...

    def loss(self, model: Any, indices: Tensor, generator: torch.Generator) -> tuple[Tensor, dict[str, float]]: ...

    def evaluate(self, model: Any) -> dict[str, float]: ...


@runtime_checkable
class ScheduledObjective(Protocol):
    """An objective that changes in the course of a training: it is told the step before each loss and evaluation."""

    def begin(self, step: int) -> None: ...


@runtime_checkable
class GroupedObjective(Protocol):
    """An objective whose examples of similar length go together, so that little of a batch is padding."""

    @property
    def lengths(self) -> Tensor: ...  # (N,)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """No dropout and no gradients inside; the model's mode is put back afterwards."""
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(was_training)


@dataclass(frozen=True)
class ContrastiveData:
    """People's continuations of N prefixes, and K of the noise's for each.

    The noise is the language model, or another distribution whose distance from it is known for each continuation:
    `noise_energies` = log P_LM - log P_noise, people's continuation first, then its negatives. With an `end_token`,
    continuations are texts up to it, and are padded after.
    """

    prefixes: Tensor  # (N, P)
    continuations: Tensor  # (N, C)
    negatives: Tensor  # (N, K, C)
    features: Tensor | None = None  # (N, F), for an energy that reads the LM's states
    negative_features: Tensor | None = None  # (N, K, F)
    noise_energies: Tensor | None = None  # (N, 1 + K), None: the noise is the LM
    end_token: int | None = None

    def __post_init__(self) -> None:
        rows, length = self.continuations.shape
        if self.prefixes.ndim != 2 or self.prefixes.shape[0] != rows or rows == 0:
            raise LexergyError(
                f"`prefixes` is {_shape(self.prefixes)} beside `continuations` {_shape(self.continuations)}; "
                "expected (N, P) beside (N, C) with N at least 1."
            )
        if self.negatives.ndim != 3 or self.negatives.shape[0] != rows or self.negatives.shape[2] != length:
            raise LexergyError(f"`negatives` is {_shape(self.negatives)}; expected ({rows}, K, {length}).")
        expected = (rows, 1 + self.num_negatives)
        if self.noise_energies is not None and self.noise_energies.shape != expected:
            raise LexergyError(f"`noise_energies` is {_shape(self.noise_energies)}; expected {expected}.")
        self._check_features()

    def _check_features(self) -> None:
        if (self.features is None) != (self.negative_features is None):
            raise LexergyError(
                "one of `features` and `negative_features` is missing; expected both, or neither for an "
                "energy that reads tokens."
            )
        if self.features is None or self.negative_features is None:
            return
        expected = (*self.negatives.shape[:2], self.features.shape[-1])
        if self.features.shape != (len(self), expected[-1]) or self.negative_features.shape != expected:
            raise LexergyError(
                f"`features` is {_shape(self.features)} and `negative_features` "
                f"{_shape(self.negative_features)}; expected ({len(self)}, F) and {expected[:2]} + (F,)."
            )

    def __len__(self) -> int:
        return self.continuations.shape[0]

    @property
    def num_negatives(self) -> int:
        return self.negatives.shape[1]

    def select(self, rows: Tensor) -> "ContrastiveData":  # (M,)
        """The pairs at `rows`, in that order."""
        return ContrastiveData(
            self.prefixes[rows],
            self.continuations[rows],
            self.negatives[rows],
            None if self.features is None else self.features[rows],
            None if self.negative_features is None else self.negative_features[rows],
            None if self.noise_energies is None else self.noise_energies[rows],
            self.end_token,
        )


def _shape(tensor: Tensor) -> tuple[int, ...]:
    return tuple(tensor.shape)


class PairObjective(ABC):
    """An energy trained on people's continuations and those of the noise, of which `mining` chooses.

    In training each positive meets `random`: one of its K stored negatives, drawn uniformly anew each time;
    `hardest`: the one of lowest energy under the weights of the moment, dropout apart; or `all` of them. Validation
    reads all of them, or the hardest where training does.

    The model is an energy: `score(prefix (B, P), continuations (B, K, C), features=None) -> (B, K)`. The `margin` is
    that of the objectives which have one.
    """

    def __init__(
        self, train: ContrastiveData, validation: ContrastiveData, mining: Mining = "random", margin: float = 1.0
    ) -> None:
        self.train = train
        self.validation = validation
        self.mining = mining
        self.margin = margin

    @abstractmethod
    def pair_loss(self, data: Tensor, noise: Tensor) -> Tensor: ...  # (B,), (B, k) -> ()

    @abstractmethod
    def metrics(self, data: Tensor, noise: Tensor) -> dict[str, float]: ...  # (B,), (B, k)

    @property
    def num_examples(self) -> int:
        return len(self.train)

    def loss(self, model: Any, indices: Tensor, generator: torch.Generator) -> tuple[Tensor, dict[str, float]]:
        energies = _score(model, self.train, indices, self._chosen(model, indices, generator))  # (B, 1 + k)
        data, noise = energies[:, 0], energies[:, 1:]
        return self.pair_loss(data, noise), self.metrics(data, noise)

    def evaluate(self, model: Any) -> dict[str, float]:
        energies = pair_energies(model, self.validation)  # (N, 1 + K)
        data, noise = energies[:, 0], energies[:, 1:]
        met = noise.gather(-1, hardest_negatives(noise).unsqueeze(-1)) if self.mining == "hardest" else noise
        return {"loss": float(self.pair_loss(data, met)), **self.metrics(data, noise)}

    def _chosen(self, model: Any, indices: Tensor, generator: torch.Generator) -> Tensor:  # (B, k)
        """Which negatives each example meets."""
        if self.mining == "random":
            return (example_uniforms(generator, indices, 1) * self.train.num_negatives).long()
        if self.mining == "all":
            return torch.arange(self.train.num_negatives).expand(len(indices), -1)
        energies = pair_energies(model, self.train.select(indices))  # (B, 1 + K)
        return hardest_negatives(energies[:, 1:]).unsqueeze(-1)


class NoiseContrastive(PairObjective):
    """Noise contrastive estimation of an energy, with the language model, or another known distribution, as noise.

    mean softplus(E(x+)) + softplus(-E(x-)), Eq. 3, Deng et al. 2020, with a random negative (Sec. 4.1); Eq. 1 of
    "Real or fake" (2020) with the hardest. Under another noise than the LM, E stands for E - E_noise with
    E_noise = log P_LM - log P_noise, so that the classifier's logit is still log P_model - log P_noise (dynamic
    NCE, Wang & Ou 2018). The optimum of Theorem 1 is that of random negatives and of all; the hardest are no
    sample of the noise.
    """

    def pair_loss(self, data: Tensor, noise: Tensor) -> Tensor:
        return nce_loss(data, noise)

    def metrics(self, data: Tensor, noise: Tensor) -> dict[str, float]:
        return asdict(nce_metrics(data, noise))


class RankingNoiseContrastive(PairObjective):
    """NCE in its ranking form (Ma & Collins 2018): people's text among its negatives, which is which by softmax of -E.

    It takes the more from a prefix the more negatives it has (`mining: all`), and leaves log Z of each prefix free.
    Under another noise than the LM, E stands for E - E_noise, as in `NoiseContrastive`.
    """

    def pair_loss(self, data: Tensor, noise: Tensor) -> Tensor:
        return ranking_nce_loss(data, noise)

    def metrics(self, data: Tensor, noise: Tensor) -> dict[str, float]:
        return _ranking_metrics(data, noise)


class Ranking(PairObjective):
    """max(0, margin + E(x+) - E(x-)): people's text below its negatives by a margin (App. C, "Real or fake", 2020)."""

    def pair_loss(self, data: Tensor, noise: Tensor) -> Tensor:
        return ranking_loss(data, noise, self.margin)

    def metrics(self, data: Tensor, noise: Tensor) -> dict[str, float]:
        return _ranking_metrics(data, noise)


def _ranking_metrics(data: Tensor, noise: Tensor) -> dict[str, float]:  # (B,), (B, k)
    return {"precision_at_1": precision_at_1(data, noise), **asdict(nce_metrics(data, noise))}


def pair_energies(model: Any, data: ContrastiveData) -> Tensor:
    """Energies (over the noise's) of every positive, then of all its negatives: (N, 1 + K) float64."""
    every = torch.arange(data.num_negatives)
    rows = max(1, EVALUATION_ROWS // (1 + len(every)))
    with evaluating(model):
        parts = [
            _score(model, data, indices, every.expand(len(indices), -1))
            for indices in torch.arange(len(data)).split(rows)
        ]
    return torch.cat(parts).double().cpu()


def _score(model: Any, data: ContrastiveData, indices: Tensor, chosen: Tensor) -> Tensor:
    """Energies of each positive and of its chosen negatives, in one call: (B,), (B, k) -> (B, 1 + k)."""
    positives, negatives = data.continuations[indices], data.negatives[indices[:, None], chosen]
    continuations = torch.cat([positives[:, None], negatives], dim=1)  # (B, 1 + k, C)
    features = None
    if data.features is not None and data.negative_features is not None:
        negative_features = data.negative_features[indices[:, None], chosen]
        features = torch.cat([data.features[indices, None], negative_features], dim=1)  # (B, 1 + k, F)
    lengths = lengths_until(continuations, data.end_token)  # (B, 1 + k)
    energies = score_unpadded(model, data.prefixes[indices], continuations, features, lengths).float()
    if data.noise_energies is None:
        return energies
    places = torch.cat([torch.zeros_like(indices)[:, None], 1 + chosen], dim=1)  # (B, 1 + k)
    return energies - data.noise_energies[indices[:, None], places].to(energies)
