"""Whatever a user brings as an energy: a function of token ids, of texts, or a module."""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from lexergy.errors import LexergyError
from lexergy.models.causal.language_model import LanguageModel
from lexergy.models.causal.state_features import StateFeatures
from lexergy.models.energies.base import check_shapes
from lexergy.models.energies.text import by_prefix, decode, sequence_batches
from lexergy.models.loading.devices import device_of


@runtime_checkable
class Energy(Protocol):
    """What the joint model asks of an energy: low where text is likely.

    Continuations are given without padding: texts that end are scored with others of their length (`unpadded`).
    """

    @property
    def features(self) -> StateFeatures | None: ...

    def score(self, prefix: Tensor, continuations: Tensor, features: Tensor | None = None) -> Tensor: ...


def as_energy(obj: Any, lm: LanguageModel) -> Energy:
    """`obj` as an energy for this LM.

    An `EnergyModel` or `TextEnergy` is fitted to the LM; an object with `score` and `features` is taken as it
    is; any other module or callable is a function from token ids (N, L) to numbers (N,).

    Examples:
        >>> import torch
        >>> from lexergy import as_energy
        >>> from lexergy.testing import EnumerableLM
        >>> energy = as_energy(lambda tokens: (tokens == 6).sum(-1), EnumerableLM())
        >>> energy.score(torch.tensor([[1, 2]]), torch.tensor([[[6, 6], [3, 4]]])).tolist()
        [[2.0, 0.0]]
    """
    if callable(getattr(obj, "attach", None)):
        return obj.attach(lm)
    return wrapped(obj)


def wrapped(obj: Any) -> Energy:
    """`obj` with the interface of an energy, before an LM is known."""
    if isinstance(obj, Energy):
        return obj
    if callable(obj):
        return TokenEnergy(obj)
    raise LexergyError(
        f"the energy is a {type(obj).__name__}; expected an EnergyModel, a function from token ids (B, L) to "
        "(B,), an nn.Module of that kind, or TextEnergy(function of texts)."
    )


class TokenEnergy(nn.Module):
    """A function or module from whole sequences of token ids (N, L) to energies (N,)."""

    features: StateFeatures | None = None

    def __init__(self, function: Callable[[Tensor], Tensor], *, rows_per_batch: int = 256) -> None:
        super().__init__()
        self.function = function
        self.rows_per_batch = rows_per_batch

    def score(self, prefix: Tensor, continuations: Tensor, features: Tensor | None = None) -> Tensor:
        """E of K continuations (B, K, C) of each prefix (B, P): (B, K)."""
        return self(prefix, continuations, features)

    def forward(self, prefix: Tensor, continuations: Tensor, features: Tensor | None = None) -> Tensor:
        check_shapes(prefix, continuations)
        tokens = sequence_batches(prefix.to(device_of(self)), continuations.to(device_of(self)), self.rows_per_batch)
        scores = [_checked(self.function(rows), len(rows), self.function) for rows in tokens]
        return by_prefix(scores, continuations)


class TextEnergy:
    """A function from a list of texts, each prefix and continuation together, to as many numbers.

    Examples:
        >>> from lexergy import CausalLM, ResidualEBM, TextEnergy
        >>> from lexergy.testing import EnumerableLM, EnumerableMaskedLM
        >>> words = EnumerableMaskedLM().tokenizer  # six words and the special tokens
        >>> lm = CausalLM(EnumerableLM(len(words)).model, words, forbidden_tokens=range(5))
        >>> joint = ResidualEBM(lm, TextEnergy(lambda texts: [-5.0 * text.count("union") for text in texts]))
        >>> out = joint.generate("the state", num_candidates=512, max_new_tokens=4, seed=0)
        >>> out.text.count("union") > 0
        True
    """

    features: StateFeatures | None = None

    def __init__(
        self,
        function: Callable[[list[str]], Any],
        *,
        rows_per_batch: int = 256,
        lm_tokenizer: PreTrainedTokenizerBase | None = None,
    ) -> None:
        self.function = function
        self.rows_per_batch = rows_per_batch
        self.lm_tokenizer = lm_tokenizer

    def attach(self, lm: LanguageModel) -> "TextEnergy":
        """The same energy, decoding with this LM's tokenizer."""
        if lm.tokenizer is None:
            raise LexergyError(
                "this energy reads text and the LM has no tokenizer to decode with; expected "
                "`CausalLM(model, tokenizer)`; or give a function of token ids."
            )
        return TextEnergy(self.function, rows_per_batch=self.rows_per_batch, lm_tokenizer=lm.tokenizer)

    def score(self, prefix: Tensor, continuations: Tensor, features: Tensor | None = None) -> Tensor:
        """E of K continuations (B, K, C) of each prefix (B, P): (B, K)."""
        check_shapes(prefix, continuations)
        if self.lm_tokenizer is None:
            raise LexergyError(
                "this energy reads text and does not know the LM's tokenizer; expected "
                "`as_energy(energy, lm)` before the first score."
            )
        scores = []
        for rows in sequence_batches(prefix, continuations, self.rows_per_batch):
            numbers = self.function(decode(self.lm_tokenizer, rows))
            values = torch.as_tensor(numbers, dtype=torch.float32, device=prefix.device)
            scores.append(_checked(values, len(rows), self.function))
        return by_prefix(scores, continuations)


def _checked(values: Any, rows: int, function: Any) -> Tensor:
    if not isinstance(values, Tensor) or values.shape != (rows,):
        given = f"shape {tuple(values.shape)}" if isinstance(values, Tensor) else f"a {type(values).__name__}"
        name = getattr(function, "__name__", type(function).__name__)
        raise LexergyError(
            f"the energy `{name}` returned {given} for {rows} sequences; expected a tensor of shape "
            f"({rows},), one number per sequence."
        )
    return values if values.is_floating_point() else values.float()
