"""The sections of a recipe that describe its energies, and what they are trained to minimise."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from lexergy.recipes.presets import BILSTMS, with_preset
from lexergy.recipes.section import PositiveInt, Section
from lexergy.recipes.training import TrainingRecipe

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


class ObjectiveRecipe(Section):
    """What is minimised: `nce`, or `ranking` by a margin; and which of its negatives a text meets at each step."""

    loss: Literal["nce", "ranking"] = "nce"
    mining: Literal["random", "hardest", "all"] = "random"
    margin: Annotated[float, Field(gt=0)] = 1.0

    @model_validator(mode="after")
    def _only_ranking_has_a_margin(self) -> Self:
        if self.margin != 1.0 and self.loss != "ranking":
            raise ValueError(
                f"`margin` is {self.margin} and `loss` {self.loss}; expected `loss: ranking`, or no margin"
            )
        return self


class TrainedEnergyRecipe(Section):
    """An energy trained by NCE or another objective, on a random `pairs` of the training windows (null: on all)."""

    added_later = frozenset({"pairs", "objective"})

    training: TrainingRecipe
    objective: ObjectiveRecipe = ObjectiveRecipe()
    pairs: PositiveInt | None = None


class StatesEnergyRecipe(TrainedEnergyRecipe):
    """A head on the frozen LM's own hidden states and likelihood statistics (`layers` []: on these alone)."""

    kind: Literal["states"]
    layers: tuple[Annotated[int, Field(ge=0)], ...]
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


class EncoderEnergyRecipe(TrainedEnergyRecipe):
    """BiT*: a pre-trained encoder with its own tokenizer."""

    added_later = TrainedEnergyRecipe.added_later | {"pooling"}

    kind: Literal["encoder"]
    source: str
    pooling: Pooling = "continuation"
    lora: LoraRecipe | None = None


class RefreshedEnergyRecipe(TrainedEnergyRecipe):
    """An energy named before (`of`) trained on, against one new negative per prefix.

    They are drawn from its joint model, by resampling so many `candidates` (`noise: joint`, dynamic NCE), or,
    to compare, from the LM.
    """

    kind: Literal["refreshed"]
    of: str
    noise: Literal["joint", "lm"] = "joint"
    candidates: Annotated[int, Field(ge=2)] = 16

    @model_validator(mode="after")
    def _new_negatives_are_a_law(self) -> Self:
        if self.objective.loss != "nce":
            raise ValueError(
                f"`objective.loss` is {self.objective.loss}; expected nce, which reads the law of the new negatives"
            )
        return self


class SumEnergyRecipe(Section):
    """Other energies of the recipe together, each with a coefficient fitted on the validation pairs."""

    kind: Literal["sum"]
    of: tuple[str, ...] = Field(min_length=1)


EnergyRecipe = Annotated[
    StatesEnergyRecipe
    | LinearEnergyRecipe
    | BiLSTMEnergyRecipe
    | TransformerEnergyRecipe
    | EncoderEnergyRecipe
    | RefreshedEnergyRecipe
    | SumEnergyRecipe,
    Field(discriminator="kind"),
]
