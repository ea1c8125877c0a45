"""The recipe of a laboratory: corpora, generators and energies by name, from which studies ask for what they need."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from lexergy.recipes.residual import (
    CorpusRecipe,
    NegativesRecipe,
    ResidualRecipe,
    RunNegativesRecipe,
    WindowsRecipe,
)
from lexergy.recipes.sections.base_models import LMRecipe, TrainedLMRecipe
from lexergy.recipes.sections.energies import WindowEnergyRecipe
from lexergy.recipes.sections.engine import EngineRecipe
from lexergy.recipes.sections.section import PositiveInt, Recipe, Section, check_folder_names
from lexergy.recipes.sections.shapes import CausalShapeRecipe, Direction
from lexergy.recipes.sections.training import TrainingRecipe


class SharedTokenizerRecipe(Section):
    """One vocabulary for all corpora, trained on the training documents of some of them."""

    vocab_size: Annotated[int, Field(ge=260)]  # 256 bytes and the special tokens
    corpora: tuple[str, ...] = Field(min_length=1)


class LaboratoryCorpusRecipe(CorpusRecipe):
    """A corpus whose windows may begin at distances of their own (`stride`; null: that of `windows`)."""

    added_later = CorpusRecipe.added_later | {"stride"}

    stride: PositiveInt | None = None


class TextWindowsRecipe(Section):
    """Windows of `length` tokens, one every `stride`, of which a generator is given one of `contexts`.

    Each context has an equal probability. At most `train`, `validation` and `test` windows of a corpus are kept
    (null: all).
    """

    length: Annotated[int, Field(ge=2)]
    stride: PositiveInt
    contexts: tuple[PositiveInt, ...] = Field(min_length=1)
    train: PositiveInt | None = None
    validation: PositiveInt | None = None
    test: PositiveInt | None = None

    @model_validator(mode="after")
    def _something_is_written(self) -> Self:
        if max(self.contexts) >= self.length:
            raise ValueError(
                f"`contexts` has {max(self.contexts)} and `length` is {self.length}; expected shorter contexts, "
                "since the rest of a window is written by a generator"
            )
        return self


class GeneratorRecipe(CausalShapeRecipe):
    """A language model trained here, on each corpus, in each direction and with each seed that a study asks for."""

    max_length: PositiveInt
    training: TrainingRecipe


class FoundGeneratorRecipe(Section):
    """A finished language model with its own tokenizer, as `smollm2-135m`; it writes left to right.

    Large ones are slow: it writes one twin of each window, of at most so many `windows` of a split (null: of all).
    """

    source: str
    windows: PositiveInt | None = None


class LaboratoryRecipe(Recipe):
    """Everything that may be asked for; nothing is made before it is.

    Energies `from: lm` start from the generator `start_from`, trained on the (first) corpus that they are trained on.

    Examples:
        >>> from lexergy import LaboratoryRecipe, load_recipe
        >>> recipe = load_recipe("real-or-fake-cpu", LaboratoryRecipe)
        >>> list(recipe.corpora), recipe.windows.length
        (['bible', 'sotu', 'wikitext'], 64)
    """

    corpora: dict[str, LaboratoryCorpusRecipe] = Field(min_length=1)
    tokenizer: SharedTokenizerRecipe
    windows: TextWindowsRecipe
    negatives: NegativesRecipe = NegativesRecipe(top_k=10)
    generators: dict[str, GeneratorRecipe] = Field(min_length=1)
    found_generators: dict[str, FoundGeneratorRecipe] = Field(default_factory=dict)
    start_from: str
    energies: dict[str, WindowEnergyRecipe] = Field(min_length=1)
    engine: EngineRecipe = Field(default=EngineRecipe(), exclude=True)  # decides no result

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        unknown = [name for name in self.tokenizer.corpora if name not in self.corpora]
        if unknown:
            raise ValueError(
                f"`tokenizer.corpora` has {unknown[0]}; expected some of the corpora: {', '.join(self.corpora)}"
            )
        if self.start_from not in self.generators:
            raise ValueError(f"`start_from` is {self.start_from}; expected one of {', '.join(self.generators)}")
        twice = sorted(self.generators.keys() & self.found_generators.keys())
        if twice:
            raise ValueError(f"`{twice[0]}` is in `generators` and in `found_generators`; expected two names")
        for name, energy in self.energies.items():
            if "masked_lm" in energy.starts_from:
                raise ValueError(f"`energies.{name}.from` is masked_lm; expected lm: a laboratory has no other")
        for kind, names in (
            ("corpus", self.corpora),
            ("generator", {**self.generators, **self.found_generators}),
            ("energy", self.energies),
        ):
            check_folder_names(kind, names)
        for name, generator in self.generators.items():
            if generator.max_length <= self.windows.length:
                raise ValueError(
                    f"`generators.{name}.max_length` is {generator.max_length}; expected more than "
                    f"{self.windows.length}, the length of a window"
                )
        return self

    def run_recipe(self, corpus: str, generator: GeneratorRecipe, direction: Direction) -> ResidualRecipe:
        """The recipe of an ordinary run on one corpus with one generator: what its stages read."""
        longest, source = max(self.windows.contexts), self.corpora[corpus]
        return ResidualRecipe(
            name=self.name,
            seed=self.seed,
            corpus=CorpusRecipe(**source.model_dump(exclude={"stride"})),
            windows=WindowsRecipe(
                prefix=longest,
                continuation=self.windows.length - longest,
                stride=source.stride or self.windows.stride,
                **self.windows.model_dump(include={"train", "validation", "test"}),
            ),
            lm=LMRecipe(
                train=TrainedLMRecipe(
                    **generator.model_dump(), vocab_size=self.tokenizer.vocab_size, direction=direction
                )
            ),
            negatives=RunNegativesRecipe(**self.negatives.model_dump()),
            energies=dict(self.energies),
            baselines={},
        )
