"""The command line on a tiny run, end to end."""

import io
import json
import os
import resource
import shutil
import subprocess
import sys
import warnings

import pytest

from lexergy.cli.main import app, quieten_libraries, run_command
from lexergy.cli.models import open_joint
from lexergy.cli.summary import show_summary
from lexergy.cli.verbs.reproduce import read_seeds
from lexergy.runs.records import load_run

VERBS = [
    "quickstart",
    "run",
    "generate",
    "perplexity",
    "next-token",
    "mcmc",
    "pretrain",
    "score",
    "rescore",
    "explain",
    "data",
    "report",
    "reproduce",
]
UNRELIABLE = "ignore::lexergy.models.joint.sampling.UnreliableWeightsWarning"


def json_of(arguments, capsys):
    """What a command prints with --json, which must be JSON and nothing else, without NaN or infinities."""
    capsys.readouterr()
    assert run_command([*map(str, arguments), "--json"]) == 0

    def refuse(name):
        raise AssertionError(f"{name} is not JSON")

    return json.loads(capsys.readouterr().out, parse_constant=refuse)


def test_every_verb_is_tested():
    assert [command.name for command in app.registered_commands] == VERBS


@pytest.mark.parametrize("verb", VERBS)
def test_help_has_an_example(verb, capsys):
    assert run_command([verb, "--help"]) == 0
    text = capsys.readouterr().out
    examples = [line for line in text.splitlines() if line.strip().startswith(f"lexergy {verb}")]
    assert "Example" in text
    assert examples
    assert all(len(line) <= 100 for line in examples)


def test_examples_in_help_parse(capsys):
    """Every option that an example names exists."""
    for verb in VERBS:
        run_command([verb, "--help"])
        text = capsys.readouterr().out
        options = {word for word in text.split("Options:")[1].split() if word.startswith("--")}
        examples = [line for line in text.splitlines() if f"lexergy {verb} " in line]
        used = {word for line in examples for word in line.split() if word.startswith("--")}
        assert used <= options


def test_no_arguments_shows_help(capsys):
    assert run_command([]) == 0
    assert "quickstart" in capsys.readouterr().out


def test_help_is_quick_and_imports_nothing_heavy():
    heavy = ["torch", "transformers", "datasets", "matplotlib", "pyarrow", "numpy", "rich", "jinja2"]
    program = (
        "import sys; from lexergy.cli.main import run_command; run_command(['generate', '--help']); "
        f"print([name for name in {heavy} if name in sys.modules], file=sys.stderr)"
    )
    seconds = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert result.stderr.strip() == "[]"
        # Processor time: the clock on the wall depends on what else the machine does.
        seconds.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    assert min(seconds) < 0.5


def test_run_again_shows_the_same(tiny_run, tiny_recipe_file, capsys):
    first = json.loads((tiny_run.parent / "summary.json").read_text())
    again = json_of(["run", tiny_recipe_file, "--folder", tiny_run], capsys)
    assert first == again
    assert set(first["energies"]) == {"first", "second"}
    assert first["energies"]["first"]["base"] > 1
    assert (tiny_run / "report.html").exists()


def test_run_for_people(tiny_run, capsys):
    capsys.readouterr()
    show_summary(load_run(tiny_run), tiny_run / "report.html")
    text = capsys.readouterr().out
    for part in ("frozen LM", "joint model, first", "bounds gap", "ESS", "k-hat", "windows", "samples"):
        assert part in text
    assert "our <script>alert(1)</script> union" in text
    assert f"Report: {tiny_run / 'report.html'}" in text
    assert f"lexergy perplexity {tiny_run} --samples 256 --windows 6" in text
    assert max(len(line) for line in text.splitlines() if "lexergy" not in line and "Report" not in line) <= 80


def test_perplexity_reads_the_stored_result(tiny_run, capsys):
    stored = json_of(["perplexity", tiny_run], capsys)["energies"]
    assert stored["first"]["num_samples"] == 32
    assert stored["first"]["num_windows"] == 6
    assert stored["first"]["lower"] <= stored["first"]["upper"]
    gain = 100 * (1 - stored["first"]["upper"] / stored["first"]["base"])
    assert stored["first"]["gain_percent"] == pytest.approx(gain)
    assert list(json_of(["perplexity", tiny_run, "--energy", "second"], capsys)["energies"]) == ["second"]


