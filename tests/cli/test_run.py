"""`lexergy run` on a tiny recipe, and recipes that cannot be run."""

import json

import pytest
import yaml

from lexergy.cli.main import run_command
from lexergy.cli.summary import show_summary
from lexergy.runs.records import load_run
from toys.commands import json_of, mistake_of, output_of


def test_run_again_shows_the_same(tiny_run, tiny_recipe_file, capsys):
    first = json.loads((tiny_run.parent / "summary.json").read_text())
    again = json_of(["run", tiny_recipe_file, "--out", tiny_run], capsys)
    assert first == again
    assert set(first["energies"]) == {"first", "second"}
    assert first["energies"]["first"]["base"] > 1
    assert (tiny_run / "report.html").exists()


def test_run_for_people(tiny_run, capsys):
    capsys.readouterr()
    show_summary(load_run(tiny_run), tiny_run / "report.html")
    text = capsys.readouterr().out
    assert "Frozen LM: trained in this run." in text
    for part in ("frozen LM", "joint model, first", "at most", "estimate", "ESS", "k-hat", "windows", "error over"):
        assert part in text
    assert "our <script>alert(1)</script> union" in text
    assert f"Report: {tiny_run / 'report.html'}" in text
    assert f"lexergy perplexity {tiny_run} --samples 256 --windows 6" in text
    assert max(len(line) for line in text.splitlines() if "lexergy" not in line and "Report" not in line) <= 80


def test_missing_recipe(tmp_path, capsys):
    assert "no recipe" in mistake_of(["run", tmp_path / "missing.yaml"], capsys)


def test_unknown_recipe_key(tiny_recipe_file, tmp_path, capsys):
    wrong = tmp_path / "wrong.yaml"
    recipe = yaml.safe_load(tiny_recipe_file.read_text()) | {"negatives": {"per_prefx": 2}}
    wrong.write_text(yaml.safe_dump(recipe))
    message = mistake_of(["run", wrong, "--out", tmp_path / "run"], capsys)
    assert "per_prefx" in message
    assert "did you mean `per_prefix`?" in message
    assert not (tmp_path / "run").exists()


def test_corpus_shorter_than_a_window(tiny_recipe_file, tmp_path, capsys):
    (tmp_path / "corpus.txt").write_text("too short")
    recipe = yaml.safe_load(tiny_recipe_file.read_text()) | {"corpus": {"source": str(tmp_path / "corpus.txt")}}
    short = tmp_path / "short.yaml"
    short.write_text(yaml.safe_dump(recipe))
    capsys.readouterr()
    assert run_command(["run", str(short), "--out", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert "Traceback" not in error
    assert error.splitlines()[-1].startswith("error: ")


def test_a_run_in_parts_is_the_run(tiny_run, tiny_recipe_file, tmp_path, capsys):
    command = ["run", tiny_recipe_file, "--out", tmp_path / "run"]
    said = [output_of([*command, "--part", part], capsys) for part in ("2/2", "1/2", "1/2")]
    assert [output.out for output in said] == ["", "", ""]
    assert "negatives: part 2/2 done: 0 of 1 shards; 1 are missing still" in said[0].err
    assert "negatives: part 1/2 done: 1 of 1 shards; all are there" in said[1].err
    assert "perplexity: part 1/2 done: 1 of 1 shards" in said[2].err
    result = json_of(command, capsys)
    shards = sorted(path.relative_to(tiny_run) for path in tiny_run.rglob("shard-*.parquet"))
    assert len(shards) == 2
    for path in shards:
        assert (tmp_path / "run" / path).read_bytes() == (tiny_run / path).read_bytes()
    assert result["energies"] == json_of(["run", tiny_recipe_file, "--out", tiny_run], capsys)["energies"]


def test_no_such_part(tiny_recipe_file, tmp_path, capsys):
    message = mistake_of(["run", tiny_recipe_file, "--out", tmp_path / "run", "--part", "3/2"], capsys)
    assert "`--part` is 3/2; expected 1/2 to 2/2" in message
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("budget", ["0m", "-5m", "soon"])
def test_what_is_no_budget(tiny_recipe_file, tmp_path, capsys, budget):
    message = mistake_of(["run", tiny_recipe_file, "--out", tmp_path / "run", "--budget", budget], capsys)
    assert f"`--budget` is {budget}; expected a time above 0 in seconds, minutes or hours, as in 90s, 60m" in message
    assert not (tmp_path / "run").exists()


def test_a_budget_needs_a_fitted_energy(tiny_recipe_file, tmp_path, capsys):
    message = mistake_of(["run", tiny_recipe_file, "--out", tmp_path / "run", "--budget", "60m"], capsys)
    assert "the budget of negatives is 60m and no energy is fitted" in message
    assert "expected one of kind fitted_states, fitted_reader or fitted_encoder" in message
    assert not (tmp_path / "run").exists()


def test_a_budget_is_part_of_the_run(tiny_recipe_file, tmp_path, capsys):
    recipe = yaml.safe_load(tiny_recipe_file.read_text())
    recipe["energies"] = {"head": {"kind": "fitted_states", "layers": [1], "folds": 2, "state_penalties": [0.1]}}
    path = tmp_path / "fitted.yaml"
    path.write_text(yaml.safe_dump(recipe))
    command = ["run", path, "--out", tmp_path / "run", "--budget", "2h"]
    first = json_of(command, capsys)
    assert first["learning_curve"]["energy"] == "head"
    assert first["learning_curve"]["stop"] == "windows"
    (point,) = first["learning_curve"]["points"]
    assert point.keys() == {"pairs", "loss", "std_error", "fall", "fall_std_error"}
    assert point["pairs"] == 32
    assert json_of(command, capsys) == first
    assert load_run(tmp_path / "run").recipe.negatives.budget == "2h"
    assert "32 pairs, with which the energy “head” has" in " ".join(output_of(command, capsys).out.split())
