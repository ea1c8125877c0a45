"""Perplexities as a table and plain sentences, the same on the terminal and on a run's page."""

import math
from collections.abc import Mapping

from lexergy.core.estimation.perplexity import ExactPerplexity, PerplexityEstimate
from lexergy.recipes.residual import ResidualRecipe
from lexergy.report.numbers import fixed, percent
from lexergy.report.table import Cell, Table
from lexergy.runs.records import BARE, RunResult

FROZEN = "frozen LM"
SIDE_BY_SIDE = 3  # models
CORRECTION_COLUMNS = ("", "validation", "test", "std. error", "gain", "nats per token")
MAIN_COLUMNS = ("perplexity", "at most", "gain", "nats per token", "ESS", "k-hat")  # of many models
COLUMNS = (
    "",
    "perplexity",
    "at most",
    "std. error",
    "gain",
    "nats per token",
    "estimate",
    "ESS",
    "k-hat",
    "documents",
    "windows",
    "samples",
)


def base_label(recipe: ResidualRecipe) -> str:
    """What the base LM of a run is called."""
    return "corrected LM" if recipe.lm.residual else FROZEN


def corrections_table(result: RunResult) -> Table | None:
    """What each local residual adds to those before it, on validation and test windows; None where there is none."""
    if not result.corrections:
        return None
    validation, test = result.corrections["validation"], result.corrections["test"]
    rows: list[tuple[Cell, ...]] = []
    for name, own in test.items():
        is_bare = name == BARE
        gain = ("", "") if is_bare else (percent(1 - math.exp(-own.gain)), _nats(own))
        label = FROZEN if is_bare else f"+ {name}"
        rows.append((label, fixed(validation[name].perplexity), fixed(own.perplexity), fixed(own.std_error), *gain))
    return Table("corrections", CORRECTION_COLUMNS, rows)


def gains_in_all(result: RunResult) -> list[str]:
    """What local residuals and each energy make of the frozen LM together; nothing where it is not corrected."""
    if not result.corrections:
        return []
    frozen = result.corrections["test"][BARE].perplexity
    return [
        f"{'The joint model' if len(result.estimates) == 1 else f'The joint model, {name},'} is at most "
        f"{fixed(estimate.bound)} where the frozen LM is {fixed(frozen)}: {percent(1 - estimate.bound / frozen)} less, "
        "by local residuals and energy together."
        for name, estimate in result.estimates.items()
        if math.isfinite(estimate.bound)
    ]


def perplexity_table(
    estimates: Mapping[str, PerplexityEstimate],
    baselines: Mapping[str, ExactPerplexity] | None = None,
    base: str = FROZEN,
) -> Table:
    """The base LM, baselines, and each energy's joint model: bound, gain by the bound, and Theorem 2's estimate."""
    first = next(iter(estimates.values()))
    rows: list[tuple[Cell, ...]] = [(base, fixed(first.base), *[""] * (len(COLUMNS) - 2))]
    rows += [_baseline_row(name, baseline) for name, baseline in (baselines or {}).items()]
    for name, estimate in estimates.items():
        rows.append(
            (
                "joint model" if len(estimates) == 1 else f"joint model, {name}",
                "",
                fixed(estimate.bound),
                fixed(estimate.std_error),
                percent(relative_gain(estimate)),
                _nats(estimate),
                f"{fixed(estimate.lower)} - {fixed(estimate.upper)}",
                fixed(estimate.ess, 1),
                fixed(estimate.pareto_k),
                str(estimate.num_documents),
                str(estimate.num_windows),
                _samples(estimate),
            )
        )
    return Table("perplexity", COLUMNS, rows)


def _samples(estimate: PerplexityEstimate) -> str:
    """How many; of runs of SMC, how many particles each has, and how many of the first ones have descendants."""
    if estimate.num_particles == 1:
        return str(estimate.num_samples)
    ancestors = "" if estimate.num_ancestors is None else f", {fixed(estimate.num_ancestors, 1)} ancestors"
    return f"{estimate.num_samples} x {estimate.num_particles} (SMC{ancestors})"


def _baseline_row(name: str, baseline: ExactPerplexity) -> tuple[str, ...]:
    gain = percent(1 - math.exp(-baseline.gain))
    cells = (fixed(baseline.perplexity), "", fixed(baseline.std_error), gain, _nats(baseline))
    return (f"baseline, {name}", *cells, *[""] * 3, str(baseline.num_documents), str(baseline.num_windows), "")


def _nats(model: PerplexityEstimate | ExactPerplexity) -> str:
    return f"{fixed(model.gain, 3)} ± {fixed(model.gain_std_error, 3)}"


def full_table(
    estimates: Mapping[str, PerplexityEstimate], baselines: Mapping[str, ExactPerplexity], base: str = FROZEN
) -> Table:
    """All numbers: of few models side by side, of many below each other."""
    table = perplexity_table(estimates, baselines, base)
    return table.transposed if len(table.rows) <= SIDE_BY_SIDE else table


