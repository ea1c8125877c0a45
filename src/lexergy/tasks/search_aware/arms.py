"""The arms of a comparison: trainings that differ from a recipe's objectives in what a study is about.

runs/reproduce/tagging-cpu-seed0/
    bidirectional/                  a laboratory for each encoder
        data/
        cross-entropy/              a start, as the recipe has it
        soft-beam-.../              an arm: what differs from the recipe is its name
        evaluation/ARM/SEARCH/      what it wrote for validation and test sentences
        costs/ARM/                  a step of it against one of cross-entropy
    unidirectional/
"""

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from lexergy.files import atomic_write_json, read_json
from lexergy.models.seq2seq import Seq2Seq
from lexergy.models.seq2seq.search import log_normalisers
from lexergy.recipes.search_aware import AnyObjectiveRecipe, SearchAwareRecipe, SearchRecipe
from lexergy.runs.stages import Facts, Stage
from lexergy.runs.workspace import OpenStage, Seconds, Workspace, open_workspace
from lexergy.tasks.search_aware.decodings import Part, Written, most_frequent_labels, read_decodings, write_decodings
from lexergy.tasks.search_aware.examples import Examples, words_and_outputs
from lexergy.tasks.search_aware.laboratory import EVALUATION, SequenceLaboratory
from lexergy.tasks.search_aware.landscape import Landscape, Line, walk_line
from lexergy.training.objectives.search_aware import SequenceObjective
from lexergy.training.randomness import batch_indices, step_generator

Encoder = Literal["bidirectional", "unidirectional"]
ENCODERS: tuple[Encoder, ...] = ("unidirectional", "bidirectional")
COSTS, NORMALISERS = "costs", "normalisers.json"
TIMED_STEPS = 6  # of each objective, in turn; the first does not count
TRAINING_SAMPLE = 1000  # sentences whose normalisers are looked at


@dataclass(frozen=True)
class Arm:
    """A training of the recipe's `objective`, its settings changed; made by `arm`."""

    objective: str
    encoder: Encoder = "bidirectional"
    changes: str = "{}"  # of the objective's recipe, as JSON

    def recipe(self, recipe: SearchAwareRecipe) -> AnyObjectiveRecipe:
        objective = recipe.objectives[self.objective]
        changes = self.settings
        learning = objective.learning.model_dump() | changes.pop("learning", {})
        return type(objective).model_validate(objective.model_dump() | changes | {"learning": learning})

    @property
    def settings(self) -> dict[str, Any]:
        """What differs from the objective's recipe."""
        return json.loads(self.changes)

    @property
    def name(self) -> str:
        """The objective, and what differs from the recipe's."""
        return "-".join([self.objective, *re.findall(r"[\w.]+", self.changes.replace("-", "_"))]).replace("_", "-")

    def but(self, **changes: Any) -> Self:
        """The same training with further changes; those of `learning` add to the ones before."""
        before = self.settings
        learning = before.pop("learning", {}) | changes.pop("learning", {})
        merged = before | changes | ({"learning": learning} if learning else {})
        return type(self)(self.objective, self.encoder, json.dumps(merged, sort_keys=True))


def arm(objective: str, encoder: Encoder = "bidirectional", **changes: Any) -> Arm:
    """An arm, as `arm("soft-beam", start="self-normalised", learning={"epochs": 1})`."""
    return Arm(objective, encoder).but(**changes)


