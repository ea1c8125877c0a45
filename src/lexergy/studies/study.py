"""What a study is: where it works, what it examines there, and what it concludes from that."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lexergy.recipes.sections.section import Recipe
from lexergy.report.pages.study import Conclusion

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Size:
    """What a study runs on: a recipe (by name, or a file), and how much of everything.

    The setting `energy`, where a study has it, is the one of the recipe's energies that it is about.
    """

    recipe: str
    settings: Settings = field(default_factory=dict)


class Opener(NamedTuple):
    """Where studies work: a folder of their recipe, which other studies of this recipe and seed share.

    What is opened makes things when a study first asks for them, and has `seconds`, the time that this took when it
    was done.
    """

    recipe: type[Recipe]
    open: Callable[..., AbstractContextManager[Any]]  # recipe, folder, progress=
    resampled: str  # what an interval of a single seed is a bootstrap over


@dataclass(frozen=True)
class Study:
    """A table or figure of a paper."""

    title: str
    part: str  # of the paper
    paper: str
    method: str  # how the numbers are made, and where that departs from the paper
    sizes: Mapping[str, Size]
    workspace: Opener
    examine: Callable[[Any, Settings], Any]  # of an open workspace, for each seed
    conclude: Callable[[Sequence[Any]], Conclusion]  # from what was examined, of all seeds
