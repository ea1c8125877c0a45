"""What a finished run found, read from its files and nothing else."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import torch
from torch import Tensor

from lexergy.core.candidates import Candidate
from lexergy.core.estimation.partition import PartitionCurve
from lexergy.core.estimation.perplexity import (
    CurvePoint,
    ExactPerplexity,
    PerplexityEstimate,
    WindowEstimates,
    exact_perplexity,
    perplexity_from_weights,
)
from lexergy.core.fitting.learning_curves import HeldOutLoss, LearningCurve, Stop
from lexergy.data.windows import Windows
from lexergy.errors import LexergyError
from lexergy.files import atomic_write_json, inside, reading
from lexergy.files import read_json as read_file
from lexergy.recipes.residual import LEARNING_CURVE, ResidualRecipe
from lexergy.recipes.sections.energies import TrainedEnergyRecipe
from lexergy.recipes.sections.local_residuals import RESIDUAL_PERPLEXITY
from lexergy.runs.columns import from_column
from lexergy.runs.stages import MANIFEST, RUN_AGAIN, Stage, read_json, read_stage, stage_seed
from lexergy.storage import fetched

RUN_FILE = "run.json"
ESTIMATES_FILE = "estimates.json"
WEIGHTS_FOLDER = "weights"
HISTORY_FILE = "history.json"
TOKENS_FILE = "tokens.parquet"
BASE_COLUMN = "base_log_prob"  # log P_LM of people's continuations, (N,)
BARE = "bare"  # the LM without its local residuals
BASE_TOKENS = "base"  # the base LM among the baselines' token columns


@dataclass(frozen=True)
class EnergyResult:
    """One energy: what it adds, the energies it gives, how its training went."""

    name: str
    kind: str
    measured: PerplexityEstimate | None  # None where the recipe has `perplexity: null`
    lm_energies: np.ndarray  # (N, n) of the LM's continuations of the test prefixes; (N, 0) where SMC steered them
    history: tuple[dict[str, Any], ...]  # of a training, step by step
    fit: dict[str, Any] = field(default_factory=dict)  # of a head that was fitted: penalties, held-out loss

    @property
    def perplexity(self) -> PerplexityEstimate:
        """What was measured on test windows."""
        if self.measured is None:
            raise LexergyError(
                f"the perplexity with the energy `{self.name}` was not measured: its recipe has `perplexity: null`; "
                "leave that out, with an LM that gives log-probabilities of text, and start the run again."
            )
        return self.measured

    @property
    def best_validation(self) -> dict[str, float]:
        """Loss and accuracy on pairs that were held out, where the loss was least; empty for a sum."""
        if self.fit:
            return dict(self.fit["validation"])
        validations = [record["validation"] for record in self.history if "loss" in record["validation"]]
        return min(validations, key=lambda values: values["loss"], default={})

    @property
    def human_energies(self) -> np.ndarray:  # (N,)
        """Of people's continuations of the same prefixes."""
        return self.perplexity.windows.energy.numpy()


@dataclass(frozen=True)
class BaselineResult(ExactPerplexity):
    """An autoregressive baseline on the energies' test windows."""

    name: str
    kind: str
    parameters: int  # of the whole model: LM and residual of a RALM


@dataclass(frozen=True)
class GenerationResult:
    """A prompt continued by the base LM and by the joint model with one energy (Algorithm 1, or SMC)."""

    energy: str
    prompt: str
    base_text: str
    joint_text: str
    best: tuple[Candidate, ...]  # lowest energy first
    worst: tuple[Candidate, ...]  # highest energy first
    ess: float
    pareto_k: float
    num_candidates: int
    num_ancestors: int | None = None  # by SMC: how many of the first particles the candidates descend from


@dataclass(frozen=True)
class CorpusFacts:
    """Documents and windows of each split: train, validation, test."""

    source: str
    documents: dict[str, int]
    windows: dict[str, int]


