"""What the studies of search-aware training share: rows of trainings and searches, and what is said of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from lexergy.core.estimation.corpus import corpus_difference, corpus_estimate
from lexergy.core.estimation.findings import Estimate, Finding, above
from lexergy.recipes.search_aware import SearchAwareRecipe, SearchRecipe
from lexergy.report.figures.picture import Panel, Series
from lexergy.report.table import Cell, Table
from lexergy.studies.study import Opener, Settings
from lexergy.tasks.search_aware.arms import Arm, ArmLaboratory, arm, open_arms
from lexergy.tasks.search_aware.decodings import MetricName, Part, Written, metric_function

THESIS = "Goyal 2021 (thesis), chapters 3 to 5"
ARMS = Opener(SearchAwareRecipe, open_arms, "test sentences")
LABELS: dict[MetricName, str] = {"accuracy": "accuracy", "f1": "F1", "macro_f1": "macro F1", "bleu": "BLEU"}

CROSS_ENTROPY, SELF_NORMALISED = "cross-entropy", "self-normalised"  # the starts
GREEDY, BEAM, RAW, SOFT = "greedy", "beam", "beam, raw scores", "soft beam"
START, UPDATES, TIME = "start", "continued, as many updates", "continued, as much time"
NO_CONTEXT = "most frequent label of the word"
CONTROLS = (
    "Two controls go on with the start's own objective: with as many updates as the search-aware training, and with "
    "as much processor time (a step of both is timed in turn on the same batches). Where several learning rates are "
    "given, each training and each control has the best of them on validation sentences. The weights are those of the "
    "last update, in trainings and controls alike: the start was chosen as the best of several evaluations on "
    "validation sentences, and would nearly always be chosen again, whatever the training is worth. The start is "
    "decoded greedily, by beam, and by beam on raw scores, that is without the local normalisation, which costs "
    "nothing. Findings are of test sentences."
)


LAST = {"keep": "last"}  # of what goes on from a start


class Row(NamedTuple):
    """What a row is of: the group that it belongs to (an encoder, a start), a training, and how it is decoded."""

    group: str
    training: str
    decoding: str

    @property
    def label(self) -> str:
        return ", ".join(part for part in self if part)


class Plan(NamedTuple):
    """Trainings of which the best on validation sentences is taken, and the search that decodes it."""

    arms: Sequence[Arm]
    search: SearchRecipe


@dataclass(frozen=True)
class Seen:
    """What a row's model wrote, and how it was trained: nothing where there is no training."""

    parts: Mapping[Part, Written]
    updates: int | None = None
    best_update: int | None = None
    learning_rate: float | None = None
    arm: str = ""


Evidence: TypeAlias = Mapping[Row, Seen]
"""Of one seed."""


class Printed(NamedTuple):
    """The thesis's numbers."""

    validation: float | None = None
    test: float | None = None


def carry_out(laboratory: ArmLaboratory, plans: Mapping[Row, Plan]) -> dict[Row, Seen]:
    """Train, choose, decode."""
    seen = {}
    for row, plan in plans.items():
        chosen = laboratory.best(plan.arms)
        facts = laboratory.training(chosen).facts
        rate = chosen.recipe(laboratory.recipe).learning.learning_rate
        written = laboratory.decoded(chosen, plan.search)
        seen[row] = Seen(written, facts["steps"], facts["best_step"], rate, chosen.name)
    return seen


def searches(settings: Settings) -> dict[str, SearchRecipe]:
    """How a start is decoded."""
    beam = settings["beam"]
    return {
        GREEDY: SearchRecipe(),
        BEAM: SearchRecipe(beam=beam),
        RAW: SearchRecipe(beam=beam, normalisation="global"),
        SOFT: SearchRecipe(beam=beam, alpha=settings["alpha"]),
    }


def start_plans(group: str, start: Arm, settings: Settings) -> dict[Row, Plan]:
    return {Row(group, START, name): Plan((start,), search) for name, search in searches(settings).items()}


def trained_plans(group: str, label: str, trained: Arm, settings: Settings) -> dict[Row, Plan]:
    """A search-aware training under hard and soft beam search, its scores as it has them."""
    tried = tuned(trained, settings)
    return {Row(group, label, name): Plan(tried, searches(settings)[name]) for name in (BEAM, SOFT)}


def control_plans(laboratory: ArmLaboratory, group: str, trained: Arm, settings: Settings) -> dict[Row, Plan]:
    """The start of a search-aware training, continued on its own objective."""
    tried = tuned(trained, settings)
    plans: dict[Row, Plan] = {}
    for label, control in zip((UPDATES, TIME), controls(laboratory, tried[0]), strict=True):
        rows = {Row(group, label, name): searches(settings)[name] for name in (BEAM, RAW)}
        plans |= {row: Plan(tuned(control, settings), search) for row, search in rows.items()}
    return plans


