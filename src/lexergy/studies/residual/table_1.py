"""Table 1: the perplexity of every model."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as parquet

from lexergy.core.estimation.findings import Estimate, Finding, Groups, above, between, mean, mean_difference, similar
from lexergy.core.estimation.perplexity import PerplexityEstimate
from lexergy.errors import LexergyError
from lexergy.recipes.sections.local_residuals import RESIDUAL_PERPLEXITY
from lexergy.report.figures.picture import Panel, Series
from lexergy.report.pages.study import Conclusion
from lexergy.report.table import Cell, Table
from lexergy.runs.columns import from_column
from lexergy.runs.records import BARE, BASE_TOKENS, TOKENS_FILE, EnergyResult, RunResult, token_column
from lexergy.studies.residual.workspace import PAPER, RUN, Evidence, StudiedRun, documents, usual_sizes
from lexergy.studies.study import Study
from lexergy.tasks.residual.parameters import count_parameters

SIMILAR = 0.02  # nats per token, two per cent of the perplexity; the paper's rows are up to 0.01 apart
NATS = "nats per token"
BASE = "base LM"
# Parameters, then perplexity or optimistic-pessimistic: CC-News validation and test, Book Corpus validation and test.
PRINTED: dict[int, dict[str, tuple[str, ...]]] = {
    12: {
        BASE: ("203M", "18.41", "17.57", "16.16", "18.29"),
        "RALM": ("LM+203M", "17.01", "16.17", "15.71", "17.85"),
        "BALM": ("408M", "16.50", "15.74", "15.00", "16.99"),
        "joint UniT": ("LM+203M", "16.42-16.44", "15.57-15.58", "15.12-15.13", "16.98-17.00"),
        "joint BiT-Base": ("LM+125M", "15.32-15.35", "14.61-14.64", "", ""),
        "joint BiT-Base*": ("LM+125M", "15.11-15.17", "14.37-14.42", "14.14-14.16", "15.72-15.74"),
        "joint BiT-Large*": ("LM+355M", "14.59-14.61", "13.97-14.00", "13.80-13.83", "15.33-15.36"),
    },
    24: {
        BASE: ("203M", "15.71", "14.89", "15.61", "18.14"),
        "RALM": ("LM+203M", "15.70", "14.89", "15.63", "18.17"),
        "BALM": ("408M", "14.58", "13.92", "15.20", "18.24"),
        "joint UniT": ("LM+203M", "14.59-14.61", "13.81-13.82", "15.12-15.16", "17.46-17.48"),
        "joint BiT-Base": ("LM+125M", "13.68-13.69", "13.01-13.03", "", ""),
        "joint BiT-Base*": ("LM+125M", "13.60-13.62", "12.93-12.95", "14.11-14.12", "16.17-16.18"),
        "joint BiT-Med": ("LM+203M", "12.97-13.01", "12.38-12.42", "", ""),
        "joint BiT-Large*": ("LM+355M", "12.71-12.77", "12.10-12.16", "13.30-13.34", "15.17-15.22"),
    },
}
TEST_COLUMNS = (2, 4)


class Row(NamedTuple):
    """A model in all runs: its perplexity and its gain over the base LM; of a joint model at most, and at least."""

    name: str
    paper_name: str  # of the row to put beside it
    parameters: str  # as the paper writes them
    perplexities: list[float]
    std_errors: list[float]
    gains: list[np.ndarray]  # (N,) per run: nats per token of each window
    most: list[np.ndarray]  # (N,) per run: the gain at most, of a joint model
    estimates: tuple[PerplexityEstimate, ...] = ()  # of a joint model

    def average(self, number: str) -> float | None:
        """A number of the estimates, over the runs."""
        return float(np.mean([getattr(estimate, number) for estimate in self.estimates])) if self.estimates else None


def _rows(evidence: Sequence[Evidence]) -> list[Row]:
    runs = [seen.run for seen in evidence]
    counts = count_parameters(runs[0].recipe)
    corrected = [_corrected_row(runs)] if runs[0].corrections else []
    baselines = [_baseline_row(runs, name, counts[name]) for name in runs[0].baselines]
    joints = [_joint_row(runs, name, counts[name]) for name in runs[0].energies]
    return [_base_row(runs, counts["lm"]), *corrected, *baselines, *joints]


def _millions(count: int) -> str:
    """`203M`, `0.21M`."""
    return f"{count / 1e6:.3g}M"


def _base_row(runs: Sequence[RunResult], count: int) -> Row:
    """The LM as it was found or trained: without its local residuals, where it has any."""
    perplexities = [
        run.corrections["test"][BARE].perplexity
        if run.corrections
        else next(iter(run.energies.values())).perplexity.base
        for run in runs
    ]
    return Row(BASE, BASE, _millions(count), perplexities, [math.nan] * len(runs), [], [])


def _corrected_row(runs: Sequence[RunResult]) -> Row:
    """The LM times its local residuals, normalised at every token: RALM (Eq. 6) by other means than a second LM."""
    *_, last = runs[0].corrections["test"]
    results = [run.corrections["test"][last] for run in runs]
    gains = [_corrected_gains(run) for run in runs]
    return Row(
        name="local residuals",
        paper_name="RALM",
        parameters="LM+counts",
        perplexities=[result.perplexity for result in results],
        std_errors=[result.std_error for result in results],
        gains=gains,
        most=gains,
    )


def _corrected_gains(run: RunResult) -> np.ndarray:  # (N,)
    """What local residuals gain over the frozen LM, nats per token of each window; nothing where there are none."""
    if not run.corrections:
        return np.zeros(1)
    path, (*_, last) = run.folder / RESIDUAL_PERPLEXITY / TOKENS_FILE, run.corrections["test"]
    if not path.exists():
        raise LexergyError(
            f"{path.parent} was measured before it kept the log-probability of each token; remove that folder and run "
            "the recipe again, which takes a minute."
        )
    table = parquet.read_table(path)
    own, bare = (from_column(table.column(token_column(model))) for model in (last, BARE))  # (N, C)
    return (own - bare).mean(1)


def _baseline_row(runs: Sequence[RunResult], name: str, count: int) -> Row:
    results = [run.baselines[name] for run in runs]
    gains = [_corrected_gains(run) + _baseline_gains(run, name) for run in runs]
    return Row(
        name=name,
        paper_name=results[0].kind.upper(),
        parameters=f"LM+{_millions(count)}" if results[0].kind == "ralm" else _millions(count),
        perplexities=[result.perplexity for result in results],
        std_errors=[result.std_error for result in results],
        gains=gains,
        most=gains,
    )


def _baseline_gains(run: RunResult, name: str) -> np.ndarray:  # (N,)
    table = parquet.read_table(run.folder / "baselines" / TOKENS_FILE)
    own, base = (from_column(table.column(token_column(model))) for model in (name, BASE_TOKENS))  # (N, C)
    return (own - base).mean(1)


def _joint_row(runs: Sequence[RunResult], name: str, count: int) -> Row:
    results = [run.energies[name] for run in runs]
    estimates = tuple(result.perplexity for result in results)
    return Row(
        name=f"joint {name}",
        paper_name=_paper_name(results[0]),
        parameters=f"LM+{_millions(count)}",
        perplexities=[estimate.bound for estimate in estimates],
        std_errors=[estimate.std_error for estimate in estimates],
        gains=[_corrected_gains(run) + joint_gains(run, name) for run in runs],
        most=[_corrected_gains(run) + _most(estimate) for run, estimate in zip(runs, estimates, strict=True)],
        estimates=estimates,
    )


def joint_gains(run: RunResult, name: str) -> np.ndarray:  # (N,)
    """What the joint model gains at least, by the density of what it draws from as many candidates."""
    estimate = run.energies[name].perplexity
    return estimate.windows.gain.numpy() / estimate.continuation_length


def _most(estimate: PerplexityEstimate) -> np.ndarray:  # (N,)
    """And at most."""
    return estimate.windows.optimistic_gain.numpy() / estimate.continuation_length


def _paper_name(result: EnergyResult) -> str:
    """The paper's row of an energy; "" for kinds that the paper has not.

    Heads on the LM's states read left to right, as UniT does, and those on an encoder's both ways, as BiT* does.
    """
    if result.kind in ("encoder", "fitted_encoder"):
        return "joint BiT-Large*" if "large" in result.name else "joint BiT-Base*"
    if result.kind == "bit":
        return "joint BiT-Med" if "med" in result.name else "joint BiT-Base"
    return "joint UniT" if result.kind in ("unit", "states", "fitted_states") else ""


def conclude(evidence: Sequence[Evidence], layers: int = 12) -> Conclusion:
    """Our rows beside that half of the paper's table, and its findings."""
    rows, groups = _rows(evidence), documents(evidence)
    return Conclusion(
        tables=(_our_table(rows, layers, groups), _paper_table()),
        panels=(_panel(rows),),
        findings=tuple(_findings(rows, groups)),
    )