class ArmLaboratory:
    """Trains arms when they are asked for, and remembers what they wrote; opened by `open_arms`."""

    def __init__(self, recipe: SearchAwareRecipe, workspace: Workspace) -> None:
        self.recipe = recipe
        self.workspaces = {encoder: workspace.below(encoder) for encoder in ENCODERS}

    @property
    def seconds(self) -> Seconds:
        """What trainings and evaluations took."""
        each = [workspace.seconds(EVALUATION) for workspace in self.workspaces.values()]
        return Seconds(sum(own.making for own in each), sum(own.measuring for own in each))

    @cached_property
    def examples(self) -> Examples:
        """The same whatever the encoder."""
        return self._laboratory(arm(next(iter(self.recipe.objectives)))).examples

    def training(self, trained: Arm) -> Stage:
        """A finished training; its facts tell the steps, the best one, and the validation there."""
        return self._laboratory(trained).model_stage(trained.name)

    def model(self, trained: Arm) -> Seq2Seq:
        return Seq2Seq.from_pretrained(self.training(trained).folder)

    def updates(self, trained: Arm) -> int:
        """How many steps the training has at most."""
        learning = trained.recipe(self.recipe).learning
        return learning.training(len(self.examples.train), self.recipe.seed).max_steps

    def best(self, tried: Sequence[Arm]) -> Arm:
        """The training whose best weights do best on validation sentences, under the search that it is selected by."""
        return min(tried, key=lambda trained: self.training(trained).facts["validation"]["loss"])

    def decoded(self, trained: Arm, search: SearchRecipe) -> Mapping[Part, Written]:
        """What the model writes for validation and test sentences."""

        def build(stage: OpenStage) -> Facts:
            write_decodings(self.model(trained), self.examples, search, stage.folder)
            return {}

        name = f"{EVALUATION}/{trained.name}/{search_name(search)}"
        return read_decodings(self._measured(trained, name, search.model_dump(mode="json"), build), self.examples)

    def most_frequent(self) -> Mapping[Part, Written]:
        """What a tagger without context writes."""
        return most_frequent_labels(self.examples)

    def normalisers(self, trained: Arm) -> dict[str, np.ndarray]:  # (S, 3) each
        """Of each sentence the sum of log Z_t over its steps, of its squares, and the number of steps (Table 5.1)."""

        def build(stage: OpenStage) -> Facts:
            model = self.model(trained)
            parts = {"train": self.examples.train[:TRAINING_SAMPLE], "validation": self.examples.validation}
            pairs = {name: model.pairs(*words_and_outputs(own)) for name, own in parts.items()}
            content = {name: log_normalisers(model.model, own).tolist() for name, own in pairs.items()}
            atomic_write_json(stage.folder / NORMALISERS, content)
            return {}

        config = {"sentences": TRAINING_SAMPLE}
        folder = self._measured(trained, f"{EVALUATION}/{trained.name}/normalisers", config, build)
        content = read_json(folder / NORMALISERS, dict)
        return {name: np.array(rows) for name, rows in content.items()}

    def landscape(self, trained: Arm, line: Line) -> Landscape:
        """The objectives of scheduled sampling along a line through the weights (Figure 3.1)."""

        def build(stage: OpenStage) -> Facts:
            walk_line(self.model(trained), self.examples.validation, line, stage.seed).save(stage.folder)
            return {}

        name = f"{EVALUATION}/{trained.name}/landscape"
        return Landscape.load(self._measured(trained, name, asdict(line), build))

    def relative_cost(self, trained: Arm, control: Arm) -> float:
        """How many steps of the control's take the time of a step of the arm's.

        Both are timed in turn on the same batches, in processor time, so that neither other work on the machine nor a
        training that was killed and went on changes it.
        """

        def build(stage: OpenStage) -> Facts:
            laboratory = self._laboratory(trained)
            start = laboratory.model_stage(trained.recipe(self.recipe).start or trained.name).folder
            timed = []
            for recipe in (trained.recipe(self.recipe), control.recipe(self.recipe)):
                model = Seq2Seq.from_pretrained(start)
                model.model.config.normalisation = recipe.normalisation
                objective, learning = laboratory.objective(model, recipe, stage.seed)
                objective.begin(learning.max_steps // 2)
                timed.append((model, objective))
            seconds = [[_seconds(*own, step, learning.batch_size) for own in timed] for step in range(TIMED_STEPS)]
            medians = np.median(seconds[1:], axis=0)
            return {"seconds": medians.tolist(), "ratio": float(f"{medians[0] / medians[1]:.2g}")}

        config = {"control": control.name, "steps": TIMED_STEPS}
        workspace = self.workspaces[trained.encoder]
        inputs = [self._laboratory(trained).data_stage, self.training(trained)]
        return workspace.stage(f"{COSTS}/{trained.name}", config, inputs, build).facts["ratio"]

    def _laboratory(self, trained: Arm) -> SequenceLaboratory:
        recipe = self.recipe.model_copy(
            update={
                "model": self.recipe.model.model_copy(update={"bidirectional": trained.encoder == "bidirectional"}),
                "objectives": {**self.recipe.objectives, trained.name: trained.recipe(self.recipe)},
            }
        )
        return SequenceLaboratory(recipe, self.workspaces[trained.encoder])

    def _measured(self, trained: Arm, name: str, config: dict[str, Any], build: Any) -> Path:
        inputs = [self._laboratory(trained).data_stage, self.training(trained)]
        return self.workspaces[trained.encoder].stage(name, config, inputs, build).folder


def search_name(search: SearchRecipe) -> str:
    """What is said of a search, as a folder."""
    said = [f"{name}-{value}" for name, value in search.model_dump(exclude_defaults=True).items()]
    return "-".join(["search", *said]).replace("_", "-")


def _seconds(model: Seq2Seq, objective: SequenceObjective, step: int, batch_size: int) -> float:
    """Of processor time, for the loss of a batch and its gradient."""
    indices = batch_indices(0, step, batch_size, objective.num_examples, objective.lengths)
    model.model.train()
    started = time.process_time()
    loss, _ = objective.loss(model.model, indices, step_generator(0, step))
    loss.backward()
    seconds = time.process_time() - started
    model.model.zero_grad()
    return seconds


@contextmanager
def open_arms(recipe: SearchAwareRecipe, folder: str | Path, *, progress: bool = True) -> Iterator[ArmLaboratory]:
    """The laboratory in its folder, locked meanwhile."""
    with open_workspace(folder, recipe.seed, progress=progress) as workspace:
        yield ArmLaboratory(recipe, workspace)
