"""Tables 5 and 6: texts, and what the energy thinks of them."""

from collections.abc import Sequence

import numpy as np

from lexergy.core.estimation.findings import above, mean, proportion
from lexergy.report.picture import Panel, Series
from lexergy.studies.residual.samples import SAMPLES_TOP_10, TOP_10
from lexergy.studies.study import Cell, Conclusion, Evidence, Size, Study, Table

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
    energies = {writer: np.concatenate([one.array(f"{writer}_energy") for one in evidence]) for writer in WRITERS}
    lower = energies["human"] < energies["base"]
    return Conclusion(
        tables=(
            _examples("people's text judged best", first, order[:EXAMPLES]),
            _examples("people's text judged worst", first, order[::-1][:EXAMPLES]),
        ),
        panels=(_panel(energies),),
        findings=(
            above(
                "The energy of people's text is lower than that of the LM's continuation of the same prefix, "
                "more often than not.",
                "share of prefixes",
                proportion(int(lower.sum()), len(lower)),
                0.5,
            ),
            above(
                "The joint model's choice has a lower energy than a plain sample of the LM.",
                "energy, base LM - joint model",
                mean([one.array("base_energy") - one.array("joint_energy") for one in evidence]),
            ),
        ),
    )


def _examples(name: str, one: Evidence, chosen: np.ndarray) -> Table:
    assert one.rows is not None
    rows: list[tuple[Cell, ...]] = []
    for number in chosen.tolist():
        record = one.rows.slice(number, 1).to_pylist()[0]
        for place, (writer, label) in enumerate(WRITERS.items()):
            prefix = record["prefix_text"] if place == 0 else ""
            rows.append((prefix, label, record[f"{writer}_text"], record[f"{writer}_energy"]))
    return Table(name, ("prefix", "written by", "continuation", "energy"), rows)


def _panel(energies: dict[str, np.ndarray]) -> Panel:
    everything = np.concatenate(list(energies.values()))
    edges = np.linspace(everything.min(), everything.max(), NUM_BINS + 1)
    middles = ((edges[:-1] + edges[1:]) / 2).tolist()
    return Panel(
        xlabel="energy (low = judged human)",
        ylabel="share of prefixes",
        series=tuple(
            Series(label, middles, (np.histogram(energies[writer], edges)[0] / len(energies[writer])).tolist())
            for writer, label in WRITERS.items()
        ),
    )


STUDY = Study(
    name="tables-5-6",
    title="Continuations and their energies",
    part="Tables 5 and 6, Appendix A.5",
    method=(
        "For each held-out prefix: a plain sample of the LM (top-k 10), the candidates of highest and lowest energy, "
        "the joint model's choice among them (Algorithm 1), and people's text. The paper shows prefixes on which all "
        "three judges preferred the joint model (Table 5) or BALM (Table 6). There are no judges here: the first "
        "table shows prefixes where the energy puts people's text below the largest share of the LM's candidates, "
        "the second where it puts it above."
    ),
    sizes={
        "cpu": Size("table-1-cpu", settings=TOP_10["cpu"]),
        "paper": Size("paper/cc-news-12-layers", "bit-base", settings=TOP_10["paper"]),
    },
    measurement=SAMPLES_TOP_10,
    conclude=_conclude,
)
