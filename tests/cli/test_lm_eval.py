"""`lexergy lm-eval` on a run of two energies and a task of this machine's own."""

import pytest

from toys.commands import json_of, mistake_of, output_of
from toys.harness import CHOICE, metrics, write_task

ITEMS = [
    {"context": "our union", "choices": ["is strong", "strong is of"], "gold": 0},
    {"context": "", "choices": ["the state of our union", "of state union the our"], "gold": 0},
    {"context": "we will build", "choices": ["a better future", "future a better"], "gold": 0},
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tasks")
    write_task(folder, "pairs", ITEMS, **CHOICE, metric_list=metrics("acc"))
    return folder


def test_both_models_on_the_same_items(tiny_run, folder, capsys):
    arguments = ["lm-eval", tiny_run, "--tasks", "pairs", "--include-path", folder, "--samples", 30]
    record = json_of([*arguments, "--energy", "second"], capsys)
    assert (record["energy"], record["model"]) == ("second", "both")
    (row,) = record["result"]["metrics"]
    assert (row["metric"], row["num_items"]) == ("acc", 3)
    assert row["difference"]["value"] == pytest.approx(row["joint"]["value"] - row["base"]["value"])
    kinds = {item["kind"] for item in record["result"]["treatments"]}
    assert kinds <= {"log Z cancels", "log Z estimated"}
    assert sum(item["num_requests"] for item in record["result"]["treatments"]) == 6
    text = output_of([*arguments, "--limit", "2", "--model", "joint"], capsys).out
    assert "joint (first)" in text
    assert "requests, log Z" in text


def test_the_base_lm_alone(tiny_run, folder, capsys):
    record = json_of(["lm-eval", tiny_run, "--tasks", folder / "pairs.yaml", "--model", "base"], capsys)
    (row,) = record["result"]["metrics"]
    assert row["joint"] is None
    assert record["result"]["treatments"] == []


def test_mistakes(tiny_run, folder, capsys):
    def mistake(*arguments):
        return mistake_of(["lm-eval", tiny_run, *arguments], capsys)

    assert "expected the names of tasks" in mistake("--tasks", ",")
    assert "expected a folder" in mistake("--tasks", "pairs", "--include-path", folder / "nowhere")
    assert "expected name=value" in mistake("--tasks", "pairs", "--gen-kwargs", "greedy")
    assert "the energies of" in mistake("--tasks", "pairs", "--energy", "third")


def test_a_missing_extra_is_told(tiny_run, capsys, monkeypatch):
    monkeypatch.setattr("lexergy.cli.verbs.lm_eval.find_spec", lambda name: None)
    assert "pip install 'lexergy[lm-eval]'" in mistake_of(["lm-eval", tiny_run, "--tasks", "pairs"], capsys)
