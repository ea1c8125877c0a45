"""What a study is, and how its numbers come about: from runs and rows of its own, or from a workshop.

runs/reproduce/table-1-cpu-seed0/           a run like any other, shared by the studies
    studies/figure-1-bit/rows/              one Parquet shard per few windows, then stage.json
runs/reproduce/real-or-fake-cpu-seed0/      a workshop, in which studies find what others made
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from lexergy.core.estimation.findings import Finding
from lexergy.data.windows import Windows
from lexergy.errors import LexergyError
from lexergy.models.joint.model import ResidualEBM
from lexergy.recipes.loader import load_recipe
from lexergy.recipes.real_or_fake import LaboratoryRecipe
from lexergy.recipes.residual import ResidualRecipe
from lexergy.recipes.section import Recipe
from lexergy.report.picture import Panel
from lexergy.runs.columns import from_column
from lexergy.runs.records import RunResult
from lexergy.runs.shards import num_shards, shard_rows
from lexergy.runs.stages import Facts, read_stage
from lexergy.runs.workspace import OpenStage, open_workspace, stage_store
from lexergy.studies import CATALOGUE
from lexergy.tasks.real_or_fake.laboratory import open_laboratory
from lexergy.tasks.residual.context import RunContext
from lexergy.tasks.residual.run import run

RUNS = Path("runs/reproduce")
STUDIES_FOLDER = "studies"
ROWS_FOLDER = "rows"
WINDOWS_PER_SHARD = 8
RESIDUAL_EBM = "Deng et al. 2020, Residual Energy-Based Models for Text Generation"

Settings = Mapping[str, Any]
Cell = str | int | float | None


@dataclass(frozen=True)
class Subject:
    """What is measured: a joint model on held-out windows."""

    joint: ResidualEBM
    windows: Windows
    settings: Settings
    seed: int


@dataclass(frozen=True)
class Measurement:
    """Rows of numbers for held-out windows; those of some windows (ids) depend on no others."""

    name: str
    rows: Callable[[Subject, range], pa.Table]


@dataclass(frozen=True)
class Size:
    """What a study runs on: a recipe (by name, or a file), which of its energies, and how much of everything.

    A laboratory's study says in its settings which energies it compares.
    """

    recipe: str
    energy: str = "bit"
    settings: Settings = field(default_factory=dict)


class Evidence(NamedTuple):
    """What one seed gave."""

    run: RunResult
    energy: str
    rows: pa.Table | None  # of the study's measurement, where it has one

    def array(self, column: str) -> np.ndarray:
        """A column of numbers, one row per window."""
        assert self.rows is not None
        return from_column(self.rows.column(column))


@dataclass(frozen=True)
class Table:
    """Numbers with the paper's beside them; the name tells a study's tables apart."""

    name: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]


@dataclass(frozen=True)
class Conclusion:
    """A study's tables and picture, and which findings of the paper hold."""

    tables: tuple[Table, ...]
    panels: tuple[Panel, ...]
    findings: tuple[Finding, ...]


class Workshop(NamedTuple):
    """Where a study finds its numbers when these are not of a residual EBM's run.

    What is opened makes things when a study first asks for them, and has `seconds`, the time that this took when it
    was done.
    """

    recipe: type[Recipe]
    open: Callable[..., AbstractContextManager[Any]]  # recipe, folder, progress=
    drawn: str  # what an interval of a single seed is a bootstrap over


LABORATORY = Workshop(LaboratoryRecipe, open_laboratory, "held-out documents")


@dataclass(frozen=True)
class Study:
    """A table or figure of a paper.

    `conclude` reads what each seed gave: the `Evidence` of a run, or what `examine` found in a workshop.
    """

    name: str
    title: str
    part: str  # of the paper
    method: str  # how the numbers are made, and where that departs from the paper
    sizes: Mapping[str, Size]
    conclude: Callable[[Sequence[Any]], Conclusion]
    measurement: Measurement | None = None
    examine: Callable[[Any, Settings], Any] | None = None
    workshop: Workshop = LABORATORY  # where `examine` looks
    paper: str = RESIDUAL_EBM


class Gathered(NamedTuple):
    """What all seeds gave, and the seconds that it took when it was made."""

    evidence: list[Any]
    run_seconds: float
    measurement_seconds: float


@dataclass(frozen=True)
class StudyResult:
    """A study that was carried out."""

    study: Study
    size: str
    recipe: str
    energy: str | None  # a workshop's study reads several, or none
    settings: Settings
    seeds: tuple[int, ...]
    run_seconds: float
    measurement_seconds: float
    conclusion: Conclusion


def load_study(name: str) -> Study:
    """A study by its name."""
    if name not in CATALOGUE:
        raise LexergyError(f"no study `{name}`; expected one of {', '.join(CATALOGUE)}.")
    return import_module(f"lexergy.studies.{CATALOGUE[name].module}").STUDY