def controls(laboratory: ArmLaboratory, trained: Arm) -> tuple[Arm, Arm]:
    """The start's objective for as many updates, and for as much time."""
    recipe = trained.recipe(laboratory.recipe)
    assert recipe.start is not None
    usual = laboratory.recipe.objectives[recipe.start].learning.model_dump()
    learning = {name: value for name, value in recipe.learning.model_dump().items() if value != usual.get(name)}
    same = arm(recipe.start, trained.encoder, start=recipe.start, beam=recipe.beam, learning=learning)
    ratio = laboratory.relative_cost(trained, same)
    return same, same.but(learning={"epochs": round(ratio * recipe.learning.epochs, 3)})


def tuned(trained: Arm, settings: Settings) -> tuple[Arm, ...]:
    """With each of the learning rates that are tried for its kind of training, or for that kind with its encoder."""
    kind = _rates_of(trained)
    rates = settings.get(f"{trained.encoder}_{kind}", settings[kind])
    return tuple(trained.but(learning={"learning_rate": rate}) for rate in rates)


def _rates_of(trained: Arm) -> str:
    if trained.objective in (CROSS_ENTROPY, SELF_NORMALISED):
        return "control_rates"
    is_local = trained.objective == "soft-beam" and trained.settings.get("normalisation", "local") == "local"
    return "local_rates" if is_local else "global_rates"


def soft_beam(start: str, settings: Settings, encoder: Any = "bidirectional", **changes: Any) -> Arm:
    """The recipe's soft beam with what a size says of it."""
    learning = {name: settings[name] for name in ("epochs",) if name in settings}
    return arm("soft-beam", encoder, start=start, beam=settings["beam"], **changes, learning=learning | LAST)


def score(evidence: Sequence[Evidence], row: Row, metric: MetricName, part: Part = "test") -> Estimate:
    """The metric of a row."""
    return corpus_estimate([seen[row].parts[part].parts(metric) for seen in evidence], metric_function(metric))


def gap(evidence: Sequence[Evidence], first: Row, second: Row, metric: MetricName, part: Part = "test") -> Estimate:
    """By how much the first row is above the second, sentence by sentence."""
    left, right = ([seen[row].parts[part].parts(metric) for seen in evidence] for row in (first, second))
    return corpus_difference(left, right, metric_function(metric))


def better(
    evidence: Sequence[Evidence], sentence: str, first: Row, second: Row, metric: MetricName, threshold: float = 0.0
) -> Finding:
    """Whether the first row is above the second."""
    quantity = f"{LABELS[metric]}({first.label}) - {LABELS[metric]}({second.label}), test"
    return above(sentence, quantity, gap(evidence, first, second, metric), threshold)


def rows_table(
    evidence: Sequence[Evidence],
    rows: Iterable[Row],
    metric: MetricName,
    printed: Mapping[Row, Printed],
    *,
    group: str,
    name: str | None = None,
) -> Table:
    """Rows with the thesis's numbers beside ours; `±` is half of a 95 % interval."""
    label = LABELS[metric]
    columns = (
        *(group, "training", "decoding", f"{label}, validation", "±", "thesis"),
        *(f"{label}, test", "± ", "thesis ", "updates", "weights after", "learning rate"),
    )
    cells: list[tuple[Cell, ...]] = []
    for row in rows:
        own = [score(evidence, row, metric, part) for part in ("validation", "test")]
        thesis = printed.get(row, Printed())
        seen = [run[row] for run in evidence]
        cells.append(
            (
                *row,
                *(own[0].value, own[0].half_width, thesis.validation),
                *(own[1].value, own[1].half_width, thesis.test),
                *(_told([run.updates for run in seen]), _told([run.best_update for run in seen])),
                _told([run.learning_rate for run in seen]),
            )
        )
    return Table(name or label, columns, cells)


def rows_panel(evidence: Sequence[Evidence], rows: Iterable[Row], metric: MetricName, title: str = "") -> Panel:
    """Rows as points, a colour for each group."""
    rows = list(rows)
    categories = list(dict.fromkeys(row[1:] for row in rows))
    series = []
    for group in dict.fromkeys(row.group for row in rows):
        own = [row for row in rows if row.group == group]
        places = [float(categories.index(row[1:])) for row in own]
        estimates = [score(evidence, row, metric) for row in own]
        series.append(Series.of(group or "all", places, estimates, style="points"))
    labels = tuple(", ".join(part for part in category if part) for category in categories)
    return Panel("", f"{LABELS[metric]}, test", tuple(series), title=title, categories=labels)


def _told(values: Sequence[float | int | None]) -> Cell:
    """What all seeds share, or theirs one by one."""
    told = list(dict.fromkeys(value for value in values if value is not None))
    if len(told) == 1:
        return told[0]
    return "/".join(f"{value:g}" for value in values if value is not None) or None
