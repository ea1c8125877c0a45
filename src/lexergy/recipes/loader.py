"""Recipes as files: find them, read their YAML, and say in a line what is wrong with one."""

import difflib
import itertools
import re
import typing
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import yaml
from pydantic import BaseModel, ValidationError

from lexergy.errors import LexergyError
from lexergy.files import first_line
from lexergy.recipes.cloze import PretrainingRecipe
from lexergy.recipes.masked import MaskedObjectivesRecipe, TranslationRecipe
from lexergy.recipes.real_or_fake import LaboratoryRecipe
from lexergy.recipes.residual import ResidualRecipe
from lexergy.recipes.search_aware import LabelBiasRecipe, SearchAwareRecipe
from lexergy.recipes.sections.section import OneOf, Recipe, Section

AnySection = typing.TypeVar("AnySection", bound=Section)
AnyRecipe = typing.TypeVar("AnyRecipe", bound=Recipe)

DEEPEST = 100  # levels of brackets
COMMANDS: dict[type[Recipe], str] = {
    ResidualRecipe: "lexergy run RECIPE",
    PretrainingRecipe: "lexergy pretrain RECIPE",
    LaboratoryRecipe: "lexergy reproduce detect-table-2 --recipe RECIPE",
    MaskedObjectivesRecipe: "lexergy reproduce table-6.1 --recipe RECIPE",
    TranslationRecipe: "lexergy reproduce table-6.6 --recipe RECIPE",
    SearchAwareRecipe: "lexergy seq2seq train --recipe RECIPE",
    LabelBiasRecipe: "lexergy reproduce figure-5.1 --recipe RECIPE",
}
"""Which command takes each kind of recipe."""


def packaged_recipes() -> dict[str, Path]:
    """The recipes that come with the package, by name, as `quickstart` or `paper/cc-news-12-layers`."""
    folder = Path(str(files("lexergy"))) / "recipes" / "library"
    return {path.relative_to(folder).with_suffix("").as_posix(): path for path in sorted(folder.rglob("*.yaml"))}


def load_recipe(path_or_name: str | Path, kind: type[AnyRecipe]) -> AnyRecipe:
    """A recipe of some kind from a YAML file, or by name from those packaged with Lexergy (`quickstart`).

    Examples:
        >>> from lexergy import ResidualRecipe, load_recipe
        >>> recipe = load_recipe("quickstart", ResidualRecipe)
        >>> recipe.lm.source, recipe.windows.prefix, recipe.windows.continuation
        ('smollm2-135m', 64, 32)
        >>> list(load_recipe("from-scratch", ResidualRecipe).energies)
        ['unit', 'bit']
    """
    path = packaged_recipes().get(str(path_or_name), Path(path_or_name))
    content = read_yaml(path)
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        meant = max(COMMANDS, key=lambda known: (len(content.keys() & _fields(known)), known is kind))
        if meant is not kind:
            key = next(key for key in content if key in _fields(meant) and key not in _fields(kind))
            raise LexergyError(f"{path}: `{key}` makes it a recipe of another command: `{COMMANDS[meant]}`.") from None
        raise LexergyError(f"{path}: {describe_mistake(error, kind)}") from None


def checked(kind: type[AnySection], /, **keys: typing.Any) -> AnySection:
    """A section from the options of a command; a mistake is told as in a file."""
    try:
        return kind.model_validate(keys)
    except ValidationError as error:
        raise LexergyError(describe_mistake(error, kind)) from None


def read_yaml(path: Path) -> dict[str, typing.Any]:
    """The mapping that a YAML file holds."""
    if not path.is_file():
        names = ", ".join(packaged_recipes())
        raise LexergyError(f"no recipe `{path}`; expected a YAML file, or one of these names: {names}.")
    try:
        text = path.read_text(encoding="utf-8")
        _check_nesting(path, text)
        content = yaml.safe_load(text)
    except LexergyError:
        raise
    except UnicodeDecodeError:
        raise LexergyError(f"{path}: is not UTF-8 text; expected a YAML recipe.") from None
    except (RecursionError, ValueError) as error:
        raise LexergyError(f"{path}: not valid YAML: {first_line(error)}; expected a recipe.") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" in line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "cannot be read"
        raise LexergyError(f"{path}: not valid YAML{line}: {problem}.") from None
    if not isinstance(content, dict):
        raise LexergyError(f"{path}: holds a {type(content).__name__}; expected keys such as `corpus:`.")
    return content