def reproduce(
    study: Study,
    *,
    size: str = "cpu",
    seeds: Sequence[int] = (0,),
    recipe: str | Path | None = None,
    energy: str | None = None,
    runs: str | Path = RUNS,
    progress: bool = True,
) -> StudyResult:
    """Carry out a study: for each seed the run of its recipe and its own measurement, then its conclusion.

    What is finished is only read, and what was killed goes on. `recipe` and `energy` replace those of the size.
    """
    chosen = _size(study, size)
    source = chosen.recipe if recipe is None else recipe
    if study.examine is not None:
        if energy is not None:
            raise LexergyError(f"`energy` is {energy}; the study {study.name} compares several; leave it out.")
        name, gathered = _from_workshop(study, study.examine, chosen, source, seeds, Path(runs), progress)
    else:
        loaded = load_recipe(source, ResidualRecipe)
        energy = _energy(loaded, chosen.energy if energy is None else energy)
        name, gathered = loaded.name, _from_runs(study, chosen, loaded, energy, seeds, Path(runs), progress)
    return StudyResult(
        study=study,
        size=size,
        recipe=name,
        energy=energy,
        settings=chosen.settings,
        seeds=tuple(seeds),
        run_seconds=gathered.run_seconds,
        measurement_seconds=gathered.measurement_seconds,
        conclusion=study.conclude(gathered.evidence),
    )


def _from_runs(
    study: Study, chosen: Size, recipe: ResidualRecipe, energy: str, seeds: Sequence[int], runs: Path, progress: bool
) -> Gathered:
    evidence: list[Any] = []
    run_seconds = measurement_seconds = 0.0
    for seed in seeds:
        seeded = recipe.model_copy(update={"seed": seed})
        result = run(seeded, runs / f"{recipe.name}-seed{seed}", progress=progress)
        run_seconds += sum(result.seconds.values())
        rows = None
        if study.measurement is not None:
            rows, seconds = measure(study.measurement, result, energy, chosen.settings, progress=progress)
            measurement_seconds += seconds
        evidence.append(Evidence(result, energy, rows))
    return Gathered(evidence, run_seconds, measurement_seconds)


def _from_workshop(
    study: Study,
    examine: Callable[[Any, Settings], Any],
    chosen: Size,
    source: str | Path,
    seeds: Sequence[int],
    runs: Path,
    progress: bool,
) -> tuple[str, Gathered]:
    recipe = load_recipe(source, study.workshop.recipe)
    evidence: list[Any] = []
    making = measuring = 0.0
    for seed in seeds:
        seeded = recipe.model_copy(update={"seed": seed})
        with study.workshop.open(seeded, runs / f"{recipe.name}-seed{seed}", progress=progress) as work:
            evidence.append(examine(work, chosen.settings))
            making += work.seconds.making
            measuring += work.seconds.measuring
    return recipe.name, Gathered(evidence, making, measuring)


def measure(
    measurement: Measurement, result: RunResult, energy: str, settings: Settings, *, progress: bool
) -> tuple[pa.Table, float]:
    """A measurement's rows on a finished run, and the seconds that they took when they were made."""
    folder = result.folder

    def build(stage: OpenStage) -> Facts:
        context = RunContext(result.recipe, folder)
        windows = context.windows["test"]
        wanted = settings["windows"]
        if wanted is not None and wanted < len(windows):
            windows = windows.sample(wanted, stage.seed)
        subject = Subject(ResidualEBM(context.lm, context.energy(energy)), windows, settings, stage.seed)
        stage.store(ROWS_FOLDER).fill(
            num_shards(len(windows), WINDOWS_PER_SHARD),
            lambda shard: measurement.rows(subject, shard_rows(shard, len(windows), WINDOWS_PER_SHARD)),
            measurement.name,
            progress=stage.progress,
        )
        return {"windows": len(windows)}

    with open_workspace(folder, result.recipe.seed, progress=progress) as workspace:
        # Each energy's own folder: looking at another one does not throw the first one's rows away.
        stage = workspace.below(STUDIES_FOLDER).stage(
            f"{measurement.name}-{energy}",
            {"energy": energy, **settings},
            [read_stage(folder / name) for name in ("windows", "lm", energy)],
            build,
        )
    rows = stage_store(stage, ROWS_FOLDER).table(num_shards(stage.facts["windows"], WINDOWS_PER_SHARD))
    return rows, stage.seconds


def _size(study: Study, size: str) -> Size:
    if size not in study.sizes:
        raise LexergyError(f"`size` is {size}; expected one of {', '.join(study.sizes)}.")
    return study.sizes[size]


def _energy(recipe: ResidualRecipe, name: str) -> str:
    if name not in recipe.energies:
        raise LexergyError(
            f"the recipe {recipe.name} has no energy `{name}`; expected one of {', '.join(recipe.energies)}; "
            "say which with `--energy`."
        )
    return name
