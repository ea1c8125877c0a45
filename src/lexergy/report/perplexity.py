"""Perplexities as a table and plain sentences, the same on the terminal and on a run's page."""

import math
from collections.abc import Mapping

from lexergy.core.estimation.perplexity import ExactPerplexity, PerplexityEstimate
from lexergy.report.numbers import fixed, percent
from lexergy.report.table import Cell, Table

SIDE_BY_SIDE = 3  # models
# Of many models, and under a shorter name where there is one.
MAIN_COLUMNS = {"perplexity": "", "gain": "", "nats per token": "", "bounds gap": "gap", "ESS": "", "k-hat": ""}


def perplexity_table(
    estimates: Mapping[str, PerplexityEstimate], baselines: Mapping[str, ExactPerplexity] | None = None
) -> Table:
    """The frozen LM, baselines, and each energy's joint model: interval, gain, and how far to trust the weights."""
    first = next(iter(estimates.values()))
    rows: list[tuple[Cell, ...]] = [("frozen LM", fixed(first.base), *[""] * 8)]
    rows += [_baseline_row(name, baseline) for name, baseline in (baselines or {}).items()]
    for name, estimate in estimates.items():
        rows.append(
            (
                "joint model" if len(estimates) == 1 else f"joint model, {name}",
                f"{fixed(estimate.lower)} - {fixed(estimate.upper)}",
                fixed(estimate.std_error),
                percent(relative_gain(estimate)),
                _nats(estimate),
                percent(bounds_gap(estimate), digits=2),
                fixed(estimate.ess, 1),
                fixed(estimate.pareto_k),
                str(estimate.num_windows),
                str(estimate.num_samples),
            )
        )
    columns = (
        "",
        "perplexity",
        "std. error",
        "gain",
        "nats per token",
        "bounds gap",
        "ESS",
        "k-hat",
        "windows",
        "samples",
    )
    return Table("perplexity", columns, rows)


def _baseline_row(name: str, baseline: ExactPerplexity) -> tuple[str, ...]:
    gain = percent(1 - math.exp(-baseline.gain))
    cells = (fixed(baseline.perplexity), fixed(baseline.std_error), gain, _nats(baseline))
    return (f"baseline, {name}", *cells, *[""] * 3, str(baseline.num_windows), "")


def _nats(model: PerplexityEstimate | ExactPerplexity) -> str:
    return f"{fixed(model.gain, 3)} ± {fixed(model.gain_std_error, 3)}"


def terminal_table(estimates: Mapping[str, PerplexityEstimate], baselines: Mapping[str, ExactPerplexity]) -> Table:
    """What fits 80 columns: few models side by side with all numbers, many below each other with the main ones."""
    table = perplexity_table(estimates, baselines)
    if len(table.rows) <= SIDE_BY_SIDE:
        return table.transposed
    kept = table.select([0, *(table.columns.index(column) for column in MAIN_COLUMNS)])
    heads = ("", *(short or column for column, short in MAIN_COLUMNS.items()))
    return Table(table.name, heads, [(str(name).rpartition(", ")[2], *cells) for name, *cells in kept.rows])


def headlines(estimates: Mapping[str, PerplexityEstimate]) -> list[str]:
    """The result of each energy in a sentence; of many, the table tells more than as many sentences.

    Where there is one energy only, its name says nothing.
    """
    if len(estimates) > SIDE_BY_SIDE:
        first = next(iter(estimates.values()))
        return [
            f"On {first.num_windows} held-out windows the frozen LM's perplexity is {fixed(first.base)}; "
            f"those of {len(estimates)} joint models are in the table."
        ]
    return [
        _headline("the joint model" if len(estimates) == 1 else f"the joint model with “{name}”", estimate)
        for name, estimate in estimates.items()
    ]


def verdicts(estimates: Mapping[str, PerplexityEstimate]) -> list[str]:
    """What k-hat and the effective sample size say about each interval, in plain words."""
    if len(estimates) > SIDE_BY_SIDE:
        return [_verdict_on_many(estimates)]
    return [("" if len(estimates) == 1 else f"{name}: ") + _verdict(estimate) for name, estimate in estimates.items()]


def _verdict_on_many(estimates: Mapping[str, PerplexityEstimate]) -> str:
    first = next(iter(estimates.values()))
    doubtful = [name for name, estimate in estimates.items() if not estimate.pareto_k <= estimate.pareto_k_threshold]
    threshold = fixed(first.pareto_k_threshold)
    where = f"{first.num_windows} windows, {first.num_samples} samples each"
    if not doubtful:
        return f"{where}: k-hat is no more than {threshold} for all of them, the samples suffice for a typical window."
    return (
        f"{where}: k-hat is above {threshold} (or cannot be told) for {', '.join(doubtful)}: a few samples carry most "
        "of the weight there, so treat these intervals with caution and draw more samples."
    )


def _headline(model: str, estimate: PerplexityEstimate) -> str:
    gain = relative_gain(estimate)
    if not math.isfinite(gain):
        return (
            f"The weights of the {estimate.num_samples} samples per window are too uneven to bound the "
            f"perplexity of {model}; the frozen LM's is {fixed(estimate.base)}. Draw more samples."
        )
    change = f"{percent(abs(gain))} {'lower' if gain > 0 else 'higher'}, pessimistically"
    return (
        f"On {estimate.num_windows} held-out windows the perplexity of {model} is between "
        f"{fixed(estimate.lower)} and {fixed(estimate.upper)}; "
        f"the frozen LM's is {fixed(estimate.base)}: {change}."
    )


def _verdict(estimate: PerplexityEstimate) -> str:
    threshold = estimate.pareto_k_threshold
    worth = (
        f"The {estimate.num_samples} weighted samples of a window are worth "
        f"{fixed(estimate.ess, 1)} equally weighted ones"
    )
    if math.isnan(estimate.pareto_k):
        trust = "there are too few of them to judge the tail of their weights: draw at least 25 per window"
    elif estimate.pareto_k > threshold:
        trust = (
            f"k-hat {fixed(estimate.pareto_k)} is above {fixed(threshold)}: a few samples "
            "carry most of the weight, so treat the interval with caution and draw more samples"
        )
    else:
        trust = (
            f"k-hat {fixed(estimate.pareto_k)} is no more than {fixed(threshold)}: "
            f"{estimate.num_samples} samples per window suffice"
        )
        if estimate.pareto_k_above > 0:
            trust += f" for a typical window, though not for {percent(estimate.pareto_k_above, digits=0)} of them"
    return f"{worth}; {trust}."


def relative_gain(estimate: PerplexityEstimate) -> float:
    """By which share the pessimistic perplexity lies below the frozen LM's."""
    return 1 - estimate.upper / estimate.base


def bounds_gap(estimate: PerplexityEstimate) -> float:
    """How far apart the two ends are, as a share of the optimistic one."""
    return estimate.upper / estimate.lower - 1
