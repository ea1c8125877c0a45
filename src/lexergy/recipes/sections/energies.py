"""The sections of a recipe that describe its energies, and the table of their kinds.

A new kind is its model and builder in `models/energies`, its section here, and one row of `ENERGY_KINDS`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from lexergy.recipes.sections.energy import EnergyRecipe, LearntEnergyRecipe
from lexergy.recipes.sections.fitted_energies import (
    FittedEncoderEnergyRecipe,
    FittedReaderEnergyRecipe,
    FittedStatesEnergyRecipe,
    StatesHeadRecipe,
)
from lexergy.recipes.sections.presets import BILSTMS, with_preset
from lexergy.recipes.sections.section import OneOf, PositiveInt, Section
from lexergy.recipes.sections.training import TrainingRecipe

Pooling = Literal["continuation", "sequence", "first"]


class LoraRecipe(Section):
    """Low-rank adapters in place of training all weights."""

    rank: PositiveInt = 8
    alpha: Annotated[float, Field(gt=0)] = 16.0


class NgramTablesRecipe(Section):
    """Hashed n-gram embeddings beside the transformer's own."""

    orders: tuple[PositiveInt, ...] = (2, 3, 4)
    buckets: PositiveInt = 65536
    width: PositiveInt = 16


OBJECTIVES = {
    "nce": "lexergy.training.objectives.contrastive:NoiseContrastive",
    "ranking-nce": "lexergy.training.objectives.contrastive:RankingNoiseContrastive",
    "ranking": "lexergy.training.objectives.contrastive:Ranking",
}
"""What an energy may minimise: a `PairObjective` as "module:class", imported when it is called for."""


class ObjectiveRecipe(Section):
    """What is minimised: `nce`, its ranking form, or `ranking` by a margin; and which negatives a text meets."""

    loss: Literal[*OBJECTIVES] = "nce"  # type: ignore[valid-type]
    mining: Literal["random", "hardest", "all"] = "random"
    margin: Annotated[float, Field(gt=0)] = 1.0

    @model_validator(mode="after")
    def _only_ranking_has_a_margin(self) -> Self:
        if self.margin != 1.0 and self.loss != "ranking":
            raise ValueError(
                f"`margin` is {self.margin} and `loss` {self.loss}; expected `loss: ranking`, or no margin"
            )
        return self


class TrainedEnergyRecipe(LearntEnergyRecipe):
    """An energy trained by NCE or another objective, step by step."""

    added_later = LearntEnergyRecipe.added_later | {"objective"}

    training: TrainingRecipe
    objective: ObjectiveRecipe = ObjectiveRecipe()


class StatesEnergyRecipe(TrainedEnergyRecipe, StatesHeadRecipe):
    """A head on states and statistics, trained step by step; with `hidden_units` it is no longer linear."""

    added_later = TrainedEnergyRecipe.added_later | StatesHeadRecipe.added_later

    kind: Literal["states"]
    hidden_units: PositiveInt | None = None
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0


class LinearEnergyRecipe(TrainedEnergyRecipe):
    """A learnt number for each token, summed over prefix and continuation."""

    kind: Literal["linear"]


class BiLSTMEnergyRecipe(TrainedEnergyRecipe):
    """Bidirectional LSTMs over prefix and continuation, from scratch; `hidden_size` is that of each direction.

    `preset` names a shape of `presets.BILSTMS`, whose keys need not be written then.
    """

    kind: Literal["bilstm"]
    embedding_size: PositiveInt
    hidden_size: PositiveInt
    num_layers: PositiveInt
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0

    @model_validator(mode="before")
    @classmethod
    def _filled_in(cls, keys: Any) -> Any:
        return with_preset(keys, BILSTMS)


class TransformerEnergyRecipe(TrainedEnergyRecipe):
    """UniT (causal) or BiT (bidirectional) over the sequence, from weights trained before.

    `pooling`: the head reads the mean over the `continuation` or over the whole `sequence`, or, in a BiT, the
    `first` position.
    """

    added_later = TrainedEnergyRecipe.added_later | {"pooling"}

    kind: Literal["unit", "bit"]
    origin: Literal["lm", "masked_lm"] = Field("lm", alias="from")
    pooling: Pooling = "continuation"
    lora: LoraRecipe | None = None
    ngram_tables: NgramTablesRecipe | None = None

    @model_validator(mode="after")
    def _unit_is_causal(self) -> "TransformerEnergyRecipe":
        if self.kind == "unit" and self.origin == "masked_lm":
            raise ValueError("`from` is masked_lm; expected lm, since a `unit` energy reads left to right")
        if self.kind == "unit" and self.pooling == "first":
            raise ValueError(
                "`pooling` is first; expected continuation or sequence, since a `unit` reads left to right"
            )
        return self

    @property
    def starts_from(self) -> tuple[str, ...]:
        return (self.origin,)


class EncoderEnergyRecipe(TrainedEnergyRecipe):
    """BiT*: a pre-trained encoder with its own tokenizer."""

    added_later = TrainedEnergyRecipe.added_later | {"pooling"}

    kind: Literal["encoder"]
    source: str
    pooling: Pooling = "continuation"
    lora: LoraRecipe | None = None

    @property
    def outside_source(self) -> str:
        return self.source


