"""`lexergy generate` on a tiny run."""

import io
import subprocess
import sys

import pytest

from lexergy.cli.main import run_command
from lexergy.runs.records import load_run
from lexergy.tasks.residual.context import RunContext
from toys.commands import json_of, mistake_of

UNRELIABLE = "ignore::lexergy.models.joint.sampling.UnreliableWeightsWarning"


@pytest.mark.filterwarnings(UNRELIABLE)
def test_generate(tiny_run, capsys):
    arguments = ["generate", tiny_run, "--prompt", "our union", "--candidates", 30, "--max-new-tokens", 5]
    result = json_of([*arguments, "--show", 4], capsys)
    assert result["num_candidates"] == 30
    assert result["energy"] == "first"
    best = [candidate["energy"] for candidate in result["best"]]
    worst = [candidate["energy"] for candidate in result["worst"]]
    assert len(best) == len(worst) == 4
    assert best == sorted(best)
    assert worst == sorted(worst, reverse=True)
    assert best[-1] <= worst[-1]
    assert json_of([*arguments, "--show", 4], capsys) == result
    assert json_of([*arguments, "--seed", 1], capsys)["base"] != result["base"]
    second = json_of([*arguments, "--energy", "second"], capsys)
    assert (second["energy"], second["base"]) == ("second", result["base"])


@pytest.mark.filterwarnings(UNRELIABLE)
def test_generate_truncates_to_ten_tokens_unless_told(tiny_run, capsys):
    def base(*more):
        arguments = ["generate", tiny_run, "--prompt", "our union", "--candidates", 4, "--max-new-tokens", 12]
        return json_of([*arguments, *more], capsys)["base"]

    result = load_run(tiny_run)
    joint = RunContext(result.recipe, tiny_run).joint(next(iter(result.energies)))
    untruncated = joint.generate("our union", num_candidates=4, max_new_tokens=12).base.text
    assert base() == base("--top-k", 10)
    assert base("--top-p", 1) == untruncated
    assert base("--top-p", 0.5) != untruncated
    assert base() != untruncated


@pytest.mark.filterwarnings(UNRELIABLE)
def test_generate_for_people_reads_the_prompt_from_stdin(tiny_run, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("our [bold]union\n"))
    capsys.readouterr()
    arguments = ["generate", str(tiny_run), "--prompt", "-", "--candidates", "30", "--max-new-tokens", "5"]
    assert run_command([*arguments, "--show", "2"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for part in ("our [bold]union", "Frozen LM", "Joint model", "Lowest energy", "Highest energy", "30 candidates"):
        assert part in text


@pytest.mark.filterwarnings(UNRELIABLE)
def test_generate_draws_until_the_effective_sample_size_suffices(tiny_run, capsys):
    arguments = ["generate", tiny_run, "--prompt", "our union", "--candidates", 30, "--max-new-tokens", 5]
    result = json_of([*arguments, "--target-ess", 50], capsys)
    assert result["num_candidates"] >= 60
    assert result["ess"] >= 50
    limited = json_of([*arguments, "--target-ess", 63.999, "--max-candidates", 64], capsys)
    assert limited["num_candidates"] == 64


def test_prompt_longer_than_the_model(tiny_run):
    """In a process of its own: loading the models must not chatter either."""
    command = [sys.executable, "-m", "lexergy", "generate", str(tiny_run), "--prompt", "our union " * 60]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (2, "")
    assert len(result.stderr.splitlines()) == 1
    assert "the 48 the model can read; shorten the prompt" in result.stderr


def test_unknown_energy(tiny_run, capsys):
    message = mistake_of(["generate", tiny_run, "--prompt", "our union", "--energy", "third"], capsys)
    assert "first, second" in message
