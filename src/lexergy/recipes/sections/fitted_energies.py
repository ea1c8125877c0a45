"""The sections of energies that are heads on features of a text, and of those that are fitted in one piece."""

from typing import Annotated, Literal

from pydantic import Field

from lexergy.recipes.sections.energy import LearntEnergyRecipe, Statistics
from lexergy.recipes.sections.section import PositiveFloat

Layers = tuple[Annotated[int, Field(ge=0)], ...]
Penalties = Annotated[tuple[PositiveFloat, ...], Field(min_length=1)]


class StatesHeadRecipe(LearntEnergyRecipe):
    """A head on the frozen LM's own hidden states and likelihood statistics (`layers` []: on these alone).

    `statistics`: a `summary` of the continuation, or `moments`, which are means over its tokens.
    """

    added_later = LearntEnergyRecipe.added_later | {"statistics"}

    layers: Layers
    statistics: Statistics = "summary"

    @property
    def state_layers(self) -> tuple[int, ...]:
        return self.layers

    @property
    def state_statistics(self) -> Statistics:
        return self.statistics


class FittedEnergyRecipe(LearntEnergyRecipe):
    """A linear head on features, fitted to all pairs, those of validation too.

    The penalties on the squares of its weights are chosen, of these, by cross-validation over documents.
    """

    loss: Literal["nce", "ranking-nce"] = "nce"
    folds: Annotated[int, Field(ge=2)] = 6
    state_penalties: Penalties = (0.03, 0.1, 0.3)

    @property
    def penalties(self) -> dict[str, tuple[float, ...]]:
        """Those that are tried, by the group of features that they are on."""
        return {"states": self.state_penalties}


class FittedLikelihoodRecipe(FittedEnergyRecipe):
    """A fitted head that reads likelihood statistics too, with penalties of their own."""

    statistic_penalties: Penalties = (0.003, 0.03)

    @property
    def penalties(self) -> dict[str, tuple[float, ...]]:
        return {"states": self.state_penalties, "statistics": self.statistic_penalties}


class FittedStatesEnergyRecipe(FittedLikelihoodRecipe, StatesHeadRecipe):
    """A fitted head on the frozen LM's own hidden states and likelihood statistics."""

    added_later = StatesHeadRecipe.added_later

    kind: Literal["fitted_states"]


class FittedReaderEnergyRecipe(FittedLikelihoodRecipe):
    """A fitted head on the states and statistics of another causal LM that reads the decoded text.

    `source` is that of any LM that can run here; whose text it reads does not matter to it.
    """

    kind: Literal["fitted_reader"]
    source: str
    layers: Layers
    statistics: Statistics = "summary"

    @property
    def outside_source(self) -> str:
        return self.source


class FittedEncoderEnergyRecipe(FittedEnergyRecipe):
    """A fitted head on the states of a frozen encoder that reads the decoded text, means over the continuation."""

    kind: Literal["fitted_encoder"]
    source: str
    layers: Annotated[Layers, Field(min_length=1)]
    state_penalties: Penalties = (0.1, 0.3, 1.0)

    @property
    def outside_source(self) -> str:
        return self.source
