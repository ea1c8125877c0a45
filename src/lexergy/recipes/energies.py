"""The sections of a recipe that describe its energies, and the table of their kinds.

A new kind is its model and builder in `models/energies`, its section here, and one row of `ENERGY_KINDS`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from lexergy.recipes.presets import BILSTMS, with_preset
from lexergy.recipes.section import OneOf, PositiveFloat, PositiveInt, Section
from lexergy.recipes.training import TrainingRecipe

Pooling = Literal["continuation", "sequence", "first"]
Statistics = Literal["summary", "moments"]


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


class TrainedEnergyRecipe(LearntEnergyRecipe):
    """An energy trained by NCE or another objective, step by step."""

    added_later = LearntEnergyRecipe.added_later | {"objective"}

    training: TrainingRecipe
    objective: ObjectiveRecipe = ObjectiveRecipe()


class StatesHeadRecipe(LearntEnergyRecipe):
    """A head on the frozen LM's own hidden states and likelihood statistics (`layers` []: on these alone).

    `statistics`: a `summary` of the continuation, or `moments`, which are means over its tokens.
    """

    added_later = LearntEnergyRecipe.added_later | {"statistics"}

    layers: tuple[Annotated[int, Field(ge=0)], ...]
    statistics: Statistics = "summary"

    @property
    def state_layers(self) -> tuple[int, ...]:
        return self.layers

    @property
    def state_statistics(self) -> Statistics:
        return self.statistics


class StatesEnergyRecipe(TrainedEnergyRecipe, StatesHeadRecipe):
    """A head on states and statistics, trained step by step; with `hidden_units` it is no longer linear."""

    added_later = TrainedEnergyRecipe.added_later | StatesHeadRecipe.added_later

    kind: Literal["states"]
    hidden_units: PositiveInt | None = None
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0


class FittedStatesEnergyRecipe(StatesHeadRecipe):
    """A linear head on states and statistics, fitted to all pairs, those of validation too.

    The penalties on the squares of its weights are chosen, of these, by cross-validation over documents.
    """

    kind: Literal["fitted_states"]
    loss: Literal["nce", "ranking-nce"] = "nce"
    folds: Annotated[int, Field(ge=2)] = 6
    state_penalties: tuple[PositiveFloat, ...] = Field((0.03, 0.1, 0.3), min_length=1)
    statistic_penalties: tuple[PositiveFloat, ...] = Field((0.003, 0.03), min_length=1)


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


def _sections(*reads: Reads) -> list[type[Section]]:
    return list(dict.fromkeys(kind.recipe for kind in ENERGY_KINDS.values() if kind.reads in reads))


AnyEnergyRecipe = Annotated[
    LearntEnergyRecipe | SumEnergyRecipe, OneOf(lambda: _sections("states", "tokens", "text", "energies"))
]
# Those that read nothing but a window.
WindowEnergyRecipe = Annotated[TrainedEnergyRecipe, OneOf(lambda: _sections("tokens", "text"))]
