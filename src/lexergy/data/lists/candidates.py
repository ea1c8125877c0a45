"""Prompts with candidates from anywhere, one list a line of JSONL."""

import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from lexergy.core.candidates import GivenCandidate
from lexergy.data.reading import decode_text, numbered_lines, read_object, read_text
from lexergy.errors import LexergyError

STDIN = "-"
_SHAPE = '`{"prompt": "...", "candidates": ["...", {"text": "...", "log_prob": -12.3}]}`'


class CandidateList(NamedTuple):
    """A prompt, and continuations of which to choose."""

    place: str  # file and line
    prompt: str
    candidates: tuple[GivenCandidate, ...]


def read_candidate_lists(name: str) -> Iterator[CandidateList]:
    """The lists of a JSONL file, `.gz` or not; `-` is standard input.

    A candidate is a text, or an object with `text` or `tokens` (ids of the LM), and `log_prob` where it was drawn from
    another distribution than the LM's.
    """
    if name != STDIN and not Path(name).is_file():
        raise LexergyError(f"the file `{name}` does not exist; expected JSONL, a line {_SHAPE}; check the path.")
    content = decode_text(sys.stdin.buffer.read(), "standard input") if name == STDIN else read_text(Path(name))
    lists = [_candidate_list(line, f"{name}:{number}") for number, line in numbered_lines(content)]
    if not lists:
        raise LexergyError(f"the file `{name}` is empty; expected JSONL, a line {_SHAPE}.")
    yield from lists


def _candidate_list(line: str, place: str) -> CandidateList:
    record = read_object(line, place)
    unknown = set(record) - {"prompt", "candidates"}
    if unknown or not isinstance(record.get("prompt"), str) or not isinstance(record.get("candidates"), list):
        raise LexergyError(f"{place} has the fields {', '.join(record) or 'none'}; expected {_SHAPE}.")
    if not record["candidates"]:
        raise LexergyError(f"{place}: the list of candidates is empty; expected at least one continuation to weigh.")
    candidates = tuple(_candidate(item, f"{place}, candidate {i + 1}") for i, item in enumerate(record["candidates"]))
    return CandidateList(place, record["prompt"], candidates)


def _candidate(item: Any, where: str) -> GivenCandidate:
    if isinstance(item, str):
        return GivenCandidate(item)
    if not isinstance(item, dict) or set(item) - {"text", "tokens", "log_prob"} or not {"text", "tokens"} & set(item):
        raise LexergyError(
            f"{where} is {json.dumps(item)[:80]}; expected a text, or an object with `text` or `tokens`, and, where it "
            "has one, `log_prob`."
        )
    text, tokens, log_prob = item.get("text", ""), item.get("tokens"), item.get("log_prob")
    if not isinstance(text, str):
        raise LexergyError(f"{where}: `text` is {json.dumps(text)[:80]}; expected text.")
    if tokens is not None and not (isinstance(tokens, list) and all(type(token) is int for token in tokens)):
        raise LexergyError(f"{where}: `tokens` is {json.dumps(tokens)[:80]}; expected a list of token ids.")
    if log_prob is not None and (type(log_prob) not in (int, float) or not math.isfinite(log_prob)):
        raise LexergyError(f"{where}: `log_prob` is {json.dumps(log_prob)[:80]}; expected a finite number.")
    return GivenCandidate(text, None if tokens is None else tuple(tokens), log_prob)
