"""`lexergy rerank` on a run of two energies."""

import json

import pytest

from toys.commands import mistake_of, output_of

LISTS = [
    {"prompt": "our union", "candidates": [" is the state of", " of of of of of", " nation is our"]},
    {
        "prompt": "the state of",
        "candidates": [{"text": " our union", "log_prob": -5.0}, {"text": " is", "log_prob": -9}],
    },
]


@pytest.fixture
def lists(tmp_path):
    path = tmp_path / "lists.jsonl"
    path.write_text("".join(json.dumps(entry) + "\n" for entry in LISTS))
    return path


def test_rerank(tiny_run, lists, capsys):
    arguments = ["rerank", tiny_run, lists, "--energy", "second"]
    first, second = map(json.loads, output_of([*arguments, "--json"], capsys).out.splitlines())
    assert first["prompt"] == "our union"
    assert first["energy"] == "second"
    assert [candidate["text"] for candidate in first["candidates"]] == LISTS[0]["candidates"]
    weights = [candidate["weight"] for candidate in first["candidates"]]
    assert sum(weights) == pytest.approx(1)
    assert weights[first["best"]] == max(weights)
    assert first["picked"] == first["drawn"]
    assert first["pareto_k"] is None
    best = map(json.loads, output_of([*arguments, "--json", "--pick", "best"], capsys).out.splitlines())
    assert [entry["picked"] for entry in best] == [first["best"], second["best"]]
    text = output_of(arguments, capsys).out
    assert "Candidates" in text
    assert "worth" in text


def test_weighed_as_a_list_that_nobody_drew(tiny_run, lists, capsys):
    lists.write_text(json.dumps(LISTS[0]))
    record = json.loads(output_of(["rerank", tiny_run, lists, "--weigh-by", "joint", "--json"], capsys).out)
    order = sorted(record["candidates"], key=lambda candidate: candidate["weight"])
    scores = [candidate["log_prob"] - candidate["energy"] for candidate in order]
    assert scores == sorted(scores)


def test_a_mistake_in_a_list_names_its_line(tiny_run, lists, capsys):
    lists.write_text(json.dumps({"prompt": "our union", "candidates": []}))
    assert f"{lists}:1: the list of candidates is empty" in mistake_of(["rerank", tiny_run, lists], capsys)
