"""Results are read as they were written; those of runs finished before are filled up from their log-weights."""

import json
import shutil

import pytest
import torch

from lexergy.core.candidates import Candidate
from lexergy.errors import LexergyError
from lexergy.runs.records import ESTIMATES_FILE, load_run

# As runs wrote it before they kept what each window's estimate is made of.
EARLY_ESTIMATE = {
    "base": 28.5,
    "lower": 26.25,
    "upper": 26.5,
    "std_error": 0.5,
    "gain": 0.0625,
    "gain_std_error": 0.0078125,
    "ess": 12.5,
    "pareto_k": float("nan"),
    "pareto_k_above": 0.1,
    "pareto_k_threshold": 0.4,
    "num_samples": 40,
    "num_windows": 10,
    "curve": [
        {"num_samples": 20, "lower": 26.0, "upper": 27.0},
        {"num_samples": 40, "lower": 26.25, "upper": 26.5},
    ],
}


@pytest.fixture
def copy(finished_run, tmp_path):
    """The run as an early version left it: without lists of files."""
    folder = shutil.copytree(finished_run, tmp_path / "copy")
    for path in folder.rglob("stage.json"):
        manifest = json.loads(path.read_text())
        del manifest["files"]
        path.write_text(json.dumps(manifest))
    return folder


def test_an_early_run_gets_its_bound_from_its_log_weights(finished_run, copy):
    path = copy / "perplexity" / ESTIMATES_FILE
    path.write_text(json.dumps(dict.fromkeys(json.loads(path.read_text()), EARLY_ESTIMATE)))
    kept, early = load_run(finished_run).energies, load_run(copy).energies
    for name, energy in early.items():
        assert energy.perplexity == kept[name].perplexity
        assert_equal_windows(energy.perplexity.windows, kept[name].perplexity.windows)
        assert energy.perplexity.num_documents < energy.perplexity.num_windows


def test_an_early_run_without_log_weights_says_what_to_do(copy):
    shutil.rmtree(copy / "perplexity" / "weights")
    with pytest.raises(LexergyError, match=r"holds no log-weights.*start the same run again"):
        load_run(copy)


def assert_equal_windows(found, expected):
    assert found.log_z.sizes == expected.log_z.sizes == (5, 10, 20, 40)
    for name in ("base_log_prob", "energy", "log_z_lower", "log_z_upper", "ess", "pareto_k"):
        torch.testing.assert_close(getattr(found, name), getattr(expected, name), rtol=0, atol=0, equal_nan=True)
    assert torch.equal(found.log_z.upper, expected.log_z.upper)
    assert torch.equal(found.log_z.sampler, expected.log_z.sampler)
    assert found.documents == expected.documents


def test_the_windows_add_up_to_the_estimate(finished_run):
    for energy in load_run(finished_run).energies.values():
        estimate, windows = energy.perplexity, energy.perplexity.windows
        for perplexity, log_z in (("lower", "lower"), ("upper", "upper"), ("bound", "sampler")):
            log_prob = (windows.base_log_prob - windows.energy)[:, None] - getattr(windows.log_z, log_z)  # (N, S)
            found = torch.exp(-log_prob.mean(0) / estimate.continuation_length)
            assert found.tolist() == pytest.approx([getattr(point, perplexity) for point in estimate.curve])
        assert float(windows.gain.mean()) / 5 == pytest.approx(estimate.gain)
        assert float(windows.ess.mean()) == pytest.approx(estimate.ess)


def test_early_candidates_have_no_tokens(copy):
    path = copy / "samples" / "000-bit.json"
    record = json.loads(path.read_text())
    record["best"] = [{"text": " on", "energy": -1.5, "log_prob": -20.0, "weight": 0.25}]
    path.write_text(json.dumps(record))
    early, kept = (generation for generation in load_run(copy).generations if generation.energy == "bit")
    assert early.best == (Candidate(" on", -1.5, -20.0, 0.25),)
    assert {len(candidate.tokens) for candidate in kept.best} == {5}