def _findings(rows: Sequence[Row], groups: Groups) -> Iterator[Finding]:
    """Those whose models are in the recipe; of several rows of a kind the first one counts."""
    kinds = {row.paper_name: row for row in reversed(rows)}
    ralm, balm, unit = (kinds.get(name) for name in ("RALM", "BALM", "joint UniT"))
    bit = kinds.get("joint BiT-Base") or kinds.get("joint BiT-Med") or kinds.get("joint BiT-Base*")

    def above_base(row: Row, name: str) -> Finding:
        estimate = between(mean(row.gains, groups=groups), mean(row.most, groups=groups))
        return above(f"{name} has a lower perplexity than the base LM.", f"gain, {NATS}", estimate)

    def beyond(joint: Row, exact: Row) -> Estimate:
        return between(*(mean_difference(gains, exact.gains, groups=groups) for gains in (joint.gains, joint.most)))

    for row, name in ((ralm, "RALM"), (unit, "Joint UniT"), (bit, "Joint BiT")):
        if row:
            yield above_base(row, name)
    if unit and bit:
        sentence = "Joint BiT has a lower perplexity than joint UniT, by what either is at most."
        estimate = mean_difference(bit.gains, unit.gains, groups=groups)
        yield above(sentence, f"gain of BiT - gain of UniT, {NATS}", estimate)
    if unit and ralm:
        sentence = "Joint UniT has a lower perplexity than RALM."
        yield above(sentence, f"gain of UniT - gain of RALM, {NATS}", beyond(unit, ralm))
    if unit and balm:
        sentence = f"BALM performs similarly to joint UniT (within {SIMILAR} {NATS})."
        yield similar(sentence, f"gain of UniT - gain of BALM, {NATS}", beyond(unit, balm), SIMILAR)