@dataclass(frozen=True)
class RunResult:
    """A finished run."""

    folder: Path
    recipe: ResidualRecipe
    energies: dict[str, EnergyResult]
    generations: tuple[GenerationResult, ...]
    histories: dict[str, tuple[dict[str, Any], ...]]  # of the LM and masked LM, where trained here
    seconds: dict[str, float]  # per stage, in the order of the run
    corpus: CorpusFacts
    versions: dict[str, str]
    baselines: dict[str, BaselineResult] = field(default_factory=dict)
    corrections: dict[str, dict[str, ExactPerplexity]] = field(default_factory=dict)
    """Of validation and test windows: the LM bare, and with its residuals up to each kind."""
    learning_curve: LearningCurve | None = None  # where negatives had a budget

    @property
    def estimates(self) -> dict[str, PerplexityEstimate]:
        """The perplexity of each joint model that was measured."""
        return {name: energy.measured for name, energy in self.energies.items() if energy.measured is not None}


def human_column(name: str) -> str:
    """The Parquet column of one energy of people's continuations, (N,)."""
    return f"human_energy.{name}"


def weights_column(name: str) -> str:
    """The Parquet column of the log-weights -E of the LM's continuations, or of log Z^ of runs of SMC, (N, n)."""
    return f"log_weights.{name}"


def own_column(name: str) -> str:
    """The Parquet column of log Z^ of the run of SMC that keeps people's text, (N,)."""
    return f"own_log_z.{name}"


def ancestors_column(name: str) -> str:
    """The Parquet column of how many first particles of each run of SMC have descendants, (N, n)."""
    return f"num_ancestors.{name}"


def token_column(name: str) -> str:
    """The Parquet column of a baseline's log-probability of each token, (N, C); BASE_TOKENS is the base LM."""
    return f"token_log_prob.{name}"


def generation_file(number: int, energy: str) -> str:
    """Where prompt `number` continued with this energy is kept."""
    return f"{number:03d}-{energy}.json"


def load_run(folder: str | Path) -> RunResult:
    """Read a finished run.

    Examples:
        >>> from lexergy import load_run, run
        >>> from lexergy.testing import tiny_recipe, write_tiny_corpus
        >>> made = run(tiny_recipe(write_tiny_corpus("texts")), "runs/tiny", progress=False)
        >>> read = load_run("runs/tiny")
        >>> read.energies["states"].perplexity.bound == made.energies["states"].perplexity.bound
        True
    """
    folder = fetched(folder)
    with reading(folder, RUN_AGAIN):
        return _load_run(folder)


def _load_run(folder: Path) -> RunResult:
    stages, recipe = _read_run_file(folder)
    energies = {name: _read_energy(folder, name, recipe) for name in recipe.energies}
    facts = stages["windows"].facts
    return RunResult(
        folder=folder,
        recipe=recipe,
        energies=energies,
        generations=_read_generations(folder / "samples", recipe),
        histories={
            name: _read_history(folder / name)
            for name in ("lm", "masked_lm", *recipe.baselines)
            if name in stages and (folder / name / HISTORY_FILE).exists()
        },
        seconds=_seconds(stages),
        corpus=CorpusFacts(recipe.corpus.source, facts["documents"], facts["windows"]),
        versions=stages.get("perplexity", list(stages.values())[-1]).versions,
        baselines=_read_baselines(folder, recipe),
        corrections=_read_corrections(folder, recipe),
        learning_curve=_learning_curve(stages),
    )


def _seconds(stages: Mapping[str, Stage]) -> dict[str, float]:
    """How long each stage took; those of one folder together."""
    seconds: dict[str, float] = {}
    for name, stage in stages.items():
        folder = name.partition("/")[0]
        seconds[folder] = seconds.get(folder, 0.0) + stage.seconds
    return seconds


def _learning_curve(stages: Mapping[str, Stage]) -> LearningCurve | None:
    record = stages["negatives"].facts.get(LEARNING_CURVE)
    if record is None:
        return None
    points = tuple(HeldOutLoss(**point) for point in record["points"])
    return LearningCurve(record["energy"], points, Stop(record["stop"]))


