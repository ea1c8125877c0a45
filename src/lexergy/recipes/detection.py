"""The recipe of a detector of machine text."""

from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from lexergy.recipes.sections.section import Fraction, PositiveInt, Section, Seed


class DetectorRecipe(Section):
    """What a detector is trained from and how.

    One head reads the likelihoods of the `lm` and of `more_lms`, and the states of their `layers`. An `encoder` is
    fine-tuned, for at most so many `epochs`, and no LM is used; or both are, `together`, as a sum of two energies.
    """

    added_later: ClassVar[frozenset[str]] = frozenset({"more_lms", "together"})

    lm: str = "smollm2-135m"
    more_lms: tuple[str, ...] = ()
    layers: tuple[Annotated[int, Field(ge=0)], ...] = ()
    encoder: str | None = None
    together: bool = False
    epochs: PositiveInt = 4
    block_tokens: PositiveInt = 256
    validation: Fraction = 0.1
    test: Fraction = 0.2
    seed: Seed = 0

    @model_validator(mode="after")
    def _an_encoder_beside_lms(self) -> Self:
        if self.together and self.encoder is None:
            raise ValueError("`together` puts an `encoder` beside the LM, and none is named; name one")
        return self

    @property
    def lms(self) -> tuple[str, ...]:
        """The LMs that are read."""
        return (self.lm, *self.more_lms) if self.encoder is None or self.together else ()

    @property
    def encoder_alone(self) -> "DetectorRecipe":
        """How the encoder is trained that LMs are put beside."""
        return self.model_copy(update={"together": False, "more_lms": ()})
