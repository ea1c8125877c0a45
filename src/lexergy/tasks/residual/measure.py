"""The stages that use the energies: perplexity on test windows, and prompts continued side by side."""

import warnings
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.parquet as parquet
import torch
from torch import Tensor

from lexergy.core.conditions import UnlikeTrainingWarning
from lexergy.core.estimation.perplexity import perplexity_from_weights
from lexergy.files import atomic_path
from lexergy.models.energies import SumEnergy
from lexergy.models.joint.model import ResidualEBM
from lexergy.models.joint.sampling import UnreliableWeightsWarning
from lexergy.progress import progress_bar
from lexergy.runs.columns import from_column, to_column
from lexergy.runs.records import (
    BASE_COLUMN,
    WEIGHTS_FOLDER,
    GenerationResult,
    generation_file,
    human_column,
    read_weights,
    weights_column,
    write_estimates,
    write_generation,
)
from lexergy.runs.stages import Facts, Stage
from lexergy.runs.workspace import OpenStage
from lexergy.tasks.residual.context import RunContext
from lexergy.tasks.residual.evaluate import evaluate, steered
from lexergy.tasks.residual.steering import resampling_of

CANDIDATES_KEPT = 5


def measure_perplexity(context: RunContext, stage: OpenStage) -> Facts:
    """Evaluate all energies but sums on the same samples; the log-weights are kept in shards."""
    return _measure(context, context.recipe.trained_energies, stage)


def _measure(context: RunContext, names: Iterable[str], stage: OpenStage) -> Facts:
    recipe, names = context.recipe.perplexity, list(names)
    assert recipe is not None
    windows = context.test_windows
    estimates = evaluate(
        context.lm,
        {name: context.energy(name) for name in names},
        windows,
        recipe.samples,
        stage.seed,
        num_runs=recipe.num_runs,
        resampling=None if recipe.num_runs is None else steered(context, names),
        store=stage.store(WEIGHTS_FOLDER, seed=stage.seed),
        progress=stage.progress,
    )
    write_estimates(stage.folder, estimates)
    return {"windows": len(windows), "samples": recipe.samples}


def measure_sums(context: RunContext, perplexity: Stage, stage: OpenStage) -> Facts:
    """The perplexity of sums, from the weights of their parts: log w = -c_0 + sum_i c_i log w_i. Nothing is drawn.

    By SMC each sum steers runs of its own.
    """
    assert context.recipe.perplexity is not None
    if context.recipe.perplexity.method == "smc":
        return _measure(context, context.recipe.sums, stage)
    parts = read_weights(perplexity.folder)
    base_log_prob = _column(parts, BASE_COLUMN)  # (N,)
    columns, estimates = {}, {}
    for name, recipe in context.recipe.sums.items():
        energy = context.energy(name)
        assert isinstance(energy, SumEnergy)
        constant, coefficients = energy.constant.item(), energy.coefficients.tolist()
        weighed = list(zip(coefficients, recipe.of, strict=True))
        human = constant + sum(c * _column(parts, human_column(part)) for c, part in weighed)  # (N,)
        log_weights = -constant + sum(c * _column(parts, weights_column(part)) for c, part in weighed)  # (N, n)
        length, documents = context.mean_length(context.test_windows), context.test_windows.document_ids
        estimates[name] = perplexity_from_weights(
            base_log_prob, human, log_weights, length, stage.seed, documents=documents
        )
        columns[human_column(name)] = to_column(human.numpy())
        columns[weights_column(name)] = to_column(log_weights.numpy())
    with atomic_path(stage.folder / WEIGHTS_FOLDER / "sums.parquet") as partial:
        parquet.write_table(pa.table(columns), partial)
    write_estimates(stage.folder, estimates)
    return {"windows": len(base_log_prob)}


def _column(table: pa.Table, name: str) -> Tensor:
    return torch.from_numpy(from_column(table.column(name)))


def generate_samples(context: RunContext, stage: OpenStage) -> Facts:
    """Continue each prompt by the LM and by each joint model (Algorithm 1, or SMC); one file each."""
    recipe = context.recipe.generation
    assert recipe is not None
    wanted = [
        (stage.folder / generation_file(number, name), prompt, name)
        for number, prompt in enumerate(recipe.prompts)
        for name in context.recipe.energies
    ]
    missing = [item for item in wanted if not item[0].exists()]
    joints = {name: context.joint(name) for name in {item[2] for item in missing}}
    with progress_bar("samples", len(wanted), stage.progress, completed=len(wanted) - len(missing)) as bar:
        for path, prompt, name in missing:
            write_generation(path, _generate(context, joints[name], prompt, name, stage.seed))
            bar.advance()
    return {"prompts": len(recipe.prompts)}


def _generate(context: RunContext, joint: ResidualEBM, prompt: str, name: str, seed: int) -> GenerationResult:
    recipe = context.recipe.generation
    assert recipe is not None
    resampling = None
    if recipe.method == "smc":
        truncated = recipe.top_k is not None or recipe.top_p is not None
        resampling = resampling_of(context, name, recipe.max_new_tokens, truncated=truncated)
    with warnings.catch_warnings():
        # Heavy-tailed weights are told by the k-hat in the result; how prompts differ from windows, by the recipe.
        warnings.simplefilter("ignore", UnreliableWeightsWarning)
        warnings.simplefilter("ignore", UnlikeTrainingWarning)
        generation = joint.generate(
            prompt,
            num_candidates=recipe.candidates,
            max_new_tokens=recipe.max_new_tokens,
            top_k=recipe.top_k,
            top_p=recipe.top_p,
            seed=seed,
            method=recipe.method,
            resampling=resampling,
        )
    candidates = generation.candidates
    return GenerationResult(
        energy=name,
        prompt=prompt,
        base_text=generation.base.text,
        joint_text=generation.text,
        best=tuple(candidates[:CANDIDATES_KEPT]),
        worst=tuple(reversed(candidates[-CANDIDATES_KEPT:])),
        ess=generation.ess,
        pareto_k=generation.pareto_k,
        num_candidates=len(candidates),
        num_ancestors=generation.num_ancestors,
    )
