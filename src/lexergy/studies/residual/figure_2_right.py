"""Figure 2, right: who repeats themselves."""

from collections.abc import Sequence

import numpy as np

from lexergy.core.estimation.findings import above, mean, mean_difference
from lexergy.core.text_measures.repetition import unique_share, unique_share_of_all
from lexergy.report.figures.picture import Panel, Series
from lexergy.report.pages.study import Conclusion
from lexergy.report.table import Table
from lexergy.studies.residual.samples import TOP_10, samples_top_10
from lexergy.studies.residual.workspace import PAPER, RUN, Evidence, documents
from lexergy.studies.study import Study

ORDERS = (2, 3, 4)
WRITERS = {"human": "people", "joint": "joint model", "base": "base LM"}


def _conclude(evidence: Sequence[Evidence]) -> Conclusion:
    tokens = {writer: [seen.array(f"{writer}_tokens") for seen in evidence] for writer in WRITERS}  # (N, C) per run
    shares = {
        (writer, order): [100 * unique_share(texts, order) for texts in tokens[writer]]
        for writer in WRITERS
        for order in ORDERS
    }  # (N,) per run
    groups = documents(evidence)
    estimates = {key: mean(values, groups=groups) for key, values in shares.items()}
    rows = []
    for (writer, order), estimate in estimates.items():
        of_all = 100 * float(np.mean([unique_share_of_all(texts, order) for texts in tokens[writer]]))
        rows.append((WRITERS[writer], order, *estimate, of_all))
    columns = ("text of", "n", "unique within a text (%)", "low", "high", "unique in all texts (%)")
    series = tuple(
        Series.of(label, range(len(ORDERS)), [estimates[writer, order] for order in ORDERS], "points")
        for writer, label in WRITERS.items()
    )
    findings = [
        above(
            f"{sentence} (n = {order}).",
            f"{WRITERS[more]} - {WRITERS[less]}, percentage points",
            mean_difference(shares[more, order], shares[less, order], groups=groups),
        )
        for more, less, sentence in (
            ("joint", "base", "The joint model has more unique n-grams than the base LM"),
            ("human", "joint", "People's text has more unique n-grams than the joint model's"),
        )
        for order in ORDERS
    ]
    labels = tuple(f"{order}-grams" for order in ORDERS)
    return Conclusion(
        tables=(Table("unique n-grams", columns, rows),),
        panels=(Panel("", "unique n-grams within a text (%)", series, categories=labels),),
        findings=tuple(findings),
    )


STUDY = Study(
    title="Unique n-grams",
    part="Figure 2, right, and Section 4.3",
    paper=PAPER,
    method=(
        "One continuation of each held-out prefix by people, by the base LM (top-k 10) and by the joint model "
        "(Algorithm 1, top-k 10), cut to the same length. The paper does not say among which n-grams one is unique. "
        "We take those of the same continuation, since the finding is about repeating oneself: different n-grams of "
        "the LM's tokens over all of them, averaged over continuations. The last column counts over all "
        "continuations together instead, which also tells how much the texts are alike; it has no interval, since "
        "drawing texts with replacement would itself make repetitions. The paper draws bars without numbers."
    ),
    sizes=TOP_10,
    workspace=RUN,
    examine=samples_top_10,
    conclude=_conclude,
)
