"""`lexergy perplexity` on a tiny run."""

import pytest

from lexergy.cli.main import run_command
from lexergy.runs.records import load_run
from lexergy.tasks.residual.context import RunContext
from toys.commands import json_of, mistake_of


def test_perplexity_reads_the_stored_result(tiny_run, capsys):
    stored = json_of(["perplexity", tiny_run], capsys)["energies"]
    assert stored["first"]["num_samples"] == 32
    assert stored["first"]["num_windows"] == 6
    assert stored["first"]["lower"] <= stored["first"]["upper"]
    gain = 100 * (1 - stored["first"]["bound"] / stored["first"]["base"])
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
    printed = " ".join(capsys.readouterr().out.split())
    assert "8 samples per window are too few" in printed
    assert f"error over {len(set(document_ids(tiny_run, 2)))} documents" in printed


def test_perplexity_by_smc(tiny_run, capsys):
    """A run of K particles is one sample of Z: so many runs, and the bound of what is drawn from them."""
    options = ["perplexity", tiny_run, "--energy", "first", "--windows", 2]
    by_smc = json_of([*options, "--samples", 8, "--method", "smc", "--runs", 3], capsys)["energies"]["first"]
    assert (by_smc["num_samples"], by_smc["num_particles"]) == (3, 8)
    plain = json_of([*options, "--samples", 32], capsys)["energies"]["first"]
    assert by_smc["base"] == pytest.approx(plain["base"])
    assert by_smc["bound"] == pytest.approx(plain["bound"], rel=0.05)
    assert by_smc["bound"] != plain["bound"]
    assert "`--runs` is 3 without `--method smc`" in mistake_of([*options, "--samples", 8, "--runs", 3], capsys)
    assert "`--method smc` was given without `--samples`" in mistake_of(
        ["perplexity", tiny_run, "--method", "smc"], capsys
    )


def document_ids(run, count):
    result = load_run(run)
    return RunContext(result.recipe, result.folder).some_test_windows(count).document_ids


def test_more_windows_than_there_are(tiny_run, capsys):
    message = mistake_of(["perplexity", tiny_run, "--samples", 4, "--windows", 99], capsys)
    assert "has 6 test windows" in message
