"""Figure 3 of "Real or fake": by how much people's text scores above its machine-written twin."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from lexergy.core.estimation.findings import Finding, above, mean
from lexergy.report.figures.distributions import densities
from lexergy.report.figures.picture import Panel
from lexergy.report.pages.study import Conclusion
from lexergy.report.table import Table
from lexergy.studies.real_or_fake.cells import Sample, percentage
from lexergy.studies.real_or_fake.workspace import LABORATORY, PAPER, SETTING, sizes
from lexergy.studies.study import Settings, Study
from lexergy.tasks.real_or_fake.laboratory import Laboratory
from lexergy.tasks.real_or_fake.text_sets import TextSet

ENERGIES = ("linear", "bilstm-small", "bilstm-big", "unit")
LEFT, RIGHT = "left to right", "right to left"
SHOWN = (1.0, 99.0)  # percentiles between which the curves are drawn

Differences = Mapping[tuple[str, str], Sample]  # (energy, direction) -> E(machine) - E(people), (N K,)


def _examine(laboratory: Laboratory, settings: Settings) -> Differences:
    wanted = TextSet(settings["corpus"], settings["generator"])
    texts = laboratory.texts.read(wanted, "test")
    longest = (texts.contexts == texts.contexts.min()).numpy()  # what the machine wrote is longest
    samples = {}
    for energy in ENERGIES:
        scores = laboratory.scores(energy, [wanted], wanted)
        for direction, is_suffix in ((LEFT, False), (RIGHT, True)):
            chosen = scores.select(np.flatnonzero(longest & (texts.suffix.numpy() == is_suffix)))
            margins = chosen.energies[:, 1:] - chosen.energies[:, :1]  # (N, K)
            documents = [document for document in chosen.documents for _ in range(margins.shape[1])]
            samples[energy, direction] = Sample(margins.ravel(), documents)
    return samples


def _conclude(seeds: Sequence[Differences]) -> Conclusion:
    rows = []
    for key in seeds[0]:
        parts = [differences[key] for differences in seeds]
        groups = [part.documents for part in parts]
        share = percentage(mean([100.0 * (part.values > 0) for part in parts], groups=groups))
        middle = mean([part.values for part in parts], groups=groups)
        rows.append((*key, *middle, *share))
    columns = ("energy", "texts", "mean difference", "low", "high", "above 0 (%)", "low", "high")
    return Conclusion(
        tables=(Table("score differences", columns, rows),),
        panels=tuple(_panel(seeds, direction) for direction in (LEFT, RIGHT)),
        findings=tuple(_findings(seeds)),
    )


def _findings(seeds: Sequence[Differences]) -> Iterator[Finding]:
    for better, worse in (("bilstm-small", "linear"), ("unit", "bilstm-big")):
        gains, groups = [], []
        for differences in seeds:
            pairs = [(differences[better, direction], differences[worse, direction]) for direction in (LEFT, RIGHT)]
            gains.append(np.concatenate([100.0 * (a.values > 0) - 100.0 * (b.values > 0) for a, b in pairs]))
            groups.append([document for a, _ in pairs for document in a.documents])
        yield above(
            f"{better} puts more of the pairs in the right order than {worse}.",
            f"share of pairs in order, {better} - {worse}, percentage points",
            mean(gains, groups=groups),
        )


def _panel(seeds: Sequence[Differences], direction: str) -> Panel:
    values = {
        energy: np.concatenate([differences[energy, direction].values for differences in seeds]) for energy in ENERGIES
    }
    return Panel("E(machine) - E(people)", "density", densities(values, SHOWN), title=direction)


STUDY = Study(
    title="Score differences between people's text and its machine-written twin",
    part="Figure 3 and Appendix E",
    paper=PAPER,
    method=(
        f"{SETTING} The energies are those of detect-table-2, trained by binary cross-entropy; the texts those of the "
        "shorter context. The score is the negative energy, so that a pair is in the right order where E(machine) - "
        "E(people) is above 0. The paper draws this without printing numbers."
    ),
    sizes=sizes(
        cpu={"corpus": "wikitext", "generator": "transf-big"}, paper={"corpus": "wikitext", "generator": "transf-big"}
    ),
    workspace=LABORATORY,
    examine=_examine,
    conclude=_conclude,
)
