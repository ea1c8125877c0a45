"""A weighted sum of energies: the product of their models, before normalisation."""

from collections.abc import Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from lexergy.errors import LexergyError
from lexergy.models.causal.language_model import LanguageModel
from lexergy.models.causal.state_features import StateFeatures, pick_features, union
from lexergy.models.energies.adapters import Energy, as_energy, wrapped
from lexergy.models.energies.base import EnergyConfig, EnergyModel
from lexergy.models.loading.places import located, portable

_OPENING: ContextVar[tuple[str, ...]] = ContextVar("opening", default=())  # the folders of sums that are being read


class SumEnergyConfig(EnergyConfig):
    """The folders of the parts; None for a part that was never in a folder."""

    model_type = "lexergy_sum"

    parts: list[str | None] | None = None


class SumEnergy(EnergyModel):
    """E(x) = c_0 + sum_i c_i E_i(x): the joint model is P_LM(x) exp(-c_0) prod_i exp(-E_i(x))^c_i.

    Its file holds the coefficients; the parts stay in their own folders and are found again beside the sum's,
    so that a run can be moved. `core.fitting.combination.fit_combination` fits the coefficients.

    Examples:
        >>> import torch
        >>> from lexergy import SumEnergy
        >>> def repetitions(tokens):  # (N, L) -> (N,)
        ...     return (tokens[:, 1:] == tokens[:, :-1]).sum(-1)
        >>> def sixes(tokens):
        ...     return (tokens == 6).sum(-1)
        >>> energy = SumEnergy.of([repetitions, sixes], coefficients=[3.0, 1.0])
        >>> energy.score(torch.tensor([[1, 2]]), torch.tensor([[[6, 6], [3, 4]]])).tolist()
        [[5.0, 0.0]]
    """

    config_class = SumEnergyConfig
    constant: Tensor  # ()
    coefficients: Tensor  # (n,)

    def __init__(self, config: SumEnergyConfig, parts: Sequence[Energy]) -> None:
        super().__init__(config)
        if not parts:
            raise LexergyError("a sum of no energies; expected at least one.")
        self.parts = list(parts)
        # Registered, so that they go to evaluation mode and to the device with the sum.
        self.part_modules = nn.ModuleList(part for part in parts if isinstance(part, nn.Module))
        self.constant = nn.Parameter(torch.zeros(()))
        self.coefficients = nn.Parameter(torch.ones(len(parts)))

    @classmethod
    def of(cls, parts: Sequence[Any], coefficients: Sequence[float] | None = None, constant: float = 0.0) -> Self:
        """The sum of energies, each given as the folder that it was saved in or as anything that is an energy.

        The coefficients are 1 unless given. Only a sum of folders can be saved.
        """
        folders = [str(Path(part).resolve()) if isinstance(part, str | Path) else None for part in parts]
        opened = [
            wrapped(part) if folder is None else _from_folder(folder)
            for part, folder in zip(parts, folders, strict=True)
        ]
        energy = cls(SumEnergyConfig(parts=folders), opened)
        if coefficients is not None and len(coefficients) != len(parts):
            raise LexergyError(f"{len(coefficients)} coefficients for {len(parts)} energies; expected one for each.")
        with torch.no_grad():
            energy.constant.fill_(constant)
            if coefficients is not None:
                energy.coefficients.copy_(torch.tensor(coefficients))
        return energy.eval()

    @property
    def features(self) -> StateFeatures | None:
        return union(part.features for part in self.parts)

    def forward(self, prefix: Tensor, continuations: Tensor, features: Tensor | None = None) -> Tensor:
        total = self.constant
        for coefficient, part in zip(self.coefficients, self.parts, strict=True):
            total = total + coefficient * part.score(
                prefix, continuations, pick_features(part.features, features, self.features)
            )
        return total  # (B, K)

    def attach(self, lm: LanguageModel) -> Self:
        """Make each part an energy for this LM."""
        self.parts = [as_energy(part, lm) for part in self.parts]
        return self

    def saved_state(self) -> dict[str, Tensor]:
        return {"constant": self.constant.detach(), "coefficients": self.coefficients.detach()}

    def save_pretrained(self, folder: str | Path, **kwargs: Any) -> None:  # type: ignore[override]
        sources = self.config.parts or []
        known = [source for source in sources if source is not None]
        if len(known) < len(self.parts):
            raise LexergyError(
                "some part of this sum is in no folder; expected energies that were saved; save each part, and sum "
                "up the folders: `SumEnergy.of([folder, ...])`."
            )
        try:
            self.config.parts = [portable(source, Path(folder)) for source in known]
            super().save_pretrained(folder, **kwargs)
        finally:
            self.config.parts = sources

    @classmethod
    def assemble(cls, config: SumEnergyConfig, source: str) -> Self:
        folders = [located(part, source) for part in config.parts or [] if part is not None]
        config.parts = [*folders]
        opening = (*_OPENING.get(), str(Path(source).resolve()))
        if not {str(Path(folder).resolve()) for folder in folders}.isdisjoint(opening):
            raise LexergyError(f"the sum in '{source}' is a part of itself; expected other energies; make it again.")
        token = _OPENING.set(opening)
        try:
            return cls(config, [_from_folder(folder) for folder in folders])
        finally:
            _OPENING.reset(token)


def _from_folder(folder: str) -> EnergyModel:
    return EnergyModel.from_pretrained(folder).requires_grad_(False)
