"""Evaluation of several energies at once: the same numbers as one at a time, whatever was killed before."""

import math

import numpy as np
import pyarrow.parquet as parquet
import pytest
import torch

from lexergy.data.windows import Windows
from lexergy.errors import LexergyError
from lexergy.models.architectures.scratch import build_causal_lm
from lexergy.models.causal.lm import CausalLM
from lexergy.models.energies import StatesEnergy
from lexergy.models.joint.model import ResidualEBM
from lexergy.runs.records import load_run, weights_column
from lexergy.runs.shards import ShardStore
from lexergy.tasks.residual.context import RunContext
from lexergy.tasks.residual.evaluate import collect_weights, evaluate, evaluate_again
from toys.kills import killed_once

PREFIX, LENGTH = 3, 4


@pytest.fixture(scope="module")
def lm() -> CausalLM:
    model = build_causal_lm(11, 8, 2, 2, 16, seed=1)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(4)  # a skewed distribution, so that a flipped sign shows
    return CausalLM(model)


@pytest.fixture(scope="module")
def windows() -> Windows:
    generator = torch.Generator().manual_seed(5)
    tokens = torch.randint(0, 11, (7, PREFIX + LENGTH), generator=generator)
    return Windows(tokens, PREFIX, [str(i) for i in range(7)], list(range(7)))


def states_energy(lm, layers) -> StatesEnergy:
    energy = StatesEnergy.for_lm(lm, layers)
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for weight in energy.parameters():
            weight.copy_(0.3 * torch.randn(weight.shape, generator=generator))
    return energy


def parity(tokens):  # (B, L) -> (B,)
    return (tokens % 2).sum(-1) * 0.4 - (tokens[:, -1] == 3) * 1.0


@pytest.mark.parametrize("num_samples", [50, 300])  # several windows a shard; several chunks a window
def test_each_energy_gets_the_joint_models_own_estimate(lm, windows, num_samples):
    energies = {"parity": parity, "states": states_energy(lm, (0, 2)), "other layers": states_energy(lm, (2, 1))}
    estimates = evaluate(lm, energies, windows, num_samples, 9, progress=False)
    for name, energy in energies.items():
        expected = ResidualEBM(lm, energy).perplexity(windows, num_samples=num_samples, seed=9)
        found = estimates[name]
        for field in ("base", "bound", "lower", "upper", "std_error", "gain", "ess", "pareto_k"):
            assert getattr(found, field) == pytest.approx(getattr(expected, field), rel=1e-5), field
        torch.testing.assert_close(found.windows.energy, expected.windows.energy, rtol=1e-5, atol=1e-6)
    assert estimates["parity"].upper != pytest.approx(estimates["states"].upper, rel=1e-3)


def test_an_energy_of_zero_changes_nothing(lm, windows):
    estimate = evaluate(lm, {"zero": lambda tokens: torch.zeros(len(tokens))}, windows, 20, 0, progress=False)["zero"]
    assert estimate.lower == pytest.approx(estimate.base, rel=1e-9)
    assert estimate.upper == pytest.approx(estimate.base, rel=1e-9)
    assert estimate.ess == pytest.approx(20)


def test_a_killed_evaluation_goes_on_to_the_same_weights(lm, windows, tmp_path):
    whole = collect_weights(lm, {"e": parity}, windows, 200, 4, progress=False)
    with pytest.raises(KeyboardInterrupt):
        collect_weights(
            lm, {"e": killed_once(parity, 3)}, windows, 200, 4, store=ShardStore(tmp_path, {"key": 1}), progress=False
        )
    store = ShardStore(tmp_path, {"key": 1})
    kept = store.missing(7)
    assert 0 < len(kept) < 7
    first = parquet.ParquetFile(next(tmp_path.glob("*.parquet"))).read()
    resumed = collect_weights(lm, {"e": parity}, windows, 200, 4, store=store, progress=False)
    assert resumed.replace_schema_metadata(None).equals(whole)
    assert first.replace_schema_metadata(None).equals(whole.slice(0, len(first)))
    assert resumed.column("window").to_pylist() == list(range(7))
    assert len(resumed.column(weights_column("e"))[0]) == 200


def test_no_energy_and_broken_energies_are_errors(lm, windows):
    with pytest.raises(LexergyError, match="no energy"):
        evaluate(lm, {}, windows, 10, 0, progress=False)
    with pytest.raises(LexergyError, match="NaN"):
        evaluate(lm, {"nan": lambda tokens: torch.full((len(tokens),), math.nan)}, windows, 10, 0, progress=False)


def test_a_run_is_estimated_again_on_its_own_windows_or_some_of_them(finished_run):
    result = load_run(finished_run)
    context = RunContext(result.recipe, result.folder)
    ids = list(zip(context.test_windows.document_ids, context.test_windows.starts, strict=True))
    again = evaluate_again(result, ["states"], len(ids), 8, 0)["states"]
    assert again.base == pytest.approx(result.energies["states"].perplexity.base)
    assert again.windows.documents == result.energies["states"].perplexity.windows.documents
    fewer = context.some_test_windows(4)
    chosen = [ids.index(window) for window in zip(fewer.document_ids, fewer.starts, strict=True)]
    assert chosen == sorted(chosen)
    assert max(np.diff([-1, *chosen, len(ids)])) <= 4, "spread over all windows, not the first of them"
    assert evaluate_again(result, ["states"], 4, 8, 0)["states"].windows.documents == tuple(fewer.document_ids)


def test_a_limit_on_the_windows_of_a_run_is_kept_to(finished_run):
    recipe = load_run(finished_run).recipe
    limited = recipe.model_copy(update={"perplexity": recipe.perplexity.model_copy(update={"windows": 5})})
    context = RunContext(limited, finished_run)
    own = list(zip(context.test_windows.document_ids, context.test_windows.starts, strict=True))
    assert len(own) == 5
    for count in (5, 2):
        again = context.some_test_windows(count)
        assert set(zip(again.document_ids, again.starts, strict=True)) <= set(own)
    assert len(context.some_test_windows(7)) == 7
