"""What Tables 3.1 and 3.2 share: scheduled sampling and its relaxations, beside cross-entropy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lexergy.core.estimation.findings import Finding
from lexergy.core.search_aware.scheduled_sampling import inverse_sigmoid_strength
from lexergy.recipes.search_aware import SearchRecipe
from lexergy.report.pages.study import Conclusion
from lexergy.studies.search_aware.comparison import (
    BEAM,
    CROSS_ENTROPY,
    GREEDY,
    NO_CONTEXT,
    RAW,
    TIME,
    UPDATES,
    Evidence,
    Plan,
    Printed,
    Row,
    Seen,
    better,
    carry_out,
    controls,
    rows_panel,
    rows_table,
    searches,
)
from lexergy.studies.study import Settings
from lexergy.tasks.search_aware.arms import Arm, ArmLaboratory, arm
from lexergy.tasks.search_aware.decodings import MetricName

HARD, FIXED, ANNEALED = "scheduled sampling", "soft, alpha fixed", "soft, alpha annealed"
CHOICES = {"greedy": False, "sampled": True}
METHOD = (
    "What the decoder reads is gold with a probability that falls by an inverse sigmoid, k / (k + exp(i / k)), and "
    "else its own choice. Here i and k count updates of the weights, not epochs: with epochs, the thesis's k = 100 "
    "keeps gold's probability at .98 after 50 of them, which is next to no mixing. k is such that gold's probability "
    "is one half at a given share of the training; of the shares that are tried, the best on validation sentences is "
    "taken. All are decoded greedily."
)


@dataclass(frozen=True)
class Scheduling:
    """How trainings begin: from scratch, or (`start`) from cross-entropy's weights with this learning."""

    start: str | None
    learning: Mapping[str, Any]


def scheduled(scheduling: Scheduling, relaxation: str, *, sampled: bool, settings: Settings) -> Arm:
    alphas = {HARD: None, FIXED: {"first": settings["alpha"]}, ANNEALED: {"first": 1.0, "last": settings["last_alpha"]}}
    trained = arm("scheduled", alpha=alphas[relaxation], sampled=sampled, learning=dict(scheduling.learning))
    return trained if scheduling.start is None else trained.but(start=scheduling.start)


def mixed(laboratory: ArmLaboratory, trained: Arm, share: float) -> Arm:
    """With gold's probability one half at a share of the training; 0: never gold after the first update."""
    if share == 0:
        return trained.but(mixing="linear", mixing_steps=1.0)
    steps = laboratory.updates(trained)
    return trained.but(mixing="inverse-sigmoid", mixing_steps=round(inverse_sigmoid_strength(share * steps), 2))


def examine(laboratory: ArmLaboratory, settings: Settings, scheduling: Scheduling) -> dict[Row, Seen]:
    plain = arm(CROSS_ENTROPY)
    plans = {
        Row(name, CROSS_ENTROPY, ""): Plan((plain,), search)
        for name, search in searches({**settings, "alpha": 1.0}).items()
        if name in (GREEDY, BEAM, RAW)
    }
    for relaxation in (HARD, FIXED, ANNEALED):
        for choice, sampled in CHOICES.items():
            trained = scheduled(scheduling, relaxation, sampled=sampled, settings=settings)
            tried = [mixed(laboratory, trained, share) for share in settings["half_at"]]
            plans[Row(GREEDY, relaxation, choice)] = Plan(tried, SearchRecipe())
    last = plans[Row(GREEDY, ANNEALED, "greedy")].arms[0]
    for label, control in _controls(laboratory, last, scheduling).items():
        plans[Row(GREEDY, f"{CROSS_ENTROPY} {label}", "")] = Plan((control,), SearchRecipe())
    seen = carry_out(laboratory, plans)
    if laboratory.recipe.data.kind == "tagging":
        return {Row("", NO_CONTEXT, ""): Seen(laboratory.most_frequent()), **seen}
    return seen


def _controls(laboratory: ArmLaboratory, trained: Arm, scheduling: Scheduling) -> dict[str, Arm]:
    """From scratch, cross-entropy has as many updates already."""
    if scheduling.start is not None:
        return dict(zip((UPDATES, TIME), controls(laboratory, trained), strict=True))
    plain = arm(CROSS_ENTROPY)
    epochs = plain.recipe(laboratory.recipe).learning.epochs
    longer = plain.but(learning={"epochs": round(epochs * laboratory.relative_cost(trained, plain), 3)})
    return {TIME: longer}


def conclude(
    evidence: Sequence[Evidence], metric: MetricName, printed: Mapping[tuple[str, str], tuple[float, float]]
) -> Conclusion:
    rows = list(evidence[0])
    numbers = {Row(GREEDY, *row): Printed(*values) for row, values in printed.items()}
    table = rows_table(evidence, rows, metric, numbers, group="decoded by")
    named = (*table.columns[:2], "the decoder's choice", *table.columns[3:])
    return Conclusion(
        tables=(type(table)(table.name, named, table.rows),),
        panels=(rows_panel(evidence, rows, metric),),
        findings=tuple(_findings(evidence, metric)),
    )


def _findings(evidence: Sequence[Evidence], metric: MetricName) -> list[Finding]:
    plain = Row(GREEDY, CROSS_ENTROPY, "")
    findings = []
    for choice in CHOICES:
        hard = Row(GREEDY, HARD, choice)
        findings.append(better(evidence, f"{HARD}, {choice}, is above cross-entropy.", hard, plain, metric))
        for relaxation in (FIXED, ANNEALED):
            soft = Row(GREEDY, relaxation, choice)
            findings += [
                better(evidence, f"{relaxation}, {choice}, is above cross-entropy.", soft, plain, metric),
                better(evidence, f"{relaxation}, {choice}, is above plain {HARD}.", soft, hard, metric),
            ]
    best = Row(GREEDY, ANNEALED, "greedy")
    findings += [
        better(evidence, f"{ANNEALED}, greedy, is above {row.training}.", best, row, metric)
        for row in evidence[0]
        if row.training in (f"{CROSS_ENTROPY} {UPDATES}", f"{CROSS_ENTROPY} {TIME}")
    ]
    return findings
