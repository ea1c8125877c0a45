"""Recipes of search-aware training: a tagger or translator, the search that it is decoded by, and what it minimises."""

from typing import Annotated, Literal

from pydantic import Field

from lexergy.recipes.section import PositiveInt, Section

Normalisation = Literal["local", "global"]


class SearchRecipe(Section):
    """How sequences are searched for: a beam of 1 is greedy.

    Scores are log-probabilities (local) or raw (global); null: as the model was trained.
    """

    beam: PositiveInt = 1
    normalisation: Normalisation | None = None
    length_penalty: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