def _check_nesting(path: Path, text: str) -> None:
    """Refuse brackets in brackets in brackets: reading them takes seconds, and then fails."""
    depths = itertools.accumulate(1 if bracket in "[{" else -1 for bracket in re.findall(r"[\[\]{}]", text))
    if max(depths, default=0) > DEEPEST:
        raise LexergyError(f"{path}: has more than {DEEPEST} brackets in each other; expected a recipe.")


def describe_mistake(error: ValidationError, model: type[BaseModel]) -> str:
    """The first mistake in a line: its key, what was given, what is expected."""
    mistakes = error.errors(include_url=False)
    # An unknown key usually explains the missing one beside it, so it is told first.
    first = min(mistakes, key=lambda mistake: mistake["type"] != "extra_forbidden")
    keys, sections = _follow(first["loc"], model)
    name = ".".join(keys)
    if first["type"] == "extra_forbidden":
        valid = [str(key) for section in sections for key in _fields(section)]
        message = f"unknown key `{name}`; {_suggest(keys[-1], valid)}"
    elif first["type"] == "missing":
        message = f"the key `{name}` is missing."
    elif first["type"].startswith("union_tag"):
        kinds = [tag for section in sections for tag in _tags(section)]
        given = first["input"].get("kind") if isinstance(first["input"], dict) else None
        message = f"`{name}.kind` is {given or 'missing'}; {_suggest(str(given), kinds)}"
    else:
        message = _wrong_value(name, first)
    more = len(mistakes) - 1
    message += f" ({more} more mistake{'s' * (more > 1)} after this one)" if more else ""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in message)


def _wrong_value(name: str, mistake: typing.Any) -> str:
    problem = mistake["msg"].removeprefix("Value error, ").rstrip(".")
    if mistake["type"] == "value_error":
        return f"`{name}`: {problem}." if name else f"{problem}."
    given = mistake["input"]
    given = type(given).__name__ if isinstance(given, dict | list) else repr(given)[:60]
    return f"`{name}` is {given}; {problem[:1].lower()}{problem[1:]}."


def _suggest(key: str, valid: list[str]) -> str:
    near = difflib.get_close_matches(key, valid, n=1, cutoff=0.5)
    return f"did you mean `{near[0]}`?" if near else f"expected one of {', '.join(valid)}."


def _follow(location: tuple[int | str, ...], model: type[BaseModel]) -> tuple[list[str], list[type[BaseModel]]]:
    """The keys as the file spells them, without pydantic's union tags, and the sections that they lead to."""
    keys: list[str] = []
    choices = [model]  # sections that may be meant by the keys so far
    for part in location:
        tagged = [choice for choice in choices if part in _tags(choice)]
        if len(choices) > 1 and tagged:
            choices = tagged
            continue
        keys.append(str(part))
        fields = [_fields(choice)[part] for choice in choices if part in _fields(choice)]
        if fields:
            choices = list(_sections(fields[0].annotation))
    return keys, choices


def _fields(section: type[BaseModel]) -> dict[int | str, typing.Any]:
    return {field.alias or name: field for name, field in section.model_fields.items()}


def _tags(section: type[BaseModel]) -> tuple[typing.Any, ...]:
    kind = section.model_fields.get("kind")
    return typing.get_args(kind.annotation) if kind else ()


def _sections(annotation: typing.Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    if isinstance(annotation, OneOf):
        yield from annotation.sections()
    arguments = typing.get_args(annotation)
    for argument in [argument for argument in arguments if isinstance(argument, OneOf)] or arguments:
        yield from _sections(argument)
