"""Recipes of masked models: objectives on data whose search space can be summed, and a translator to sample from."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from lexergy.recipes.loader import load_as
from lexergy.recipes.section import Fraction, PositiveInt, Section
from lexergy.recipes.shapes import ShapeRecipe
from lexergy.recipes.training import TrainingRecipe


class FieldRecipe(Section):
    """How wide the LSTMs are, and how they are trained."""

    hidden_size: PositiveInt
    training: TrainingRecipe


class MaskedObjectivesRecipe(Section):
    """Everything that decides the trainings; `cmudict` is the file of the pronouncing dictionary."""

    name: str
    seed: Annotated[int, Field(ge=0)] = 0
    cmudict: str
    synthetic: FieldRecipe
    phonemes: FieldRecipe


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


class TranslationRecipe(Section):
    """Everything that decides the model."""

    name: str
    seed: Annotated[int, Field(ge=0)] = 0
    pairs: PairsRecipe
    model: TranslatorRecipe


def load_objectives_recipe(path_or_name: str | Path) -> MaskedObjectivesRecipe:
    """Read such a recipe from a YAML file, or by name from those packaged with Lexergy."""
    return load_as(MaskedObjectivesRecipe, path_or_name)


def load_translation_recipe(path_or_name: str | Path) -> TranslationRecipe:
    """Read such a recipe from a YAML file, or by name from those packaged with Lexergy."""
    return load_as(TranslationRecipe, path_or_name)