def _read_run_file(folder: Path) -> tuple[dict[str, Stage], ResidualRecipe]:
    if not (folder / RUN_FILE).exists():
        begun = any(folder.glob(f"*/{MANIFEST}"))
        raise LexergyError(
            f"the run {folder} is not finished; start the same run again to go on."
            if begun
            else f"{folder} is not a run; expected the folder of a finished run; "
            "make one with `lexergy quickstart` or `lexergy run RECIPE.yaml`."
        )
    content = _read_json(folder / RUN_FILE)
    stages = {name: read_stage(inside(folder, name)) for name in content["stages"]}
    for name, stage in stages.items():
        if stage.key != content["stages"][name]:
            raise LexergyError(
                f"the run {folder} is not finished: its stage {name} is newer than its last result; "
                "start the same run again to go on."
            )
    return stages, ResidualRecipe.model_validate(content["recipe"])


def read_windows(folder: Path, split: str) -> Windows:
    """The windows of a split that a run keeps."""
    return Windows.load(folder / "windows" / f"{split}.parquet")


def measured_windows(folder: Path, recipe: ResidualRecipe) -> Windows:
    """Those of the test windows that a run's energies and baselines are measured on."""
    windows, measured = read_windows(folder, "test"), recipe.perplexity
    limit = None if measured is None else measured.windows
    if limit is None or limit >= len(windows):
        return windows
    return windows.sample(limit, stage_seed(recipe.split_seed, "perplexity"))


def read_weights(folder: Path, columns: list[str] | None = None) -> pa.Table:
    """What a stage `perplexity` or `sums` keeps of each window: energies of its text, log-weights of the samples."""
    shards = sorted((folder / WEIGHTS_FOLDER).glob("*.parquet"))
    if not shards:
        raise LexergyError(
            f"{folder / WEIGHTS_FOLDER} holds no log-weights; the bound on the perplexity is computed from them; "
            f"remove {folder} and start the same run again to draw the samples anew."
        )
    return pa.concat_tables([_read_table(shard, columns) for shard in shards])


def _read_table(path: Path, columns: list[str] | None = None) -> pa.Table:
    with reading(path, "remove it and start the same run again"):
        return parquet.read_table(path, columns=columns)


def write_estimates(folder: Path, estimates: Mapping[str, PerplexityEstimate]) -> None:
    """Keep the estimates of a stage `perplexity` or `sums`."""
    atomic_write_json(folder / ESTIMATES_FILE, {name: _plain(estimate) for name, estimate in estimates.items()})


def write_generation(path: Path, generation: GenerationResult) -> None:
    atomic_write_json(path, _plain(generation))


def _plain(record: Any) -> dict[str, Any]:
    """A dataclass as JSON knows it, tensors as lists."""

    def as_dict(items: list[tuple[str, Any]]) -> dict[str, Any]:
        return {name: value.tolist() if isinstance(value, Tensor) else value for name, value in items}

    return asdict(record, dict_factory=as_dict)


def _read_energy(folder: Path, name: str, recipe: ResidualRecipe) -> EnergyResult:
    is_sum, kind = name in recipe.sums, recipe.energies[name].kind
    is_trained = isinstance(recipe.energies[name], TrainedEnergyRecipe)
    history = _read_history(folder / name) if is_trained else ()
    fit = {} if is_trained or is_sum else read_stage(folder / name).facts
    if recipe.perplexity is None:
        return EnergyResult(name, kind, None, np.empty((0, 0)), history, fit)
    measured = folder / ("sums" if is_sum else "perplexity")
    log_weights = _read_column(measured, weights_column(name))  # (N, n)
    record = _read_json(measured / ESTIMATES_FILE)[name]
    if "bound" in record:
        estimate = _estimate(record)
    else:  # finished before there was the bound: from the same samples
        estimate = perplexity_from_weights(
            _read_column(folder / "perplexity", BASE_COLUMN),
            _read_column(measured, human_column(name)),
            log_weights,
            record.get("continuation_length", recipe.windows.continuation),
            read_stage(measured).seed,
            documents=measured_windows(folder, recipe).document_ids,
        )
    return EnergyResult(
        name=name,
        kind=kind,
        measured=estimate,
        lm_energies=-log_weights.numpy() if estimate.num_particles == 1 else np.empty((len(log_weights), 0)),
        history=history,
        fit=fit,
    )


