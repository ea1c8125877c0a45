"""Evaluation of several energies at once: the same numbers as one at a time, whatever was killed before."""

import math

import pyarrow.parquet as parquet
import pytest
import torch

from lexergy.data.windows import Windows
from lexergy.errors import LexergyError
from lexergy.models.architectures.scratch import build_causal_lm
from lexergy.models.causal.lm import CausalLM
from lexergy.models.energies import StatesEnergy
from lexergy.models.joint.model import ResidualEBM
from lexergy.runs.records import weights_column
from lexergy.runs.shards import ShardStore
from lexergy.tasks.residual.evaluate import collect_weights, evaluate
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
        for field in ("base", "lower", "upper", "std_error", "gain", "ess", "pareto_k"):
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
