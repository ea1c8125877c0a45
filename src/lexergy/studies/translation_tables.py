"""How the studies of translations print and draw their samplers."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from lexergy.studies.findings import Estimate
from lexergy.studies.picture import Panel, Series
from lexergy.studies.study import Cell, Table
from lexergy.studies.translation import LABELS, Followed, Kind, PerSentence, Sampler, Seen, average, bleu, of, sums

ENERGY_AXIS = "local energy, nats per sentence"


class Printed(NamedTuple):
    """The thesis's numbers; its energies are sums over its data, in thousands of nats."""

    energy: float
    novel: float
    bleu: float


def samplers_table(evidence: Sequence[Seen], heading: str, rows: Mapping[tuple[str, Sampler], Printed]) -> Table:
    """Energy, novel transitions and BLEU of samplers; `±` is half of a 95 % interval."""
    columns = (
        *(heading, "sampler", "E_norm, nats per sentence", "± ", "E_norm x 1e-3, thesis"),
        *("accepted", "novel", "novel, thesis", "BLEU", "±  ", "BLEU, thesis"),
    )
    cells: list[tuple[Cell, ...]] = []
    for (label, sampler), printed in rows.items():
        followed = of(evidence, sampler)
        energy, score = average(followed, "energy"), bleu(sums(followed))
        accepted, novel = (average(followed, name).value for name in ("acceptance", "novel"))
        cells.append(
            (
                *(label, LABELS[sampler.kind], energy.value, _half(energy), printed.energy),
                *(accepted, novel, printed.novel, score.value, _half(score), printed.bleu),
            )
        )
    return Table("samplers after the burn-in", columns, cells)


def panels_by(
    evidence: Sequence[Seen], xlabel: str, labels: Sequence[str], samplers: Mapping[Kind, Sequence[Sampler]]
) -> tuple[Panel, ...]:
    """BLEU, energy and novel rate of each kind of sampler, setting by setting."""
    places = range(len(labels))

    def panel(ylabel: str, estimates: Mapping[Kind, Sequence[Estimate]]) -> Panel:
        series = tuple(
            Series(LABELS[kind], places, *_columns(found), style="points") for kind, found in estimates.items()
        )
        return Panel(xlabel, ylabel, series, categories=tuple(labels))

    def averages(quantity: PerSentence) -> dict[Kind, list[Estimate]]:
        return {kind: [average(of(evidence, one), quantity) for one in some] for kind, some in samplers.items()}

    scores: dict[Kind, list[Estimate]] = {
        kind: [bleu(sums(of(evidence, one))) for one in some] for kind, some in samplers.items()
    }
    return (
        panel("BLEU", scores),
        panel(ENERGY_AXIS, averages("energy")),
        panel("novel transitions", averages("novel")),
    )


def sweep_series(label: str, followed: Sequence[Followed], quantity: PerSentence) -> Series:
    """A quantity's mean and interval after each sweep; energies from the start on."""
    first = 0 if quantity == "energy" else 1
    sweeps = range(first, followed[0].walk.local.shape[2])
    found = [average([one.during(slice(k, k + 1)) for one in followed], quantity) for k in sweeps]
    return Series(label, sweeps, *_columns(found))


def bleu_series(label: str, followed: Sequence[Followed]) -> Series:
    """BLEU at the start and after each sweep."""
    sweeps = range(followed[0].walk.local.shape[2])
    found = [bleu(sums([one.during(slice(k, k + 1)) for one in followed])) for k in sweeps]
    return Series(label, sweeps, *_columns(found))


def sweeps_table(series: Mapping[str, Sequence[Series]]) -> Table:
    """The curves of a figure as numbers, sweep by sweep; the start is sweep 0."""
    columns = ["sweep", *(f"{name}, {one.label}" for name, some in series.items() for one in some)]
    curves = [dict(zip(one.x, one.y, strict=True)) for some in series.values() for one in some]
    last = max(int(x) for curve in curves for x in curve)
    rows = [(sweep, *(curve.get(sweep) for curve in curves)) for sweep in range(last + 1)]
    return Table("sweep by sweep", tuple(columns), rows)


def _columns(estimates: Sequence[Estimate]) -> tuple[list[float], list[float], list[float]]:
    values, low, high = np.array([(one.value, one.low, one.high) for one in estimates]).T.tolist()
    return values, low, high


def _half(estimate: Estimate) -> float:
    return (estimate.high - estimate.low) / 2
