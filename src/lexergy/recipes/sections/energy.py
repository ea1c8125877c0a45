"""What the sections of all energies have in common."""

from collections.abc import Mapping
from typing import Literal

from lexergy.recipes.sections.section import PositiveInt, Section

Statistics = Literal["summary", "moments"]


class EnergyRecipe(Section):
    """What a run asks of every energy."""

    @property
    def state_layers(self) -> tuple[int, ...] | None:
        """The layers of the LM whose states it reads; None when it reads none."""
        return None

    @property
    def state_statistics(self) -> Statistics:
        """Which likelihood statistics it reads beside the states."""
        return "summary"

    @property
    def starts_from(self) -> tuple[str, ...]:
        """The stages whose weights it is made of: `lm`, `masked_lm`, other energies."""
        return ()

    @property
    def outside_source(self) -> str | None:
        """Where weights from outside the run are found, if it starts from such."""
        return None

    @property
    def revision(self) -> int:
        """Raised when the same keys come to mean other numbers, so that energies trained before are trained again."""
        return 0

    def check_beside(self, name: str, energies: Mapping[str, "EnergyRecipe"]) -> None:
        """Refuse what does not fit the energies of the recipe, in their order, of which this is `name`."""


class LearntEnergyRecipe(EnergyRecipe):
    """An energy learnt from the pairs of a random `pairs` of the training windows (null: of all)."""

    added_later = frozenset({"pairs"})

    pairs: PositiveInt | None = None
    kind: str