class RefreshedEnergyRecipe(TrainedEnergyRecipe):
    """An energy named before (`of`) trained on, against one new negative per prefix.

    They are drawn from its joint model, by resampling so many `candidates` (`noise: joint`, dynamic NCE, with that
    sampler's density in the logit), or, to compare, from the LM.
    """

    kind: Literal["refreshed"]
    of: str
    noise: Literal["joint", "lm"] = "joint"
    candidates: Annotated[int, Field(ge=2)] = 16

    @model_validator(mode="after")
    def _only_nce_knows_its_noise(self) -> Self:
        if self.objective.loss != "nce":
            raise ValueError(
                f"`objective.loss` is {self.objective.loss}; expected nce, which knows how the new negatives were drawn"
            )
        return self

    @property
    def starts_from(self) -> tuple[str, ...]:
        return (self.of,)

    @property
    def revision(self) -> int:
        return 1 if self.noise == "joint" else 0  # 1: the noise's density is that of the sampler

    def check_beside(self, name: str, energies: Mapping[str, EnergyRecipe]) -> None:
        before = _learnt(dict(takewhile(lambda entry: entry[0] != name, energies.items())))
        if self.of not in before:
            raise ValueError(
                f"the energy `{name}` is trained on from `{self.of}`; expected one of "
                f"{', '.join(before) or 'the energies'} named before it, and no sum"
            )


class SumEnergyRecipe(EnergyRecipe):
    """Other energies of the recipe together, each with a coefficient fitted on the validation pairs."""

    kind: Literal["sum"]
    of: tuple[str, ...] = Field(min_length=1)

    @property
    def starts_from(self) -> tuple[str, ...]:
        return self.of

    def check_beside(self, name: str, energies: Mapping[str, EnergyRecipe]) -> None:
        trained = _learnt(energies)
        if not set(self.of) <= set(trained) or len(set(self.of)) < len(self.of):
            raise ValueError(
                f"the energy `{name}` is a sum of {', '.join(self.of)}; expected some of "
                f"{', '.join(trained) or 'the energies trained here'}, each once: the recipe's energies that are "
                "no sums themselves"
            )


def _learnt(energies: Mapping[str, EnergyRecipe]) -> list[str]:
    return [name for name, energy in energies.items() if isinstance(energy, LearntEnergyRecipe)]


Reads = Literal["states", "tokens", "text", "energies"]


@dataclass(frozen=True)
class EnergyKind:
    """A kind of energy: the section that describes it, what it reads, how it is built, what it is in a sentence.

    `builder` names a function of (recipe, `Origins`, seed) as "module:function", imported when it is called, so that
    recipes are read without torch. None: it is fitted to energies that are built already.
    """

    recipe: type[EnergyRecipe]
    reads: Reads
    builder: str | None
    description: str


ENERGY_KINDS: dict[str, EnergyKind] = {
    "states": EnergyKind(
        StatesEnergyRecipe,
        "states",
        "lexergy.models.energies.states:build_states",
        "A head on the frozen LM's own hidden states: next to nothing to compute while sampling.",
    ),
    "fitted_states": EnergyKind(
        FittedStatesEnergyRecipe,
        "states",
        "lexergy.models.energies.states:build_fitted_states",
        "A linear head on the frozen LM's own hidden states, its penalties chosen by cross-validation over documents.",
    ),
    "linear": EnergyKind(
        LinearEnergyRecipe,
        "tokens",
        "lexergy.models.energies.tokens:build_linear",
        "Linear: a learnt number for each token of the sequence, summed.",
    ),
    "bilstm": EnergyKind(
        BiLSTMEnergyRecipe,
        "tokens",
        "lexergy.models.energies.tokens:build_bilstm",
        "BiLSTM: bidirectional LSTMs over the whole sequence, trained from scratch.",
    ),
    "unit": EnergyKind(
        TransformerEnergyRecipe,
        "tokens",
        "lexergy.models.energies.transformer:build_transformer",
        "UniT: a causal transformer over the whole sequence.",
    ),
    "bit": EnergyKind(
        TransformerEnergyRecipe,
        "tokens",
        "lexergy.models.energies.transformer:build_transformer",
        "BiT: a bidirectional transformer over the whole sequence.",
    ),
    "encoder": EnergyKind(
        EncoderEnergyRecipe,
        "text",
        "lexergy.models.energies.transformer:build_encoder",
        "BiT*: a pre-trained encoder that reads the decoded text with its own tokenizer.",
    ),
    "fitted_encoder": EnergyKind(
        FittedEncoderEnergyRecipe,
        "text",
        "lexergy.models.energies.readers:build_fitted_encoder",
        "A linear head on the states of a frozen encoder that reads the decoded text.",
    ),
    "fitted_reader": EnergyKind(
        FittedReaderEnergyRecipe,
        "text",
        "lexergy.models.energies.readers:build_fitted_reader",
        "A linear head on the states of another frozen LM that reads the decoded text.",
    ),
    "refreshed": EnergyKind(
        RefreshedEnergyRecipe,
        "energies",
        "lexergy.models.energies.origins:build_refreshed",
        "An energy trained on, against negatives drawn anew (dynamic NCE).",
    ),
    "sum": EnergyKind(
        SumEnergyRecipe,
        "energies",
        None,
        "A weighted sum of other energies; its few coefficients were fitted on the validation pairs.",
    ),
}


def _sections() -> list[type[EnergyRecipe]]:
    return list(dict.fromkeys(kind.recipe for kind in ENERGY_KINDS.values()))


def _window_sections() -> list[type[EnergyRecipe]]:
    """Of those that are trained and read nothing but a window."""
    sections = dict.fromkeys(kind.recipe for kind in ENERGY_KINDS.values() if kind.reads in ("tokens", "text"))
    return [section for section in sections if issubclass(section, TrainedEnergyRecipe)]


AnyEnergyRecipe = Annotated[LearntEnergyRecipe | SumEnergyRecipe, OneOf(_sections)]
WindowEnergyRecipe = Annotated[TrainedEnergyRecipe, OneOf(_window_sections)]
