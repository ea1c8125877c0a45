"""Figure 3.1 of Goyal 2021: the objective of scheduled sampling along a line in weight space, and its relaxations."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from lexergy.core.estimation.findings import Finding, above, mean, mean_difference, similar
from lexergy.report.figures.picture import Panel, Series
from lexergy.report.pages.study import Conclusion
from lexergy.report.table import Cell, Table
from lexergy.studies.search_aware.comparison import ARMS, THESIS
from lexergy.studies.study import Settings, Size, Study
from lexergy.tasks.search_aware.arms import ArmLaboratory, arm
from lexergy.tasks.search_aware.landscape import Landscape, Line

SETTINGS = {"sentences": 24, "points": 201, "shortest": 8, "radius": 1.0, "alphas": (1.0, 10.0, 100.0)}
SIZES = {"cpu": Size("ner-cpu", SETTINGS), "paper": Size("paper/ner-german", SETTINGS)}
HARD = "hard"
CONTINUOUS = 1e-4  # nats per word: what is left of a loss's difference at places that are 1e-11 apart
DRAWN = 3  # sentences


def _examine(laboratory: ArmLaboratory, settings: Settings) -> Landscape:
    return laboratory.landscape(arm("cross-entropy"), Line(**settings))


def _distances(landscape: Landscape, name: str) -> np.ndarray:  # (S,)
    """From the hard objective, on average over the line."""
    return np.abs(np.array(landscape.losses[name]) - np.array(landscape.losses[HARD])).mean(1)


def _conclude(evidence: Sequence[Landscape]) -> Conclusion:
    names = list(evidence[0].losses)
    cells: list[tuple[Cell, ...]] = []
    for name in names:
        jump = mean([np.array(landscape.jumps[name]) for landscape in evidence])
        largest = max((jump for landscape in evidence for jump in landscape.jumps[name]), default=None)
        distance = mean([_distances(landscape, name) for landscape in evidence])
        changes = sum(len(landscape.jumps[name]) for landscape in evidence)
        cells.append((name, changes, jump.value, jump.half_width, largest, distance.value, distance.half_width))
    columns = (
        *("objective", "changes of a decision", "jump there, nats per word", "±", "largest jump"),
        *("distance from the hard objective", "± "),
    )
    return Conclusion(
        tables=(Table("jumps", columns, cells), _curves(evidence[0])),
        panels=tuple(_panel(evidence[0], row) for row in _most_jagged(evidence[0])),
        findings=tuple(_findings(evidence, names)),
    )


def _findings(evidence: Sequence[Landscape], names: Sequence[str]) -> list[Finding]:
    findings = [
        above(
            "The objective of scheduled sampling is discontinuous where a previous decision changes.",
            "jump of the hard objective, nats per word",
            mean([np.array(landscape.jumps[HARD]) for landscape in evidence]),
            CONTINUOUS,
        )
    ]
    relaxed = [name for name in names if name != HARD]
    findings += [
        similar(
            f"Its relaxation by the soft argmax with {name} is continuous there.",
            f"jump of the objective with {name}, nats per word",
            *(mean([np.array(landscape.jumps[name]) for landscape in evidence]), CONTINUOUS),
        )
        for name in relaxed
    ]
    findings += [
        above(
            f"As alpha increases the relaxation comes closer to the hard objective: {sharp} than {smooth}.",
            f"distance({smooth}) - distance({sharp}), nats per word",
            mean_difference(
                *([_distances(landscape, name) for landscape in evidence] for name in (smooth, sharp)),
            ),
        )
        for smooth, sharp in pairwise(relaxed)
    ]
    return findings


def _most_jagged(landscape: Landscape) -> list[int]:
    """The sentences whose hard objective differs most from the smoothest relaxation."""
    smoothest = next(name for name in landscape.losses if name != HARD)
    return np.argsort(-_distances(landscape, smoothest), kind="stable")[:DRAWN].tolist()


def _panel(landscape: Landscape, row: int) -> Panel:
    series = [Series(name, landscape.places, losses[row]) for name, losses in landscape.losses.items()]
    title = " ".join(landscape.sentences[row])
    return Panel("place on the line", "loss, nats per word", tuple(series), title=title[:50])


def _curves(landscape: Landscape) -> Table:
    row = _most_jagged(landscape)[0]
    columns = ("place", *landscape.losses)
    values = zip(landscape.places, *(losses[row] for losses in landscape.losses.values()), strict=True)
    return Table("the first picture's curves", columns, list(values)[:: max(1, len(landscape.places) // 40)])


STUDY = Study(
    title="The objective of scheduled sampling and its relaxations, along a line",
    part="Figure 3.1 and Section 3.3.1",
    paper=THESIS,
    method="The thesis draws a sketch; here the objective is computed. A tagger of cross-entropy (entities of "
    "CoNLL-2003) is moved along a random direction, which has in each weight matrix its norm; 1 is as far as the "
    "weights are long. No gold is read (`always`), each validation sentence has its own loss, in double precision "
    "and without dropout. Where a greedy decision changes that a later step reads, the place is found by halving, "
    "and the jump is the difference of the loss on its two sides.",
    sizes=SIZES,
    workspace=ARMS,
    examine=_examine,
    conclude=_conclude,
)
