"""Tables 5 and 6: texts, and what the energy thinks of them."""

from collections.abc import Sequence
from itertools import chain

import numpy as np

from lexergy.core.estimation.findings import above, mean_difference, proportion
from lexergy.report.figures.distributions import histogram
from lexergy.report.figures.picture import Panel
from lexergy.report.pages.study import Conclusion
from lexergy.report.table import Cell, Table
from lexergy.studies.residual.samples import TOP_10, samples_top_10
from lexergy.studies.residual.workspace import PAPER, RUN, Evidence, documents
from lexergy.studies.study import Study

EXAMPLES = 3
WRITERS = {
    "base": "base LM",
    "worst": "highest energy",
    "best": "lowest energy",
    "joint": "joint model",
    "human": "people",
}
NUM_BINS = 24


def _conclude(evidence: Sequence[Evidence]) -> Conclusion:
    first = evidence[0]  # examples of one run are enough
    order = np.argsort(first.array("human_rank"), kind="stable")  # people's text judged best first
    energies = {writer: np.concatenate([seen.array(f"{writer}_energy") for seen in evidence]) for writer in WRITERS}
    lower, groups = energies["human"] < energies["base"], documents(evidence)
    return Conclusion(
        tables=(
            _examples("people's text judged best", first, order[:EXAMPLES]),
            _examples("people's text judged worst", first, order[::-1][:EXAMPLES]),
        ),
        panels=(
            Panel(
                xlabel="energy (low = judged human)",
                ylabel="share of prefixes",
                series=histogram({label: energies[writer] for writer, label in WRITERS.items()}, NUM_BINS),
            ),
        ),
        findings=(
            above(
                "The energy of people's text is lower than that of the LM's continuation of the same prefix, "
                "more often than not.",
                "share of prefixes",
                proportion(lower, list(chain.from_iterable(groups))),
                0.5,
            ),
            above(
                "The joint model's choice has a lower energy than a plain sample of the LM.",
                "energy, base LM - joint model",
                mean_difference(
                    *([seen.array(name) for seen in evidence] for name in ("base_energy", "joint_energy")),
                    groups=groups,
                ),
            ),
        ),
    )


def _examples(name: str, seen: Evidence, chosen: np.ndarray) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for number in chosen.tolist():
        record = seen.table.slice(number, 1).to_pylist()[0]
        for place, (writer, label) in enumerate(WRITERS.items()):
            prefix = record["prefix_text"] if place == 0 else ""
            rows.append((prefix, label, record[f"{writer}_text"], record[f"{writer}_energy"]))
    return Table(name, ("prefix", "written by", "continuation", "energy"), rows)


STUDY = Study(
    title="Continuations and their energies",
    part="Tables 5 and 6, Appendix A.5",
    paper=PAPER,
    method=(
        "For each held-out prefix: a plain sample of the LM (top-k 10), the candidates of highest and lowest energy, "
        "the joint model's choice among them (Algorithm 1), and people's text. The paper shows prefixes on which all "
        "three judges preferred the joint model (Table 5) or BALM (Table 6). There are no judges here: the energy "
        "itself chooses the examples. The first table shows prefixes where it puts people's text below the largest "
        "share of the LM's candidates, the second where it puts it above; so they show what the energy goes by, "
        "and are no evidence that it is right. That the joint model's choice has a low energy follows from how it is "
        "chosen."
    ),
    sizes=TOP_10,
    workspace=RUN,
    examine=samples_top_10,
    conclude=_conclude,
)
