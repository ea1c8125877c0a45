"""Sections that correct the base LM token by token: `lm.residual`."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from lexergy.recipes.sections.section import Fraction, OneOf, PositiveFloat, PositiveInt, Section
from lexergy.recipes.sections.training import TrainingRecipe

RESIDUAL_STATES, RESIDUAL_PERPLEXITY = "residual_states", "residual_perplexity"  # stages
ResidualKind = Literal["unigram", "adapter", "ngram"]


class LocalResidualRecipe(Section):
    """What all kinds have in common."""

    kind: ResidualKind


class UnigramRecipe(LocalResidualRecipe):
    """The log-ratio of the domain's unigrams to the LM's own average prediction, times a strength.

    `strength` null: the one under which validation text is likeliest. `smoothing` is added to the counts of both.
    """

    kind: Literal["unigram"]
    smoothing: PositiveFloat = 1.0
    strength: Annotated[float, Field(ge=0)] | None = None


class AdapterRecipe(LocalResidualRecipe):
    """A change of rank `rank` of the LM's output layer, by maximum likelihood on what the LM has read.

    `tied`: it changes the last state before the output layer, W (h + A B h), with few parameters; else the logits, of
    which each token has `rank` numbers of its own. Examples of the training are positions.
    """

    kind: Literal["adapter"]
    rank: PositiveInt = 16
    tied: bool = True
    training: TrainingRecipe = TrainingRecipe(
        learning_rate=1e-3, max_steps=80, batch_size=512, warmup_steps=5, evaluate_every=10, patience=2
    )


class NgramRecipe(LocalResidualRecipe):
    """An n-gram model of the training documents mixed in (Kneser-Ney, with the LM in the place of unigrams).

    `weight` null: for each length of context the one under which validation text is likeliest.
    """

    kind: Literal["ngram"]
    order: Annotated[int, Field(ge=2, le=16)] = 5
    weight: Annotated[float, Field(ge=0, lt=1)] | None = None


class ResidualFitRecipe(Section):
    """What local residuals are fitted on.

    The LM reads about `tokens` of the training documents and `validation_tokens` of the validation documents; n-grams
    and unigrams are counted in all of the residual's documents. These are the `share` of the training documents whose
    windows no energy is trained on: what the n-gram model has counted it would know by heart, and the LM's negatives
    there would not be like those elsewhere.
    """

    tokens: PositiveInt = 40_000
    validation_tokens: PositiveInt = 8_000
    share: Fraction = 0.8


@dataclass(frozen=True)
class LocalResidualKind:
    """The section that describes a kind, the function of (`Fitting`) that fits it, as "module:function"; a sentence."""

    recipe: type[LocalResidualRecipe]
    fit: str
    description: str


LOCAL_RESIDUALS: dict[str, LocalResidualKind] = {
    "unigram": LocalResidualKind(
        UnigramRecipe,
        "lexergy.tasks.residual.local_residuals:fit_unigram",
        "The log-ratio of the domain's unigrams to the LM's own average prediction.",
    ),
    "adapter": LocalResidualKind(
        AdapterRecipe,
        "lexergy.tasks.residual.local_residuals:fit_adapter",
        "A low-rank change of the LM's output layer.",
    ),
    "ngram": LocalResidualKind(
        NgramRecipe,
        "lexergy.tasks.residual.local_residuals:fit_ngram",
        "An n-gram model of the domain, mixed in.",
    ),
}
"""In the order in which they are fitted and applied."""


def residual_folder(kind: str) -> str:
    """The stage of a residual: the LM with it and with those before it."""
    return f"residual_{kind}"


def _named(value: Any) -> Any:
    """`unigram` is short for `{kind: unigram}`."""
    return {"kind": value} if isinstance(value, str) else value


def in_order(residuals: tuple[LocalResidualRecipe, ...]) -> tuple[LocalResidualRecipe, ...]:
    """As they are applied, whatever their order in the recipe; each kind once."""
    kinds = [residual.kind for residual in residuals]
    twice = [kind for kind in kinds if kinds.count(kind) > 1]
    if twice:
        raise ValueError(f"`{twice[0]}` is named twice; expected each kind of residual once")
    return tuple(sorted(residuals, key=lambda residual: list(LOCAL_RESIDUALS).index(residual.kind)))


AnyLocalResidualRecipe = Annotated[
    LocalResidualRecipe,
    OneOf(lambda: [kind.recipe for kind in LOCAL_RESIDUALS.values()]),
    BeforeValidator(_named),
]