def terminal_table(
    estimates: Mapping[str, PerplexityEstimate], baselines: Mapping[str, ExactPerplexity], base: str = FROZEN
) -> Table:
    """What fits 80 columns: few models side by side with all numbers, many below each other with the main ones."""
    table = full_table(estimates, baselines, base)
    if len(estimates) + len(baselines) < SIDE_BY_SIDE:
        return table
    kept = table.select([0, *(table.columns.index(column) for column in MAIN_COLUMNS)])
    return Table(table.name, kept.columns, [(str(name).rpartition(", ")[2], *cells) for name, *cells in kept.rows])


def unmeasured(result: RunResult) -> list[str]:
    """What is known of energies whose perplexity was not measured."""
    told = [
        f"The energy “{name}” tells people's text from the LM's in {percent(energy.best_validation['accuracy'])} of "
        "validation pairs (50 % would be chance)."
        for name, energy in result.energies.items()
        if energy.measured is None and "accuracy" in energy.best_validation
    ]
    return [] if result.estimates else ["The recipe has `perplexity: null`: no perplexity was measured.", *told]


def headlines(estimates: Mapping[str, PerplexityEstimate], base: str = FROZEN) -> list[str]:
    """The result of each energy in a sentence; of many, the table tells more than as many sentences.

    Where there is one energy only, its name says nothing.
    """
    if len(estimates) > SIDE_BY_SIDE:
        first = next(iter(estimates.values()))
        return [
            f"On {first.num_windows} held-out windows the {base}'s perplexity is {fixed(first.base)}; "
            f"those of {len(estimates)} joint models are in the table."
        ]
    return [
        _headline("the joint model" if len(estimates) == 1 else f"the joint model with “{name}”", estimate, base)
        for name, estimate in estimates.items()
    ]


def verdicts(estimates: Mapping[str, PerplexityEstimate]) -> list[str]:
    """What the standard errors are over, and whether each interval can be relied on, in plain words."""
    if len(estimates) > SIDE_BY_SIDE:
        return [_verdict_on_many(estimates)]
    return [("" if len(estimates) == 1 else f"{name}: ") + _verdict(estimate) for name, estimate in estimates.items()]


def _headline(model: str, estimate: PerplexityEstimate, base: str) -> str:
    gain = relative_gain(estimate)
    if not math.isfinite(gain):
        return (
            f"Nothing bounds the perplexity of {model} on {_sample(estimate)}: the energy of some window is not "
            f"finite. The {base}'s is {fixed(estimate.base)}."
        )
    change = f"{percent(abs(gain))} {'lower' if gain > 0 else 'higher'}"
    return (
        f"On {_sample(estimate)} the perplexity of {model} is at most {fixed(estimate.bound)}; "
        f"the {base}'s is {fixed(estimate.base)}: {change}."
    )


def _verdict(estimate: PerplexityEstimate) -> str:
    bound = (
        f"“At most” holds for what the joint model draws from {_drawn_from(estimate)}, whatever the tail of the "
        f"weights ({_error_over(estimate)})."
    )
    weighted = "samples" if estimate.num_particles == 1 else "runs"
    worth = (
        f"The estimate rests on {estimate.num_samples} weighted {weighted} of a window, worth {fixed(estimate.ess, 1)} "
        "equally weighted ones"
    )
    if estimate.doubt is not None:
        return f"{bound} {worth}; {estimate.doubt}: do not rely on it, or draw more samples."
    trust = f"k-hat {fixed(estimate.pareto_k)} is no more than {fixed(estimate.pareto_k_threshold)}, they suffice"
    if estimate.pareto_k_above > 0:
        trust += f" for a typical window, though not for {percent(estimate.pareto_k_above, digits=0)} of them"
    return f"{bound} {worth}; {trust}."


def _drawn_from(estimate: PerplexityEstimate) -> str:
    if estimate.num_particles == 1:
        return f"{estimate.num_samples} candidates"
    return f"{estimate.num_samples} runs of {estimate.num_particles} particles"


def _verdict_on_many(estimates: Mapping[str, PerplexityEstimate]) -> str:
    first = next(iter(estimates.values()))
    doubtful = [name for name, estimate in estimates.items() if estimate.doubt is not None]
    where = f"{_sample(first)}, {first.num_samples} samples each; {_error_over(first)}"
    if not doubtful:
        return f"{where}: ESS and k-hat bear out all of the intervals."
    return (
        f"{where}: what a joint model is at most holds whatever the weights; do not rely on the intervals of "
        f"{', '.join(doubtful)}, where a few samples carry most of the weight, and draw more samples."
    )


def _sample(estimate: PerplexityEstimate) -> str:
    return f"{estimate.num_windows} held-out windows"


def _error_over(estimate: PerplexityEstimate) -> str:
    return f"error over {estimate.num_documents} documents"


def relative_gain(estimate: PerplexityEstimate) -> float:
    """By which share at least the joint model's perplexity lies below the frozen LM's: by the bound."""
    return 1 - estimate.bound / estimate.base
