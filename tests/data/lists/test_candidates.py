"""Prompts with candidates, as they stand in files."""

import io
import json

import pytest

from lexergy.core.candidates import GivenCandidate
from lexergy.data.lists.candidates import read_candidate_lists
from lexergy.errors import LexergyError


def test_texts_tokens_and_log_probs(tmp_path, monkeypatch):
    record = {
        "prompt": "our union",
        "candidates": [" is", {"text": " was", "log_prob": -2}, {"tokens": [3, 4], "log_prob": -1.5}],
    }
    path = tmp_path / "lists.jsonl"
    path.write_text(json.dumps(record) + "\n\n" + json.dumps({"prompt": "x", "candidates": ["y"]}))
    first, second = read_candidate_lists(str(path))
    assert first.candidates == (
        GivenCandidate(" is"),
        GivenCandidate(" was", None, -2),
        GivenCandidate("", (3, 4), -1.5),
    )
    assert (first.place, second.place, second.prompt) == (f"{path}:1", f"{path}:3", "x")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    assert [entry.candidates for entry in read_candidate_lists("-")] == [first.candidates, second.candidates]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "is empty"),
        ("no json", "is no JSON"),
        ('{"prompt": "a"}', "has the fields prompt; expected"),
        ('{"prompt": "a", "candidates": ["b"], "seed": 1}', "has the fields prompt, candidates, seed; expected"),
        ('{"prompt": "a", "candidates": [7]}', "candidate 1 is 7; expected a text"),
        ('{"prompt": "a", "candidates": [{"log_prob": 1}]}', "`text` or `tokens`"),
        ('{"prompt": "a", "candidates": [{"text": 5}]}', "`text` is 5"),
        ('{"prompt": "a", "candidates": [{"tokens": [1.5]}]}', "`tokens` is"),
        ('{"prompt": "a", "candidates": [{"text": "b", "log_prob": NaN}]}', "`log_prob` is NaN"),
    ],
)
def test_mistakes_name_the_line(tmp_path, line, message):
    path = tmp_path / "lists.jsonl"
    path.write_text(line)
    with pytest.raises(LexergyError, match=message):
        list(read_candidate_lists(str(path)))


def test_a_file_that_is_not_there():
    with pytest.raises(LexergyError, match="does not exist"):
        list(read_candidate_lists("nowhere.jsonl"))
