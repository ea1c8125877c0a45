"""The stages that use the energies: perplexity on test windows, and prompts continued side by side."""

import warnings
from pathlib import Path
from typing import Any

from lexergy.core.perplexity import PerplexityEstimate
from lexergy.data.files import atomic_write_json
from lexergy.data.shards import ShardStore
from lexergy.models.residual import Candidate, ResidualEBM, UnreliableWeightsWarning
from lexergy.progress import progress_bar
from lexergy.tasks.context import RunContext
from lexergy.tasks.evaluate import evaluate
from lexergy.tasks.recipe import GenerationRecipe
from lexergy.tasks.results import ESTIMATES_FILE, WEIGHTS_FOLDER, generation_file
from lexergy.tasks.stages import PARTIAL, read_json

CANDIDATES_KEPT = 5


def measure_perplexity(context: RunContext, folder: Path, seed: int) -> dict[str, Any]:
    """Evaluate all energies on the same samples; the log-weights are kept in shards."""
    recipe = context.recipe.perplexity
    windows = context.test_windows
    # The stage's key stands for LM, energies, windows and samples.
    provenance = {"key": read_json(folder / PARTIAL)["key"], "seed": seed}
    estimates = evaluate(
        context.lm,
        {name: context.energy(name) for name in context.recipe.energies},
        windows,
        recipe.samples,
        seed,
        store=ShardStore(folder / WEIGHTS_FOLDER, provenance),
        progress=context.progress,
    )
    atomic_write_json(folder / ESTIMATES_FILE, {name: _plain(estimate) for name, estimate in estimates.items()})
    return {"windows": len(windows), "samples": recipe.samples}


def _plain(estimate: PerplexityEstimate) -> dict[str, Any]:
    """The estimate as JSON; what it holds per window can be had again from the log-weights."""
    left_out = {"curve", "windows", "continuation_length"}
    record = {name: value for name, value in vars(estimate).items() if name not in left_out}
    points = zip(estimate.curve.num_samples, estimate.curve.lower, estimate.curve.upper, strict=True)
    curve = [{"num_samples": n, "lower": lower, "upper": upper} for n, lower, upper in points]
    return {**record, "curve": curve}


def generate_samples(context: RunContext, folder: Path, seed: int) -> dict[str, Any]:
    """Continue each prompt by the LM and by each joint model (Algorithm 1); one file each."""
    recipe = context.recipe.generation
    assert recipe is not None
    wanted = [
        (folder / generation_file(number, name), prompt, name)
        for number, prompt in enumerate(recipe.prompts)
        for name in context.recipe.energies
    ]
    missing = [item for item in wanted if not item[0].exists()]
    joints = {name: ResidualEBM(context.lm, context.energy(name)) for name in {item[2] for item in missing}}
    with progress_bar("samples", len(wanted), context.progress, completed=len(wanted) - len(missing)) as bar:
        for path, prompt, name in missing:
            atomic_write_json(path, _generate(joints[name], recipe, prompt, name, seed))
            bar.advance()
    return {"prompts": len(recipe.prompts)}


def _generate(joint: ResidualEBM, recipe: GenerationRecipe, prompt: str, name: str, seed: int) -> dict[str, Any]:
    with warnings.catch_warnings():
        # Heavy-tailed weights are told by the k-hat in the result.
        warnings.simplefilter("ignore", UnreliableWeightsWarning)
        generation = joint.generate(
            prompt,
            num_candidates=recipe.candidates,
            max_new_tokens=recipe.max_new_tokens,
            top_k=recipe.top_k,
            top_p=recipe.top_p,
            seed=seed,
        )
    candidates = generation.candidates
    return {
        "energy": name,
        "prompt": prompt,
        "base_text": generation.base.text,
        "joint_text": generation.text,
        "best": [_candidate(candidate) for candidate in candidates[:CANDIDATES_KEPT]],
        "worst": [_candidate(candidate) for candidate in reversed(candidates[-CANDIDATES_KEPT:])],
        "ess": generation.ess,
        "pareto_k": generation.pareto_k,
        "num_candidates": len(candidates),
    }


def _candidate(candidate: Candidate) -> dict[str, Any]:
    return {
        "text": candidate.text,
        "energy": candidate.energy,
        "log_prob": candidate.log_prob,
        "weight": candidate.weight,
    }
