"""Continuations to compare: from JSONL files, or written by the models of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lexergy.data.reading import numbered_lines, read_object, read_text
from lexergy.errors import LexergyError

PEOPLE = "people"


@dataclass(frozen=True)
class Continued:
    """A prompt, and how each system goes on."""

    prompt: str
    group: str  # the document that the prompt is from
    texts: Mapping[str, str]  # by system


@dataclass(frozen=True)
class Material:
    """What a study is made of. Checks and the qualifying round have prompts of their own."""

    systems: tuple[str, ...]
    pairs: Sequence[Continued]
    qualifying: Sequence[Continued]  # people's text, then a machine's
    checks: Sequence[Continued]  # people's text, or where there is none the first system's
    facts: dict[str, object]


def read_continuations(path: Path) -> dict[str, str]:
    """The text of each prompt in a JSONL file with the fields `prompt` and `text`."""
    texts: dict[str, str] = {}
    for number, line in numbered_lines(read_text(path)):
        place = f"{path}:{number}"
        record = read_object(line, place)
        values = [record.get(name) for name in ("prompt", "text")]
        if not all(isinstance(value, str) and value.strip() for value in values):
            raise LexergyError(f"{place} has the fields {', '.join(record)}; expected texts in `prompt` and `text`.")
        prompt, text = map(str, values)
        if prompt in texts:
            raise LexergyError(f"{place} has a prompt for the second time; expected one continuation of each prompt.")
        texts[prompt] = text
    if not texts:
        raise LexergyError(f"{path} holds no continuations; expected one JSON object a line.")
    return texts


def file_material(
    files: Sequence[Path], people: Path | None, *, pairs: int | None, qualifying: int | None, checks: int, seed: int
) -> Material:
    """Continuations of the prompts that all files have, shared out by lot among pairs, qualifying round and checks."""
    names = [path.stem for path in files]
    if len(set(names)) < len(names) or len(names) < 2 or PEOPLE in names:
        raise LexergyError(
            f"the files are named {', '.join(names) or 'nothing'}; expected two or more of different names, none of "
            f"them `{PEOPLE}`, since a system is called as its file is; rename them."
        )
    if people is None and qualifying:
        raise LexergyError(
            f"`--qualifying` is {qualifying} without people's text; expected `--people FILE` with it, since the round "
            "asks who tells people's text from a machine's; leave it out."
        )
    texts = {name: read_continuations(path) for name, path in zip(names, files, strict=True)}
    if people is not None:
        texts[PEOPLE] = read_continuations(people)
    prompts = [prompt for prompt in texts[names[0]] if all(prompt in column for column in texts.values())]
    shares = [checks, 0 if people is None else 12 if qualifying is None else qualifying]
    rest = len(prompts) - sum(shares)
    wanted = max(rest, 1) if pairs is None else pairs
    if wanted > rest:
        raise LexergyError(
            f"{wanted} pairs, {shares[0]} checks and {shares[1]} qualifying comparisons were asked for; the files have "
            f"{len(prompts)} prompts in common; ask for fewer with `--pairs`, `--checks` and `--qualifying`."
        )
    order = np.random.default_rng(seed).permutation(len(prompts)).tolist()
    chosen = [
        Continued(prompts[place], prompts[place], {name: texts[name][prompts[place]] for name in texts})
        for place in order
    ]
    first, second = shares[0], sum(shares)
    known = [PEOPLE if people is not None else names[0]]
    return Material(
        systems=tuple(names),
        pairs=[_only(entry, names) for entry in chosen[second : second + wanted]],
        qualifying=[_only(entry, [PEOPLE, names[0]]) for entry in chosen[first:second]],
        checks=[_only(entry, known) for entry in chosen[:first]],
        facts={"files": [str(path) for path in files], "prompts": len(prompts)},
    )


def _only(entry: Continued, systems: Sequence[str]) -> Continued:
    return Continued(entry.prompt, entry.group, {system: entry.texts[system] for system in systems})
