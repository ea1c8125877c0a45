"""What every part of a recipe has in common."""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import reduce
from operator import or_
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)
from pydantic_core import CoreSchema

from lexergy.recipes.limits import limit_of, shown

FOLDER_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9_-])?")
PositiveInt = Annotated[int, Field(ge=1)]
PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Seed = Annotated[int, Field(ge=0)]
Fraction = Annotated[float, Field(gt=0, lt=1)]


class Section(BaseModel):
    """A part of a recipe: unknown keys are mistakes, and nothing changes after loading.

    The keys of stages hash what a section writes. A key that recipes did not always have is named in
    `added_later` and written only where it differs from its default, so that finished runs stay finished.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, allow_inf_nan=False)
    added_later: ClassVar[frozenset[str]] = frozenset()

    @model_validator(mode="after")
    def _within_limits(self) -> Self:
        for name in type(self).model_fields:
            value = getattr(self, name)
            for number in value if isinstance(value, tuple) else (value,):
                if isinstance(number, int) and number > limit_of(name):
                    raise ValueError(f"`{name}` is {shown(number)}; expected at most {limit_of(name)}")
        return self

    @model_serializer(mode="wrap")
    def _without_later_defaults(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields = type(self).model_fields
        unchanged = {key for key in self.added_later if getattr(self, key) == fields[key].default}
        return {key: value for key, value in write(self).items() if key not in unchanged}


class Recipe(Section):
    """A whole file: everything that decides a result, under a name."""

    name: str
    seed: Seed = 0

    @model_validator(mode="after")
    def _name_is_a_folder(self) -> Self:
        if not FOLDER_NAME.fullmatch(self.name):
            raise ValueError(
                f"`name` is {self.name!r}, which names the folder of a run; expected letters, digits, -, _ and dots "
                "inside; to write elsewhere, give a folder to the command"
            )
        return self

    def plain(self) -> dict[str, Any]:
        """The recipe as JSON-able data, defaults filled in, that `model_validate` reads back."""
        return self.model_dump(mode="json", by_alias=True)


class OneOf:
    """Reads a field as the section, among these, whose `kind` is written in it; they are asked for when needed."""

    def __init__(self, sections: Callable[[], Sequence[type[Section]]]) -> None:
        self.sections = sections

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        union: Any = reduce(or_, self.sections())
        return handler.generate_schema(Annotated[union, Field(discriminator="kind")])


def check_folder_names(kind: str, names: Iterable[str], reserved: Collection[str] = ()) -> None:
    """Refuse names that cannot be folders of a run, or that are folders of something else."""
    for name in names:
        if name in reserved or not name.replace("-", "_").isidentifier() or len(name) > 100:
            besides = f", and none of {', '.join(sorted(reserved))}" if reserved else ""
            raise ValueError(f"the {kind}'s name `{name}` names its folder; expected letters, digits, - and _{besides}")
