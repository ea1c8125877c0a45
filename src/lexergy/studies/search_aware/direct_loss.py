"""What Tables 4.1 and 4.2 share: direct loss and soft hinge of the relaxed beam search, alpha annealed or constant."""

from collections.abc import Mapping, Sequence

from lexergy.core.estimation.findings import Finding, similar
from lexergy.recipes.search_aware import SearchRecipe
from lexergy.report.pages.study import Conclusion
from lexergy.studies.search_aware.comparison import (
    BEAM,
    CONTROLS,
    GREEDY,
    LABELS,
    NO_CONTEXT,
    SOFT,
    START,
    TIME,
    UPDATES,
    Evidence,
    Plan,
    Printed,
    Row,
    Seen,
    better,
    carry_out,
    control_plans,
    gap,
    rows_panel,
    rows_table,
    soft_beam,
    start_plans,
    trained_plans,
)
from lexergy.studies.study import Settings
from lexergy.tasks.search_aware.arms import Arm, ArmLaboratory, arm
from lexergy.tasks.search_aware.decodings import MetricName

CONSTANT = 1.0
DIRECT, DIRECT_CONSTANT = "direct loss, alpha annealed", "direct loss, alpha 1"
HINGE, HINGE_CONSTANT = "hinge, alpha annealed", "hinge, alpha 1"
METHOD = (
    "The start is a bidirectional tagger of cross-entropy; direct loss and soft hinge go on from it with the "
    "continuous relaxation of beam search over locally normalised scores, alpha annealed from 1 to 10 or constant at "
    "1. Soft beam search decodes with the alpha that a training ended with, and with alpha 10 what cross-entropy "
    f"trained. {CONTROLS}"
)


def _arms(settings: Settings) -> dict[str, Arm]:
    start = "cross-entropy"
    constant = {"first": CONSTANT}
    return {
        HINGE: soft_beam(start, settings, loss="hinge"),
        HINGE_CONSTANT: soft_beam(start, settings, loss="hinge", alpha=constant),
        DIRECT_CONSTANT: soft_beam(start, settings, normalisation="local", alpha=constant),
        DIRECT: soft_beam(start, settings, normalisation="local"),
    }


def examine(laboratory: ArmLaboratory, settings: Settings) -> dict[Row, Seen]:
    arms = _arms(settings)
    plans = start_plans("", arm("cross-entropy"), settings)
    plans |= control_plans(laboratory, "", arms[DIRECT], settings)
    for label, trained in arms.items():
        plans |= trained_plans("", label, trained, settings)
        if label in (HINGE_CONSTANT, DIRECT_CONSTANT):
            row = Row("", label, SOFT)
            plans[row] = Plan(plans[row].arms, SearchRecipe(beam=settings["beam"], alpha=CONSTANT))
    return {Row("", NO_CONTEXT, ""): Seen(laboratory.most_frequent()), **carry_out(laboratory, plans)}


def conclude(
    evidence: Sequence[Evidence],
    metric: MetricName,
    printed: Mapping[tuple[str, str], tuple[float, float]],
    findings: Sequence[Finding],
    others: Sequence[MetricName] = (),
) -> Conclusion:
    """`others` are metrics with a table of their own."""
    rows = list(evidence[0])
    numbers = {Row("", *row): Printed(*values) for row, values in printed.items()}
    return Conclusion(
        tables=(
            rows_table(evidence, rows, metric, numbers, group="tagger"),
            *(rows_table(evidence, rows, name, {}, group="tagger") for name in others),
        ),
        panels=(rows_panel(evidence, rows[1:], metric),),
        findings=(*_shared_findings(evidence, metric), *findings),
    )


def _shared_findings(evidence: Sequence[Evidence], metric: MetricName) -> list[Finding]:
    """What the thesis says of both tasks (4.6)."""
    best = Row("", DIRECT, BEAM)
    comparisons = {
        "Annealed direct loss is above cross-entropy, decoded greedily.": (best, Row("", START, GREEDY)),
        "Annealed direct loss is above cross-entropy, decoded by beam.": (best, Row("", START, BEAM)),
        f"Annealed direct loss is above cross-entropy {UPDATES}.": (best, Row("", UPDATES, BEAM)),
        f"Annealed direct loss is above cross-entropy {TIME}.": (best, Row("", TIME, BEAM)),
        "Annealing alpha is better than a constant one, for the direct loss.": (best, Row("", DIRECT_CONSTANT, BEAM)),
        "Annealing alpha is better than a constant one, for the hinge.": (
            Row("", HINGE, BEAM),
            Row("", HINGE_CONSTANT, BEAM),
        ),
        "The direct loss is above the hinge.": (best, Row("", HINGE, BEAM)),
    }
    return [
        *(better(evidence, sentence, *rows, metric) for sentence, rows in comparisons.items()),
        similar(
            "Soft beam search decodes about as well as hard beam search.",
            f"{LABELS[metric]}(soft beam) - {LABELS[metric]}(beam) of annealed direct loss, test",
            gap(evidence, Row("", DIRECT, SOFT), best, metric),
            0.5,
        ),
    ]
