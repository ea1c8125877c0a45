"""Recipes of masked models: objectives on data whose search space can be summed, and a translator to sample from."""

from typing import Annotated

from pydantic import Field

from lexergy.recipes.sections.engine import EngineRecipe
from lexergy.recipes.sections.section import Fraction, PositiveInt, Recipe, Section
from lexergy.recipes.sections.shapes import ShapeRecipe
from lexergy.recipes.sections.training import TrainingRecipe


class FieldRecipe(Section):
    """How wide the LSTMs are, and how they are trained."""

    hidden_size: PositiveInt
    training: TrainingRecipe


class MaskedObjectivesRecipe(Recipe):
    """Everything that decides the trainings; `cmudict` is the file of the pronouncing dictionary.

    `few_phonemes` is how Figure 6.1 trains on the few that a masked LM has left.

    Examples:
        >>> from lexergy import MaskedObjectivesRecipe, load_recipe
        >>> load_recipe("masked-objectives-cpu", MaskedObjectivesRecipe).synthetic.hidden_size > 0
        True
    """

    cmudict: str
    synthetic: FieldRecipe
    phonemes: FieldRecipe
    few_phonemes: FieldRecipe


class PairsRecipe(Section):
    """A file of sentence pairs, tab-separated; sentences of more than `max_tokens` tokens are left out."""

    path: str
    source_column: Annotated[int, Field(ge=0)] = 0
    target_column: Annotated[int, Field(ge=0)] = 1
    vocab_size: PositiveInt
    max_tokens: PositiveInt
    validation: Fraction
    test: Fraction


class TranslatorRecipe(ShapeRecipe):
    """The size of encoder and decoder (`num_layers` each), and how they are trained."""

    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    training: TrainingRecipe


class TranslationRecipe(Recipe):
    """Everything that decides the model.

    Examples:
        >>> from lexergy import TranslationRecipe, load_recipe
        >>> recipe = load_recipe("translation-cpu", TranslationRecipe)
        >>> recipe.model.num_layers > 0, recipe.pairs.test > 0
        (True, True)
    """

    pairs: PairsRecipe
    model: TranslatorRecipe
    engine: EngineRecipe = Field(default=EngineRecipe(), exclude=True)  # decides no result
