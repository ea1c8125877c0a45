"""Table 3.2 of Goyal 2021: gentle and harsh schedules of the relaxed scheduled sampling."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from lexergy.core.estimation.findings import Finding
from lexergy.core.search_aware.scheduled_sampling import inverse_sigmoid
from lexergy.recipes.search_aware import SearchRecipe
from lexergy.report.pages.study import Conclusion
from lexergy.report.table import Cell, Table
from lexergy.studies.search_aware.comparison import (
    ARMS,
    CROSS_ENTROPY,
    GREEDY,
    LABELS,
    THESIS,
    Evidence,
    Plan,
    Row,
    better,
    carry_out,
    rows_panel,
    score,
)
from lexergy.studies.search_aware.scheduled import ANNEALED, METHOD, mixed, scheduled
from lexergy.studies.search_aware.table_3_1 import SCHEDULING, SETTINGS
from lexergy.studies.study import Settings, Size, Study
from lexergy.tasks.search_aware.arms import ArmLaboratory, arm

SHARES = (1.5, 0.75, 0.25, 0.0)
PRINTED = {1.5: ("100", 56.33), 0.75: ("10", 55.88), 0.25: ("1", 55.30), 0.0: ("always", 54.83)}
SIZES = {name: Size(recipe, SETTINGS) for name, recipe in (("cpu", "ner-cpu"), ("paper", "paper/ner-german"))}
PLAIN = Row(GREEDY, CROSS_ENTROPY, "")


class Measured(NamedTuple):
    """Of one seed; k of each schedule and the updates of a training."""

    rows: Evidence
    strengths: dict[float, float]
    updates: int


def _row(share: float) -> Row:
    return Row(GREEDY, ANNEALED, f"one half at {share:g} of the training" if share else "always")


def _examine(laboratory: ArmLaboratory, settings: Settings) -> Measured:
    trained = scheduled(SCHEDULING, ANNEALED, sampled=False, settings=settings)
    arms = {share: mixed(laboratory, trained, share) for share in SHARES}
    plans = {_row(share): Plan((own,), SearchRecipe()) for share, own in arms.items()}
    plans[PLAIN] = Plan((arm(CROSS_ENTROPY),), SearchRecipe())
    recipes = {share: own.recipe(laboratory.recipe) for share, own in arms.items()}
    strengths = {share: recipe.model_dump()["mixing_steps"] for share, recipe in recipes.items()}
    return Measured(carry_out(laboratory, plans), strengths, laboratory.updates(trained))


def _conclude(evidence: Sequence[Measured]) -> Conclusion:
    rows = [measured.rows for measured in evidence]
    label = LABELS["f1"]
    columns = (
        *("schedule", "k, updates", "gold's probability at half-time", "at the end"),
        *(f"{label}, validation", "±", f"{label}, test", "± ", "k of the thesis, epochs", "thesis, test"),
    )
    cells: list[tuple[Cell, ...]] = []
    for share in SHARES:
        strength, updates = evidence[0].strengths[share], evidence[0].updates
        shares = [inverse_sigmoid(step, strength) if share else 0.0 for step in (updates // 2, updates)]
        own = [score(rows, _row(share), "f1", part) for part in ("validation", "test")]
        numbers = [number for estimate in own for number in (estimate.value, estimate.half_width)]
        cells.append((_row(share).decoding, strength if share else None, *shares, *numbers, *PRINTED[share]))
    plain = [score(rows, PLAIN, "f1", part) for part in ("validation", "test")]
    numbers = [number for estimate in plain for number in (estimate.value, estimate.half_width)]
    cells.append((CROSS_ENTROPY, None, 1.0, 1.0, *numbers, None, 53.32))
    return Conclusion(
        tables=(Table("schedules", columns, cells),),
        panels=(rows_panel(rows, [*map(_row, SHARES), PLAIN], "f1"),),
        findings=tuple(_findings(rows)),
    )


def _findings(rows: Sequence[Evidence]) -> list[Finding]:
    return [
        *(
            better(rows, f"Gentler is better: {_row(gentle).decoding}.", _row(gentle), _row(harsh), "f1")
            for gentle, harsh in pairwise(SHARES)
        ),
        better(rows, "The gentlest schedule is above taking no gold at all.", _row(SHARES[0]), _row(0.0), "f1"),
        better(rows, "The gentlest schedule is above cross-entropy.", _row(SHARES[0]), PLAIN, "f1"),
        better(rows, "Even taking no gold at all is above cross-entropy.", _row(0.0), PLAIN, "f1"),
    ]


STUDY = Study(
    title="Schedules of the relaxed scheduled sampling",
    part="Table 3.2 and Section 3.3.4",
    paper=THESIS,
    method=f"As Table 3.1, entities, soft argmax with alpha annealed. {METHOD} Here each schedule has a row. A share "
    "above 1 means that gold is still likelier than not when the training ends.",
    sizes=SIZES,
    workspace=ARMS,
    examine=_examine,
    conclude=_conclude,
)