def _read_column(measured: Path, column: str) -> Tensor:  # (N,) or (N, n)
    return torch.from_numpy(from_column(read_weights(measured, [column]).column(0)))


def _estimate(record: dict[str, Any]) -> PerplexityEstimate:
    curve = tuple(CurvePoint(**point) for point in record["curve"])
    return PerplexityEstimate(**record | {"curve": curve, "windows": _windows(**record["windows"])})


def _windows(*, log_z: dict[str, Any], documents: list[str], **per_window: list[float]) -> WindowEstimates:
    def tensors(values: dict[str, Any]) -> dict[str, Any]:
        return {name: torch.tensor(numbers, dtype=torch.double) for name, numbers in values.items()}

    curve = PartitionCurve(tuple(log_z.pop("sizes")), **tensors(log_z))
    return WindowEstimates(log_z=curve, documents=tuple(documents), **tensors(per_window))


def _read_corrections(folder: Path, recipe: ResidualRecipe) -> dict[str, dict[str, ExactPerplexity]]:
    records = _read_json(folder / RESIDUAL_PERPLEXITY / ESTIMATES_FILE) if recipe.lm.residual else {}
    return {split: {name: ExactPerplexity(**record) for name, record in own.items()} for split, own in records.items()}


def _read_baselines(folder: Path, recipe: ResidualRecipe) -> dict[str, BaselineResult]:
    records = _read_json(folder / "baselines" / ESTIMATES_FILE) if recipe.baselines else {}
    return {
        name: BaselineResult(name=name, kind=baseline.kind, **_baseline_record(folder, name, recipe, records[name]))
        for name, baseline in recipe.baselines.items()
    }


def _baseline_record(folder: Path, name: str, recipe: ResidualRecipe, record: dict[str, Any]) -> dict[str, Any]:
    """As it is kept; one whose errors are over windows, as they were once, with those over documents."""
    if "num_documents" in record:
        return record
    table = _read_table(folder / "baselines" / TOKENS_FILE)
    own, base = (
        torch.from_numpy(from_column(table.column(token_column(model)))).sum(1) for model in (name, BASE_TOKENS)
    )  # (N,)
    seed, documents = read_stage(folder / "baselines").seed, measured_windows(folder, recipe).document_ids
    return record | vars(exact_perplexity(own, base, recipe.windows.continuation, seed, documents=documents))


def _read_generations(folder: Path, recipe: ResidualRecipe) -> tuple[GenerationResult, ...]:
    prompts = () if recipe.generation is None else recipe.generation.prompts
    files = [generation_file(number, name) for number in range(len(prompts)) for name in recipe.energies]
    return tuple(_generation(_read_json(folder / file)) for file in files)


def _generation(record: dict[str, Any]) -> GenerationResult:
    candidates = {
        key: tuple(
            Candidate(**{**candidate, "tokens": tuple(candidate.get("tokens", ()))}) for candidate in record[key]
        )
        for key in ("best", "worst")
    }
    return GenerationResult(**{**record, **candidates})


def _read_history(folder: Path) -> tuple[dict[str, Any], ...]:
    path = folder / HISTORY_FILE
    if not path.is_file():
        raise _missing(path)
    return tuple(read_file(path, list, RUN_AGAIN))


def _read_json(path: Path) -> dict[str, Any]:
    content = read_json(path)
    if content is None:
        raise _missing(path)
    return content


def _missing(path: Path) -> LexergyError:
    return LexergyError(f"{path} is missing from the run; remove its folder and start the same run again.")
