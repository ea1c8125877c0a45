"""`lexergy generate` on a tiny run."""

import io
import json
import subprocess
import sys

import pytest

from lexergy.cli.main import run_command
from lexergy.runs.records import load_run
from lexergy.tasks.residual.context import RunContext
from toys.commands import json_of, mistake_of

UNRELIABLE = "ignore::lexergy.models.joint.sampling.UnreliableWeightsWarning"
pytestmark = pytest.mark.filterwarnings("ignore::lexergy.core.conditions.UnlikeTrainingWarning")


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
def test_generate_by_smc(tiny_run, capsys):
    arguments = ["generate", tiny_run, "--prompt", "our union", "--candidates", 30, "--max-new-tokens", 5]
    plain, result = json_of(arguments, capsys), json_of([*arguments, "--method", "smc"], capsys)
    assert plain["num_ancestors"] is None
    assert 1 <= result["num_ancestors"] <= result["num_candidates"] == 30
    assert result["base"] == plain["base"]
    long = [json_of([*arguments, "--chunks", 2, *more], capsys) for more in ([], ["--method", "smc"])]
    assert long[0]["num_ancestors"] is None
    assert 1 <= long[1]["num_ancestors"] <= 30
    assert len(long[1]["chunks"]) == 2
    assert long[1]["base"] == long[0]["base"]
    mistake = mistake_of([*arguments, "--method", "smc", "--target-ess", 2], capsys)
    assert "`--target-ess` is given beside `--method smc`" in mistake


def test_generate_token_by_token(tiny_run, capsys):
    arguments = ["generate", tiny_run, "--prompt", "our union", "--token-by-token", 2, "--max-new-tokens", 3]
    result = json_of([*arguments, "--top-k", 4], capsys)
    found = load_run(tiny_run)
    joint = RunContext(found.recipe, tiny_run).joint(next(iter(found.energies)))
    own = joint.generate_tokens("our union", max_new_tokens=3, top_k=4, num_samples=2)
    assert (result["joint"], result["num_drawn"]) == (own.text, 3 + 4 * 2 * (2 + 1))
    assert json_of(arguments, capsys)["num_drawn"] == 3 + 10 * 2 * (2 + 1)
    for more in (["--chunks", 2], ["--method", "smc"], ["--top-p", 0.9], ["--stop", "."]):
        assert f"`{more[0]}` is given beside `--token-by-token`" in mistake_of([*arguments, *more], capsys)


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


@pytest.mark.filterwarnings(UNRELIABLE)
def test_generate_stops_at_strings(tiny_run, capsys):
    arguments = ["generate", tiny_run, "--prompt", "our union", "--candidates", 40, "--max-new-tokens", 12, "--show", 9]
    plain = json_of(arguments, capsys)
    letters = [letter for letter in "aeiou" if letter in plain["base"]][:2]
    result = json_of([*arguments, *(part for letter in letters for part in ("--stop", letter))], capsys)
    cut = min(plain["base"].index(letter) for letter in letters)
    assert result["base"] == plain["base"][:cut]
    assert not any(letter in candidate["text"] for candidate in result["best"] for letter in letters)
    lengths = {len(candidate["tokens"]) for candidate in result["best"] + result["worst"]}
    assert min(lengths) < 12
    told = " ".join(result["warnings"])
    assert "trained on continuations of 8 tokens; " in told
    assert "of 40 candidates here stop sooner" in told
    broken = json_of([*arguments, "--stop", "\\n"], capsys)
    assert "\n" not in broken["base"] + broken["joint"]
    long = json_of([*arguments[:-2], "--chunks", 3, "--stop", letters[0]], capsys)
    assert letters[0] not in long["base"] + long["joint"]
    assert len(long["chunks"]) <= 3
    assert "`--stop` is empty" in mistake_of([*arguments, "--stop", ""], capsys)


@pytest.mark.filterwarnings(UNRELIABLE)
def test_generate_ends_texts_when_asked(tiny_run, capsys):
    arguments = ["generate", tiny_run, "--prompt", "our union", "--candidates", 60, "--top-p", 1, "--show", 60]
    usual = json_of(arguments, capsys)
    assert {len(candidate["tokens"]) for candidate in usual["best"]} == {40}
    ended = json_of([*arguments, "--stop-at-end"], capsys)
    assert min(len(candidate["tokens"]) for candidate in ended["best"]) < 40
    assert not any("<|endoftext|>" in candidate["text"] for candidate in ended["best"])
    assert json_of([*arguments, "--no-stop-at-end"], capsys) == usual


def test_generate_warns_in_numbers_of_a_use_unlike_the_training(tiny_run):
    command = ["generate", str(tiny_run), "--prompt", "our union", "--candidates", "4", "--json"]
    result = subprocess.run([sys.executable, "-m", "lexergy", *command], capture_output=True, text=True, check=True)
    lines = result.stderr.splitlines()
    told = [line.removeprefix("warning: ") for line in lines if line.startswith("warning: ")]
    assert [line.split()[:2] for line in lines if line.startswith("tokens")][-1] == ["tokens", "160/160"]
    assert told == json.loads(result.stdout)["warnings"]
    assert "prefixes of 8 tokens and continuations of 8; here the prompt has 3 and 40 are written" in told[0]
    assert "untruncated samples of the LM; candidates here are top-k 10" in told[1]


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
