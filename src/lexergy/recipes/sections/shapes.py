"""The sizes of the models that recipes describe."""

from typing import Any, Literal, Self

from pydantic import model_validator

from lexergy.recipes.limits import PARAMETERS
from lexergy.recipes.sections.presets import GENERATORS, with_preset
from lexergy.recipes.sections.section import PositiveInt, Section

Direction = Literal["left_to_right", "right_to_left"]


class ShapeRecipe(Section):
    """The size of a transformer; `feed_forward_size` null: what is usual for its architecture."""

    added_later = frozenset({"feed_forward_size"})

    hidden_size: PositiveInt
    num_layers: PositiveInt
    num_heads: PositiveInt
    feed_forward_size: PositiveInt | None = None

    @model_validator(mode="after")
    def _heads_divide_width(self) -> Self:
        if self.num_heads is not None and self.hidden_size % self.num_heads:
            raise ValueError(
                f"`hidden_size` is {self.hidden_size} and `num_heads` {self.num_heads}; "
                "expected a width that the number of heads divides"
            )
        if 12 * self.hidden_size**2 * self.num_layers > PARAMETERS:  # of attention and feed-forward layers
            raise ValueError(
                f"`hidden_size` is {self.hidden_size} and `num_layers` {self.num_layers}; expected a model of less "
                "than a million million weights"
            )
        return self


class CausalShapeRecipe(ShapeRecipe):
    """A Llama, an OPT, or gated convolutions over `kernel_size` tokens (null: 4) instead of attention.

    The embeddings of the last two may be narrower or wider than the model (`embedding_size`). `preset` names a shape
    of `presets.GENERATORS`, whose keys need not be written then.
    """

    added_later = ShapeRecipe.added_later | {"architecture", "embedding_size", "kernel_size"}

    num_heads: PositiveInt | None = None  # type: ignore[assignment]
    architecture: Literal["llama", "opt", "gated_conv"] = "llama"
    embedding_size: PositiveInt | None = None
    kernel_size: PositiveInt | None = None

    @model_validator(mode="before")
    @classmethod
    def _filled_in(cls, keys: Any) -> Any:
        return with_preset(keys, GENERATORS)

    @model_validator(mode="after")
    def _keys_fit_the_architecture(self) -> Self:
        is_conv = self.architecture == "gated_conv"
        if self.num_heads is None and not is_conv:
            raise ValueError(f"the key `num_heads` is missing; expected one, since a {self.architecture} has heads")
        for key in ("num_heads", "feed_forward_size"):
            if getattr(self, key) is not None and is_conv:
                raise ValueError(f"`{key}` is {getattr(self, key)}; leave it out, since gated convolutions have none")
        if self.kernel_size is not None and not is_conv:
            raise ValueError(
                f"`kernel_size` is {self.kernel_size} and `architecture` {self.architecture}; expected gated_conv, or "
                "no `kernel_size`"
            )
        if self.embedding_size is not None and self.architecture == "llama":
            raise ValueError(
                f"`embedding_size` is {self.embedding_size} and `architecture` {self.architecture}; expected opt or "
                "gated_conv, which project their embeddings to the width of the model; or leave `embedding_size` out"
            )
        return self