def _our_table(rows: Sequence[Row], layers: int, groups: Groups) -> Table:
    columns = (
        "model",
        "parameters",
        "perplexity (joint: at most)",
        "std. error",
        "gain (%)",
        f"gain ({NATS})",
        "low",
        "high",
        "estimate, optimistic",
        "pessimistic",
        "ESS",
        "k-hat",
        "paper's row",
        "its parameters",
        "paper, CC-News test",
        "its gain (%)",
        "paper, Book Corpus test",
        "its gain there (%)",
    )
    base = float(np.mean(rows[0].perplexities))
    return Table("perplexity", columns, [_our_cells(row, base, groups) + _paper_cells(row, layers) for row in rows])


def _our_cells(row: Row, base: float, groups: Groups) -> tuple[Cell, ...]:
    perplexity = float(np.mean(row.perplexities))
    gains: tuple[Cell, ...] = (None,) * 4
    if row.gains:
        gains = (100 * (1 - perplexity / base), *mean(row.gains, groups=groups))
    estimate = (row.average(number) for number in ("lower", "upper", "ess", "pareto_k"))
    return (row.name, row.parameters, perplexity, _std_error(row), *gains, *estimate)


def _std_error(row: Row) -> float:
    """Of the perplexity: over the seeds, or over the documents where there is one seed."""
    count = len(row.perplexities)
    return row.std_errors[0] if count == 1 else float(np.std(row.perplexities, ddof=1) / np.sqrt(count))


def _paper_cells(row: Row, layers: int) -> tuple[Cell, ...]:
    """The paper's row and, on either corpus, its test perplexity and what that is below the paper's base LM."""
    numbers = PRINTED[layers].get(row.paper_name)
    if numbers is None:
        return ("", "", "", None, "", None)
    cells: list[Cell] = [row.paper_name, numbers[0]]
    for column in TEST_COLUMNS:
        base, shown = PRINTED[layers][BASE][column], numbers[column]
        gain = 100 * (1 - _pessimistic(shown) / _pessimistic(base)) if shown and row.name != BASE else None
        cells += [shown, gain]
    return tuple(cells)


def _pessimistic(shown: str) -> float:
    return float(shown.split("-")[-1])


def _paper_table() -> Table:
    columns = (
        "model",
        "layers of the LM",
        "parameters",
        "CC-News validation",
        "CC-News test",
        "Book Corpus validation",
        "Book Corpus test",
    )
    rows: list[tuple[Cell, ...]] = [
        (name, layers, *numbers) for layers, models in PRINTED.items() for name, numbers in models.items()
    ]
    return Table("the paper's Table 1", columns, rows)


def _panel(rows: Sequence[Row]) -> Panel:
    middle = [float(np.mean(row.perplexities)) for row in rows]
    errors = [0.0 if np.isnan(_std_error(row)) else _std_error(row) for row in rows]
    return Panel(
        xlabel="",
        ylabel="perplexity ± std. error (joint: at most)",
        series=(
            Series(
                "",
                range(len(rows)),
                middle,
                [value - error for value, error in zip(middle, errors, strict=True)],
                [value + error for value, error in zip(middle, errors, strict=True)],
                style="points",
            ),
        ),
        categories=tuple(row.name for row in rows),
        reference=middle[0],
    )


STUDY = Study(
    title="Perplexity of base LM, RALM, BALM and joint models",
    part="Table 1 and Section 4.2",
    paper=PAPER,
    method=(
        "Perplexity of people's held-out continuations: the joint models' what it is at most when drawn from as many "
        "candidates as there are samples (Lawson et al. 2019), which holds whatever the weights; the others' exact. "
        "Beside it the estimate between the bounds of Eq. 4. Gains are over the base LM, paired by window, and those "
        "of joint models what they are at least, up to the optimistic end of Eq. 4 where that would decide; two joint "
        "models are compared by what either is at most, which is a statement about their samplers. Standard "
        "errors are over documents, or over seeds where there are several. "
        "The paper, which draws far more samples, gives the bounds of Eq. 4; its gains "
        "are those of its own base LM, so that they can be compared with ours, which its perplexities cannot: "
        "corpus, tokens and sizes differ at cpu size. Where the recipe corrects its LM by local residuals, the base "
        "LM is the one without them, they stand in RALM's row, and energies are on top of them; heads on the LM's "
        "states stand in UniT's row, heads on an encoder in BiT*'s."
    ),
    sizes=usual_sizes(),
    workspace=RUN,
    examine=StudiedRun.found,
    conclude=conclude,
)
