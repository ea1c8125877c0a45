"""Train a tagger or translator on an objective of a recipe, stage by stage, and say what it is worth."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from lexergy.files import atomic_write_json, inside, read_json, reading
from lexergy.models.seq2seq import Seq2Seq
from lexergy.recipes.search_aware import SearchAwareRecipe, SearchRecipe
from lexergy.runs.processes import is_main_process
from lexergy.runs.records import HISTORY_FILE
from lexergy.runs.stages import Facts, Stage
from lexergy.runs.workspace import OpenStage
from lexergy.storage import fetched, mirrored
from lexergy.tasks.search_aware.judging import Metric, fall_off_shares, judge, metric_of, unknown_labels
from lexergy.tasks.search_aware.laboratory import EVALUATION, SequenceLaboratory, open_laboratory

REPORT_FILE = "report.json"


@dataclass(frozen=True)
class SequenceReport:
    """What a training gave; metrics are in percent, by part of the data and by beam.

    `fall_off` has, for each step, the share of validation sentences that long whose gold prefix is off the beam by
    then. `histories` are the trainings', by objective, in the order in which they happened.
    """

    folder: str
    objective: str
    model: str  # folder below `folder`
    examples: dict[str, int]
    num_outputs: int
    metric: Metric
    beam: int  # that the training knew of
    by_beam: dict[str, dict[int, float]]
    fall_off: list[float]
    histories: dict[str, list[dict[str, Any]]]
    seconds: dict[str, float]
    messages: list[str]
    recipe: dict[str, Any]


def train_sequences(
    recipe: SearchAwareRecipe, objective: str, folder: str | Path, *, progress: bool = True
) -> SequenceReport:
    """Data, the objective that this one starts from, the objective itself, evaluation: each a stage, made once."""
    with open_laboratory(recipe, folder, progress=progress) as laboratory:
        stages = {name: laboratory.model_stage(name) for name in recipe.chain(objective)}
        evaluation = evaluation_stage(laboratory, objective)
        report = _report(laboratory, objective, stages, evaluation)
        if is_main_process():
            atomic_write_json(mirrored(folder) / REPORT_FILE, asdict(report))
    return report


def load_report(folder: str | Path) -> SequenceReport:
    """What `train_sequences` wrote."""
    path = fetched(folder) / REPORT_FILE
    with reading(path):
        return TypeAdapter(SequenceReport).validate_python(read_json(path, dict))


def load_sequence_model(folder: str | Path) -> Seq2Seq:
    """The model of a folder that `train_sequences` wrote, or of a model's own folder."""
    return Seq2Seq.from_pretrained(model_folder(folder))


def model_folder(folder: str | Path) -> Path:
    """Where the model of a run lies; a model's own folder as it is."""
    folder = fetched(folder)
    return inside(folder, load_report(folder).model) if (folder / REPORT_FILE).is_file() else folder


def evaluation_stage(laboratory: SequenceLaboratory, name: str) -> Stage:
    """The metric of a model on validation and test sentences for its own beam and the recipe's, and what falls off."""
    recipe = laboratory.recipe
    search = recipe.objectives[name].search
    beams = sorted({search.beam, *recipe.evaluation.beams})

    def build(stage: OpenStage) -> Facts:
        model, examples = laboratory.model(name), laboratory.examples
        searches = [search.model_copy(update={"beam": beam}) for beam in beams]
        parts = {"validation": examples.validation, "test": examples.test}
        return {
            "metric": metric_of(model),
            "by_beam": {
                part: {tried.beam: judge(model, chosen, tried).value for tried in searches}
                for part, chosen in parts.items()
            },
            "fall_off": fall_off_shares(model, examples.validation, SearchRecipe(beam=search.beam)),
            "messages": [message for chosen in parts.values() for message in unknown_labels(model, chosen)],
        }

    config = {"beams": beams, "search": search.model_dump(mode="json")}
    stages = [laboratory.data_stage, laboratory.model_stage(name)]
    return laboratory.workspace.stage(f"{EVALUATION}/{name}", config, stages, build)


def _report(
    laboratory: SequenceLaboratory, objective: str, stages: dict[str, Stage], evaluation: Stage
) -> SequenceReport:
    data, facts = laboratory.data_stage.facts, evaluation.facts
    by_beam = {part: {int(beam): value for beam, value in values.items()} for part, values in facts["by_beam"].items()}
    return SequenceReport(
        folder=str(laboratory.workspace.folder),
        objective=objective,
        model=objective,
        examples=data["examples"],
        num_outputs=data["outputs"],
        metric=facts["metric"],
        beam=laboratory.recipe.objectives[objective].search.beam,
        by_beam=by_beam,
        fall_off=facts["fall_off"],
        histories={name: _history(stage) for name, stage in stages.items()},
        seconds={name: stage.seconds for name, stage in laboratory.workspace.stages.items()},
        messages=[*data["messages"], *facts["messages"]],
        recipe=laboratory.recipe.plain(),
    )


def _history(stage: Stage) -> list[dict[str, Any]]:
    return read_json(stage.folder / HISTORY_FILE, list)
