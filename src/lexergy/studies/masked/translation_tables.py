"""How the studies of translations print and draw their samplers."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from lexergy.core.estimation.findings import Estimate
from lexergy.core.mcmc.diagnostics import MIXED_R_HAT
from lexergy.report.figures.picture import Panel, Series
from lexergy.report.table import Cell, Table
from lexergy.studies.masked.translation import (
    LABELS,
    Kind,
    Quantity,
    Sampler,
    Seen,
    average,
    bleu,
    during,
    mixed,
    started,
)
from lexergy.tasks.masked.starts import DISPERSED

ENERGY_AXIS = "local energy, nats per sentence"


class Printed(NamedTuple):
    """The thesis's numbers; its energies are sums over its data, in thousands of nats."""

    energy: float | None
    novel: float
    bleu: float | None


def samplers_table(evidence: Sequence[Seen], heading: str, rows: Mapping[tuple[str, Sampler], Printed]) -> Table:
    """Energy, mixing, novel transitions and BLEU of samplers; `±` is half of a 95 % interval."""
    columns = (
        *(heading, "sampler", "E_norm, nats per sentence", "± ", "E_norm x 1e-3, thesis"),
        *("median R-hat", f"sentences above {MIXED_R_HAT:g}"),
        *("accepted", "novel", "novel, thesis", "BLEU", "±  ", "BLEU, thesis"),
    )
    cells: list[tuple[Cell, ...]] = []
    for (label, sampler), printed in rows.items():
        energy, score = average(evidence, sampler, "energy"), bleu(evidence, sampler)
        accepted, novel = average(evidence, sampler, "acceptance").value, average(evidence, sampler, "novel").value
        cells.append(
            (
                *(label, LABELS[sampler.kind], energy.value, energy.half_width, printed.energy),
                *mixed(evidence, sampler),
                *(accepted, novel, printed.novel, score.value, score.half_width, printed.bleu),
            )
        )
    return Table("samplers after the burn-in", columns, cells)


def starts_table(evidence: Sequence[Seen], heading: str, rows: Iterable[tuple[str, Sampler]]) -> Table:
    """What the chains of each start ended with: alike where they have mixed."""
    by_start = {name: started(evidence, chain) for chain, name in enumerate(DISPERSED)}
    columns = (
        *(heading, "sampler", *(f"E_norm, {name}" for name in by_start)),
        *(f"BLEU, {name}" for name in by_start),
    )
    cells: list[tuple[Cell, ...]] = [
        (
            *(label, LABELS[sampler.kind]),
            *(average(seen, sampler, "energy").value for seen in by_start.values()),
            *(bleu(seen, sampler).value for seen in by_start.values()),
        )
        for label, sampler in rows
    ]
    return Table("by the chains' start", columns, cells)


def points_panel(
    xlabel: str, ylabel: str, categories: Sequence[str], estimates: Mapping[str, Sequence[Estimate]]
) -> Panel:
    """Estimates with their intervals, one per category, for each label."""
    places = range(len(categories))
    series = tuple(Series.of(label, places, points, "points") for label, points in estimates.items())
    return Panel(xlabel, ylabel, series, categories=tuple(categories))


def panels_by(
    evidence: Sequence[Seen], xlabel: str, categories: Sequence[str], samplers: Mapping[Kind, Sequence[Sampler]]
) -> tuple[Panel, ...]:
    """BLEU, energy and novel rate of each kind of sampler, setting by setting."""

    def panel(ylabel: str, estimate: Callable[[Sampler], Estimate]) -> Panel:
        estimates = {LABELS[kind]: [estimate(sampler) for sampler in kinds] for kind, kinds in samplers.items()}
        return points_panel(xlabel, ylabel, categories, estimates)

    return (
        panel("BLEU", lambda sampler: bleu(evidence, sampler)),
        panel(ENERGY_AXIS, lambda sampler: average(evidence, sampler, "energy")),
        panel("novel transitions", lambda sampler: average(evidence, sampler, "novel")),
    )


def by_sweep(
    evidence: Sequence[Seen], samplers: Iterable[Sampler], quantity: Quantity | Literal["bleu"]
) -> list[Series]:
    """A number and its interval after each sweep; energies and BLEU from the start on."""

    def estimate(sampler: Sampler, sweep: int) -> Estimate:
        there = during(evidence, slice(sweep, sweep + 1))
        return bleu(there, sampler) if quantity == "bleu" else average(there, sampler, quantity)

    series = []
    for sampler in samplers:
        end = evidence[0][sampler].walk.local.shape[2]
        sweeps = range(0 if quantity in ("energy", "bleu") else 1, end)
        estimates = [estimate(sampler, sweep) for sweep in sweeps]
        series.append(Series.of(LABELS[sampler.kind], sweeps, estimates))
    return series


def sweeps_table(series: Mapping[str, Sequence[Series]]) -> Table:
    """The curves of a figure as numbers, sweep by sweep; the start is sweep 0."""
    columns = ["sweep", *(f"{name}, {line.label}" for name, lines in series.items() for line in lines)]
    curves = [dict(zip(line.x, line.y, strict=True)) for lines in series.values() for line in lines]
    last = max(int(x) for curve in curves for x in curve)
    rows = [(sweep, *(curve.get(sweep) for curve in curves)) for sweep in range(last + 1)]
    return Table("sweep by sweep", tuple(columns), rows)
