"""Where the studies of residual EBMs work: a run, and rows of numbers for its held-out windows."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from lexergy.core.estimation.findings import Groups
from lexergy.core.estimation.smc import Resampling
from lexergy.data.windows import Windows
from lexergy.models.joint.model import ResidualEBM
from lexergy.recipes.residual import ResidualRecipe
from lexergy.runs.columns import from_column
from lexergy.runs.records import RunResult, read_windows
from lexergy.runs.rows import ROWS
from lexergy.runs.shards import num_shards, shard_rows
from lexergy.runs.stages import Facts, Stage, read_stage
from lexergy.runs.workspace import OpenStage, Seconds, Workspace, open_workspace, stage_store
from lexergy.studies.study import Opener, Settings, Size
from lexergy.tasks.residual.base_models import cut_windows
from lexergy.tasks.residual.context import RunContext
from lexergy.tasks.residual.run import run
from lexergy.tasks.residual.steering import STEERING, is_steered, resampling_of

PAPER = "Deng et al. 2020, Residual Energy-Based Models for Text Generation"
STUDIES_FOLDER = "studies"
WINDOWS_FILE = "windows.parquet"
WINDOWS_PER_SHARD = 8


@dataclass(frozen=True)
class Subject:
    """What is measured: a joint model on held-out windows."""

    joint: ResidualEBM
    windows: Windows
    settings: Settings
    seed: int
    resampling: Resampling = field(default_factory=Resampling)  # how its particles are drawn and resampled


Rows: TypeAlias = Callable[[Subject, range], pa.Table]
"""Rows of numbers for held-out windows; those of some windows (ids) depend on no others."""


class Evidence(NamedTuple):
    """What one seed gave."""

    run: RunResult
    energy: str
    documents: Sequence[Hashable]  # N: of each window, in the order of the run's windows or of the study's own
    rows: pa.Table | None = None  # where the study measured some

    def array(self, column: str) -> np.ndarray:
        """A column of numbers, one row per window."""
        return from_column(self.table.column(column))

    @property
    def table(self) -> pa.Table:
        assert self.rows is not None
        return self.rows


def documents(evidence: Sequence[Evidence]) -> Groups:
    """What intervals are bootstraps over, for each seed."""
    return [seen.documents for seen in evidence]


def doubt(evidence: Sequence[Evidence]) -> str | None:
    """Why numbers from the studied energy's weights decide nothing, where some seed's cannot be trusted."""
    doubts = (seen.run.energies[seen.energy].perplexity.doubt for seen in evidence)
    return next((reason for reason in doubts if reason is not None), None)


@dataclass(frozen=True)
class StudiedRun:
    """A finished run, and a workspace below it for what studies measure."""

    run: RunResult
    workspace: Workspace

    @property
    def seconds(self) -> Seconds:
        """What the run took, and what was measured on it."""
        return Seconds(sum(self.run.seconds.values()), sum(self.workspace.seconds()))

    def found(self, settings: Settings) -> Evidence:
        """What the run itself tells."""
        energy = settings["energy"]
        return Evidence(self.run, energy, self.run.energies[energy].perplexity.windows.documents)

    def measured(self, name: str, rows: Rows, settings: Settings, *, cut_anew: bool = False) -> Evidence:
        """Rows for `settings["windows"]` of the held-out windows (None: all), a few windows at a time.

        A run keeps some windows of its test documents. With `cut_anew` the study's are drawn from all that there are.
        """
        energy, recipe = settings["energy"], self.run.recipe
        read = ["windows", recipe.lm.folder, energy, *([STEERING] if is_steered(recipe, energy) else [])]
        stage = self.workspace.stage(
            # Each energy's own folder: looking at another one does not throw the first one's rows away.
            f"{name}-{energy}",
            dict(settings),
            [read_stage(self.run.folder / part) for part in read],
            lambda stage: self._measure(stage, name, rows, settings, cut_anew),
        )
        store = stage_store(stage, ROWS)
        return Evidence(
            self.run,
            energy,
            _windows_of(stage).document_ids if cut_anew else self._windows(settings, stage.seed).document_ids,
            store.table(num_shards(stage.facts["windows"], WINDOWS_PER_SHARD)),
        )

    def _measure(self, stage: OpenStage, name: str, rows: Rows, settings: Settings, cut_anew: bool) -> Facts:
        context = RunContext(self.run.recipe, self.run.folder)
        if cut_anew:
            _some(cut_windows(context, "test"), settings["windows"], stage.seed).save(stage.folder / WINDOWS_FILE)
        windows = _windows_of(stage) if cut_anew else self._windows(settings, stage.seed)
        energy, length = settings["energy"], windows.continuation_length
        resampling = resampling_of(context, energy, length, truncated=settings.get("top_k") is not None)
        joint = ResidualEBM(context.lm, context.energy(energy))
        subject = Subject(joint, windows, settings, stage.seed, resampling)
        shards = num_shards(len(windows), WINDOWS_PER_SHARD)
        stage.store(ROWS).fill(
            shards,
            lambda shard: rows(subject, shard_rows(shard, len(windows), WINDOWS_PER_SHARD)),
            name,
            progress=stage.progress,
        )
        return {"windows": len(windows), "shards": shards}

    def _windows(self, settings: Settings, seed: int) -> Windows:
        return _some(read_windows(self.run.folder, "test"), settings["windows"], seed)


def _some(windows: Windows, wanted: int | None, seed: int) -> Windows:
    return windows.sample(wanted, seed) if wanted is not None and wanted < len(windows) else windows


def _windows_of(stage: Stage | OpenStage) -> Windows:
    """Those that were cut for a study."""
    return Windows.load(stage.folder / WINDOWS_FILE)


@contextmanager
def open_run(recipe: ResidualRecipe, folder: str | Path, *, progress: bool = True) -> Iterator[StudiedRun]:
    """Bring the run up to date, and keep others from changing it while studies measure it."""
    result = run(recipe, folder, progress=progress)
    with open_workspace(folder, recipe.seed, progress=progress, engine=recipe.engine) as workspace:
        yield StudiedRun(result, workspace.below(STUDIES_FOLDER))


RUN = Opener(ResidualRecipe, open_run, "held-out documents")


def usual_sizes(cpu: Settings | None = None, paper: Settings | None = None) -> Mapping[str, Size]:
    """On the recipes that most studies share, with the settings of each size."""
    return {
        "cpu": Size("table-1-cpu", {"energy": "bit", **(cpu or {})}),
        "paper": Size("paper/cc-news-12-layers", {"energy": "bit-base", **(paper or {})}),
    }
