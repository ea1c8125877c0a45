"""The recipe of a detector of machine text."""

from typing import Annotated

from pydantic import Field

from lexergy.recipes.sections.section import Fraction, PositiveInt, Section, Seed


class DetectorRecipe(Section):
    """What a detector is trained from and how.

    It reads the likelihoods of the `lm`, and the states of its `layers`; with an `encoder`, that is fine-tuned, for at
    most so many `epochs`, and the LM is not used.
    """

    lm: str = "smollm2-135m"
    layers: tuple[Annotated[int, Field(ge=0)], ...] = ()
    encoder: str | None = None
    epochs: PositiveInt = 4
    block_tokens: PositiveInt = 256
    validation: Fraction = 0.1
    test: Fraction = 0.2
    seed: Seed = 0