def test_perplexity_estimates_again(tiny_run, capsys):
    stored = json_of(["perplexity", tiny_run], capsys)["energies"]
    fresh = json_of(["perplexity", tiny_run, "--samples", 40], capsys)["energies"]
    assert fresh["first"]["num_samples"] == 40
    assert fresh["first"]["base"] == pytest.approx(stored["first"]["base"])
    fewer = json_of(["perplexity", tiny_run, "--samples", 40, "--windows", 2, "--seed", 1], capsys)["energies"]
    assert fewer["first"]["num_windows"] == 2
    other = json_of(["perplexity", tiny_run, "--samples", 40, "--windows", 2, "--seed", 2], capsys)["energies"]
    assert other["first"]["upper"] != fewer["first"]["upper"]
    assert run_command(["perplexity", str(tiny_run), "--samples", "8", "--windows", "2"]) == 0
    assert "too few of them" in " ".join(capsys.readouterr().out.split())


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

    joint = open_joint(tiny_run, None)[1]
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
    text = capsys.readouterr().out
    for part in (
        "our [bold]union\n",
        "Frozen LM",
        "Joint model",
        "Lowest energy",
        "Highest energy",
        "30 candidates",
    ):
        assert part in text.replace(" \n", "\n").replace("  ", "") or part in text


@pytest.mark.filterwarnings(UNRELIABLE)
def test_generate_draws_until_the_effective_sample_size_suffices(tiny_run, capsys):
    arguments = ["generate", tiny_run, "--prompt", "our union", "--candidates", 30, "--max-new-tokens", 5]
    result = json_of([*arguments, "--target-ess", 50], capsys)
    assert result["num_candidates"] >= 60
    assert result["ess"] >= 50
    limited = json_of([*arguments, "--target-ess", 63.999, "--max-candidates", 64], capsys)
    assert limited["num_candidates"] == 64


def test_next_token(tiny_run, capsys):
    arguments = ["next-token", tiny_run, "--prompt", "our union", "--candidates", 6]
    arguments += ["--samples", 8, "--horizon", 4, "--top", 3]
    result = json_of(arguments, capsys)
    joint = [entry["joint"] for entry in result["entries"]]
    assert len(joint) == 3
    assert joint == sorted(joint, reverse=True)
    assert run_command(list(map(str, arguments))) == 0
    text = capsys.readouterr().out
    assert repr(result["entries"][0]["text"]) in text
    assert "6 likeliest tokens" in text


def test_report_prints_its_path(tiny_run, capsys):
    page = tiny_run / "report.html"
    page.unlink()
    capsys.readouterr()
    assert run_command(["report", str(tiny_run)]) == 0
    assert capsys.readouterr().out == f"{page}\n"
    assert "<script" not in page.read_text()


def test_only_warnings_of_lexergy_are_shown(capsys, monkeypatch):
    monkeypatch.setattr(os, "environ", os.environ.copy())
    monkeypatch.delenv("LEXERGY_DEBUG", raising=False)
    with warnings.catch_warnings():
        quieten_libraries()
        warnings.warn_explicit("k-hat is high", UserWarning, "residual.py", 1, module="lexergy.models.joint.model")
        warnings.warn_explicit("chatter", UserWarning, "nn.py", 1, module="torch.nn")
    assert capsys.readouterr().err == "warning: k-hat is high\n"
    assert os.environ["TRANSFORMERS_VERBOSITY"] == "error"


def test_reproduce_lists_its_studies(capsys):
    for arguments in (["reproduce"], ["reproduce", "--list"], ["reproduce", "figure-1", "--list"]):
        assert run_command(arguments) == 0
        text = capsys.readouterr().out
        assert all(name in text for name in ("table-1", "figure-2-right", "tables-5-6"))


def test_reproduce_writes_a_study(tiny_recipe_file, tiny_run, tmp_path, monkeypatch, capsys):
    """The command's own run folder, so a run that is there already is only read."""
    shutil.copytree(tiny_run, tmp_path / "runs" / "reproduce" / "tiny-seed0")
    monkeypatch.chdir(tmp_path)
    arguments = ["reproduce", "figure-2-left", "--recipe", str(tiny_recipe_file), "--energy", "second", "--out", "here"]
    assert run_command(arguments) == 0
    output = capsys.readouterr()
    assert "stage" not in output.err
    assert "The gap between the bounds closes" in output.out
    assert "pessimistic" in output.out
    page = (tmp_path / "here" / "figure-2-left.md").read_text()
    command = f"lexergy reproduce figure-2-left --size cpu --seeds 1 --recipe {tiny_recipe_file} --energy second"
    assert f"`{command}`" in page
    assert {path.suffix for path in (tmp_path / "here").iterdir()} == {".md", ".csv", ".png"}


@pytest.mark.parametrize(
    ("text", "seeds"), [("1", (0,)), ("3", (0, 1, 2)), ("0,1,2", (0, 1, 2)), ("7,", (7,)), (" 4, 2 ", (4, 2))]
)
def test_seeds(text, seeds):
    assert read_seeds(text) == seeds
