"""Corrections of a frozen LM at every token, after which its distribution is normalised again: RALM by small means.

log P(x_t | x_<t) = log P_LM(x_t | x_<t) + r(x_t, x_<t) + const (Eq. 6, Deng et al. 2020), where r is cheap: a number
for each token, a low-rank change of the output layer, what an n-gram model of the domain adds. The corrected LM is an
LM like any other; its states are those of the frozen one.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import PreTrainedModel

from lexergy.core.local_residuals.ngrams import Matches, NgramLevel, find, mix_
from lexergy.errors import LexergyError
from lexergy.files import atomic_path, reading
from lexergy.recipes.sections.local_residuals import LOCAL_RESIDUALS, ResidualKind


class LocalResidual(ABC):
    """One kind of correction. Several are applied in the order of `RESIDUALS`."""

    kind: ClassVar[ResidualKind]
    vocab_size: int  # of the LM that it was fitted to
    context_length = 0  # how many of the tokens before are read

    def check(self, vocab_size: int) -> None:
        """Refuse an LM of another vocabulary."""
        if self.vocab_size != vocab_size:
            raise LexergyError(
                f"the {self.kind} residual was fitted to an LM of {self.vocab_size} tokens, and this one has "
                f"{vocab_size}; expected the same LM; fit it again."
            )

    def on(self, model: PreTrainedModel) -> PreTrainedModel:
        """The model with what of the correction lies in its weights."""
        return model

    def correct_(self, logits: Tensor, before: Tensor) -> Tensor:  # (N, V), (N, n)
        """Change the logits that follow the tokens `before`, of which the last is nearest."""
        return logits

    @abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """All that it is made of, by name."""

    @classmethod
    @abstractmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Self:
        """The inverse of `tensors`."""

    def to(self, device: torch.device) -> Self:
        """The same on a device."""
        return self.from_tensors({name: tensor.to(device) for name, tensor in self.tensors().items()})

    def save(self, folder: str | Path) -> None:
        """Write it into the folder of an LM."""
        with atomic_path(file_of(folder, self.kind)) as partial:
            save_file({name: tensor.contiguous().cpu() for name, tensor in self.tensors().items()}, partial)


class UnigramResidual(LocalResidual):
    """r(w) = s u(w): how much more often the domain has a token than the LM expects (`log_ratio`), times a strength."""

    kind = "unigram"

    def __init__(self, log_ratio: Tensor, strength: float) -> None:  # (V,)
        self.log_ratio = log_ratio
        self.strength = strength
        self.vocab_size = len(log_ratio)
        self._bias = log_ratio * strength

    def correct_(self, logits: Tensor, before: Tensor) -> Tensor:
        return logits.add_(self._bias)

    def tensors(self) -> dict[str, Tensor]:
        return {"log_ratio": self.log_ratio, "strength": torch.tensor(self.strength, dtype=torch.double)}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Self:
        return cls(tensors["log_ratio"], float(tensors["strength"]))


class AdapterResidual(LocalResidual):
    """r(w) = (U V h)_w on the last state h: the output layer W becomes W + U V, and a step costs what it did."""

    kind = "adapter"

    def __init__(self, up: Tensor, down: Tensor) -> None:  # (V, r), (r, D)
        self.up = up
        self.down = down
        self.vocab_size = len(up)

    def on(self, model: PreTrainedModel) -> PreTrainedModel:
        corrected = copy.copy(model)  # which shares everything but its output layer
        corrected._modules = dict(model._modules)
        usual: Any = model.get_output_embeddings()
        head: Any = nn.Linear(usual.in_features, usual.out_features, bias=False, device="meta")
        change = (self.up.to(usual.weight) @ self.down.to(usual.weight)).detach()
        head.weight = nn.Parameter(usual.weight.detach() + change, requires_grad=False)
        head.bias = usual.bias
        corrected.set_output_embeddings(head)
        return corrected.eval()

    def tensors(self) -> dict[str, Tensor]:
        return {"up": self.up, "down": self.down}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Self:
        return cls(tensors["up"], tensors["down"])


class NgramResidual(LocalResidual):
    """(1 - lambda) p_LM + lambda p_ngram, lambda by the length of the longest context that was seen."""

    kind = "ngram"

    def __init__(self, levels: Sequence[NgramLevel], vocab_size: int, weights: Tensor) -> None:
        """`weights` (n,) are those of contexts of 0 .. n - 1 tokens."""
        self.levels = tuple(levels)
        self.vocab_size = vocab_size
        self.weights = weights
        self.context_length = len(self.levels)

    def correct_(self, logits: Tensor, before: Tensor) -> Tensor:
        return mix_(logits, self.matches(before), self.weights)

    def matches(self, before: Tensor) -> Matches:  # (N, n)
        """What was seen after these tokens."""
        return find(self.levels, before, self.vocab_size)

    def tensors(self) -> dict[str, Tensor]:
        named = {
            f"{name}.{length}": tensor
            for length, level in enumerate(self.levels, 1)
            for name, tensor in level._asdict().items()
        }
        return {"weights": self.weights, "vocab_size": torch.tensor(self.vocab_size), **named}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> Self:
        lengths = range(1, 1 + sum(name.startswith("keys.") for name in tensors))
        levels = [NgramLevel(*(tensors[f"{name}.{length}"] for name in NgramLevel._fields)) for length in lengths]
        return cls(levels, int(tensors["vocab_size"]), tensors["weights"])


RESIDUALS: dict[str, type[LocalResidual]] = {
    residual.kind: residual for residual in (UnigramResidual, AdapterResidual, NgramResidual)
}
assert list(RESIDUALS) == list(LOCAL_RESIDUALS)


def file_of(folder: str | Path, kind: str) -> Path:
    """Where a correction of this kind lies in the folder of an LM."""
    return Path(folder) / f"{kind}.safetensors"


def load_residual(folder: str | Path, kind: str) -> LocalResidual:
    """What `save` wrote."""
    with reading(file_of(folder, kind)):
        return RESIDUALS[kind].from_tensors(load_file(file_of(folder, kind)))
