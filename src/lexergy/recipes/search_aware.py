"""Recipes of search-aware training: a tagger or translator, the search that it is decoded by, and what it minimises."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from lexergy.recipes.sections.section import Fraction, PositiveFloat, PositiveInt, Recipe, Section, check_folder_names
from lexergy.recipes.sections.training import Keep, Tracker, TrainingRecipe

Normalisation = Literal["local", "global"]
Column = Annotated[int, Field(ge=0)]
RESERVED = ("data", "evaluation")  # folders of a run beside those of its objectives


class SearchRecipe(Section):
    """How sequences are searched for: a beam of 1 is greedy.

    Scores are log-probabilities (local) or raw (global); null: as the model was trained. The last beam is ordered by
    score over length to the power `length_penalty`. With `alpha` the search is the continuous one, decoded by the
    choices of most mass (4.3.4, Goyal 2021); it knows no length penalty.
    """

    beam: PositiveInt = 1
    normalisation: Normalisation | None = None
    alpha: PositiveFloat | None = None
    length_penalty: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0

    @model_validator(mode="after")
    def _penalties_are_of_hard_search(self) -> Self:
        if self.alpha is not None and self.length_penalty:
            raise ValueError("`alpha` and `length_penalty` are both given; expected one: continuous or hard search")
        return self


class TaggedRecipe(Section):
    """Sentences with a label for each word (`lexergy.data.tagging.splits.load_tagged_splits`).

    `source` is `ud-ewt`, `conll2003`, a folder or a file; `validation` and `test` other files, or else a `share` of it.
    Training sentences of more than `max_words` are left out.
    """

    kind: Literal["tagging"] = "tagging"
    source: str
    validation: str | None = None
    test: str | None = None
    format: Literal["conll", "lines", "composed", "ccgbank", "stagged"] | None = None
    word_column: int | None = None
    label_column: int | None = None
    scheme: Literal["iob2"] | None = None
    share: Fraction = 0.1
    max_words: PositiveInt | None = 40


class TranslatedRecipe(Section):
    """Pairs: `tatoeba-de-en`, a file with tabs, IWSLT'14 (`lexergy.data.translation.words.load_word_pairs`).

    Of more training pairs than `max_pairs`, as many are taken, evenly spread.
    """

    added_later = frozenset({"max_pairs"})

    kind: Literal["translation"] = "translation"
    source: str
    source_column: Column = 0
    target_column: Column = 1
    validation: Fraction = 0.05
    test: Fraction = 0.05
    max_words: PositiveInt | None = None
    max_pairs: PositiveInt | None = None


class Seq2SeqRecipe(Section):
    """Sizes of the layers; `features` are what is known of a word and the width of each (`lexergy.data.vocabulary`).

    What occurs less than `minimum` times is unknown. A `character_size` lets words be spelt by a convolution.
    """

    features: dict[Literal["word", "lower", "suffix", "shape"], PositiveInt]
    character_size: Annotated[int, Field(ge=0)] = 0
    symbol_size: PositiveInt = 64
    encoder_size: PositiveInt = 128
    decoder_size: PositiveInt = 128
    bidirectional: bool = True
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    minimum: PositiveInt = 2


class LearningRecipe(Section):
    """A training counted in passes over the data; `warmup` is a share of it."""

    added_later = frozenset({"keep"})

    epochs: PositiveFloat
    learning_rate: PositiveFloat
    batch_size: PositiveInt = 32
    warmup: Annotated[float, Field(ge=0, le=1)] = 0.05
    schedule: Literal["cosine", "linear", "constant"] = "cosine"
    max_grad_norm: PositiveFloat | None = 5.0
    evaluations_per_epoch: PositiveInt = 1
    patience: PositiveInt | None = None
    keep: Keep = "best"
    trackers: tuple[Tracker, ...] = Field(default=(), exclude=True)  # decide no result

    def training(self, num_examples: int, seed: int) -> TrainingRecipe:
        """The same in steps."""
        batch_size = min(self.batch_size, num_examples)
        epoch = -(-num_examples // batch_size)
        steps = max(1, round(self.epochs * epoch))
        return TrainingRecipe(
            learning_rate=self.learning_rate,
            max_steps=steps,
            batch_size=batch_size,
            warmup_steps=min(round(self.warmup * steps), steps),
            schedule=self.schedule,
            max_grad_norm=self.max_grad_norm,
            evaluate_every=max(1, epoch // self.evaluations_per_epoch),
            checkpoint_every=max(1, epoch // 4),
            patience=self.patience,
            keep=self.keep,
            seed=seed,
            trackers=self.trackers,
        )


class SequenceObjectiveRecipe(Section):
    """What every objective has: how it is learnt, from which other objective's weights, and what scores are.

    The best weights are those whose predictions by a hard search with this `beam` are the best (`learning.keep`: last
    ones instead).
    """

    learning: LearningRecipe
    start: str | None = None
    normalisation: Normalisation = "local"
    beam: PositiveInt = 1

    @property
    def search(self) -> SearchRecipe:
        return SearchRecipe(beam=self.beam)


class CrossEntropyRecipe(SequenceObjectiveRecipe):
    """Cross-entropy; `self_normalisation` weighs the penalty (log Z)^2."""

    kind: Literal["cross-entropy"] = "cross-entropy"
    self_normalisation: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0


class AnnealingRecipe(Section):
    """Alpha, how peaked the relaxation is: it grows by one factor at each step, from `first` to `last` at the end of
    the training; constant without `last`."""

    first: PositiveFloat = 1.0
    last: PositiveFloat | None = None


class ScheduledRecipe(SequenceObjectiveRecipe):
    """Scheduled sampling (3.3, Goyal 2021): the decoder reads gold with a probability that falls, and else its choice.

    The choice is greedy or `sampled`; hard without `alpha`, otherwise relaxed. The schedule's `mixing_steps` are
    updates of the weights, not epochs: the k of the inverse sigmoid k / (k + exp(step / k)), the step at which the
    linear one reaches 0, the steps in which the exponential one falls by e; null: a tenth of the training.
    """

    kind: Literal["scheduled"] = "scheduled"
    mixing: Literal["inverse-sigmoid", "linear", "exponential"] = "inverse-sigmoid"
    mixing_steps: PositiveFloat | None = None
    sampled: bool = False
    alpha: AnnealingRecipe | None = None


class SoftBeamRecipe(SequenceObjectiveRecipe):
    """The continuous relaxation of beam search (Chapter 4): `direct` minimises the cost of what it finds, `hinge` the
    margin by which that, its cost added, outscores gold.

    A step lets the best `candidates` symbols compete; null: all. `symbol_costs` are what a symbol costs where it is
    wrong, 1 if not told: `{O: 2}` for entities (4.5.1).
    """

    kind: Literal["soft-beam"] = "soft-beam"
    loss: Literal["direct", "hinge"] = "direct"
    beam: PositiveInt = 3
    candidates: PositiveInt | None = 50
    alpha: AnnealingRecipe = AnnealingRecipe(first=1.0, last=10.0)
    symbol_costs: dict[str, PositiveFloat] = Field(default_factory=dict)


class BeamCrfRecipe(SequenceObjectiveRecipe):
    """A CRF normalised over the beam, with early updates (Andor et al. 2016)."""

    kind: Literal["beam-crf"] = "beam-crf"
    beam: PositiveInt = 3
    normalisation: Normalisation = "global"


class BeamSearchOptimisationRecipe(SequenceObjectiveRecipe):
    """Gold above the last of the beam by a margin, at every step (Wiseman & Rush 2016)."""

    kind: Literal["beam-search-optimisation"] = "beam-search-optimisation"
    beam: PositiveInt = 3
    normalisation: Normalisation = "global"
    margin: PositiveFloat = 1.0


AnyObjectiveRecipe = Annotated[
    CrossEntropyRecipe | ScheduledRecipe | SoftBeamRecipe | BeamCrfRecipe | BeamSearchOptimisationRecipe,
    Field(discriminator="kind"),
]


class EvaluationRecipe(Section):
    """Beams that are compared at the end; validation during a training decodes so many sentences."""

    beams: tuple[PositiveInt, ...] = (1, 2, 3, 5, 10)
    validation_sentences: PositiveInt = 500


class SearchAwareRecipe(Recipe):
    """Everything that decides the models: data, sizes, and objectives by name, one of which may start from another.

    `start` is the folder of a model whose weights and vocabularies are those of the start, in place of random ones.

    Examples:
        >>> from lexergy import SearchAwareRecipe, load_recipe
        >>> recipe = load_recipe("tagging-cpu", SearchAwareRecipe)
        >>> recipe.chain("soft-beam")
        ['cross-entropy', 'soft-beam']
    """

    data: Annotated[TaggedRecipe | TranslatedRecipe, Field(discriminator="kind")]
    model: Seq2SeqRecipe
    objectives: dict[str, AnyObjectiveRecipe]
    start: str | None = None
    evaluation: EvaluationRecipe = EvaluationRecipe()

    @model_validator(mode="after")
    def _starts_are_objectives(self) -> Self:
        check_folder_names("objective", self.objectives, RESERVED)
        for name in self.objectives:
            self.chain(name)
        return self

    def chain(self, name: str) -> list[str]:
        """The objectives that are learnt one after the other, the named one last."""
        names: list[str] = []
        following: str | None = name
        while following is not None:
            if following not in self.objectives or following in names:
                problem = "starts from itself" if following in names else "is none of the recipe's"
                raise ValueError(f"the objective `{following}` {problem}; expected one of {', '.join(self.objectives)}")
            names.append(following)
            following = self.objectives[following].start
        return names[::-1]


class LabelBiasRecipe(Recipe):
    """The example of label bias: inputs with their labels, a letter each, the weights of the global model, and the
    numbers of labels and beams whose searches are compared."""

    pairs: tuple[tuple[str, str], ...]
    weights: tuple[PositiveFloat, ...]
    labels: tuple[PositiveInt, ...]
    beams: tuple[PositiveInt, ...]
