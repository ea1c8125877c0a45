"""`lexergy perplexity`: the run's stored estimate, or a fresh one."""

from typing import TYPE_CHECKING, Annotated

import typer

from lexergy.cli.engines import on_engine
from lexergy.cli.options import Json, Method, MethodChoice, RunFolder, at_least, choose_energy
from lexergy.cli.render import print_json, print_paragraphs, print_table
from lexergy.cli.summary import CORRECTIONS_TITLE, PERPLEXITY_TITLE, perplexity_record
from lexergy.errors import LexergyError

if TYPE_CHECKING:
    from lexergy.core.estimation.perplexity import PerplexityEstimate
    from lexergy.runs.records import RunResult


NumSamples = Annotated[
    int | None,
    typer.Option(
        "--samples",
        help="Estimate again with so many samples per window.",
        show_default="read the stored result",
        callback=at_least(2, "leave it out to read the stored result"),
    ),
]
NumRuns = Annotated[
    int | None,
    typer.Option(
        "--runs",
        help="With --method smc: so many runs of --samples particles each, and one beside the window's own text.",
        show_default="4",
        callback=at_least(2, "4 is a good start"),
    ),
]
NumWindows = Annotated[
    int | None,
    typer.Option(
        "--windows",
        help="With --samples: how many test windows, evenly over the documents.",
        show_default="as in the run",
        callback=at_least(1, "leave it out for as many as in the run"),
    ),
]
OnlyEnergy = Annotated[
    str | None, typer.Option("--energy", help="Which of the run's energies to use.", show_default="all of them")
]
SeedOfSamples = Annotated[
    int | None,
    typer.Option(
        "--seed",
        help="With --samples: the same seed gives the same result.",
        show_default="0",
        callback=at_least(0, "any whole number from 0 will do"),
    ),
]


@on_engine
def perplexity(
    run: RunFolder,
    samples: NumSamples = None,
    windows: NumWindows = None,
    energy: OnlyEnergy = None,
    seed: SeedOfSamples = None,
    method: Method = MethodChoice.IMPORTANCE,
    runs: NumRuns = None,
    as_json: Json = False,
) -> None:
    """Perplexity: frozen LM beside joint model.

    The joint model's is at most the bound of what it draws from as many candidates (Lawson et al. 2019); quote this
    one. Beside it stands an estimate (Theorem 2, Deng et al. 2020), and whether to rely on it. Without --samples the
    stored result is read.

    Examples:

    \b
      lexergy perplexity runs/quickstart
      lexergy perplexity runs/quickstart --samples 1000 --windows 16 --json
      lexergy perplexity runs/quickstart --samples 32 --method smc --runs 4 --windows 16
    """
    _check(samples, windows, seed, method, runs)
    from lexergy.runs.records import load_run

    result = load_run(run)
    names = list(result.energies) if energy is None else [choose_energy(result, energy)]
    if samples is None:
        estimates = {name: result.energies[name].perplexity for name in names}
    else:
        num_windows = _num_windows(result, windows)
        from lexergy.recipes.residual import SMC_RUNS
        from lexergy.tasks.residual.evaluate import evaluate_again

        num_runs = (runs or SMC_RUNS) if method == MethodChoice.SMC else None
        estimates = evaluate_again(result, names, num_windows, samples, seed or 0, num_runs=num_runs)
    if as_json:
        record = {"energies": {name: perplexity_record(estimate) for name, estimate in estimates.items()}}
        print_json(record | ({"corrections": result.corrections} if result.corrections else {}))
    else:
        _print(result, estimates)


def _check(samples: int | None, windows: int | None, seed: int | None, method: MethodChoice, runs: int | None) -> None:
    by_smc = method == MethodChoice.SMC
    if runs is not None and not by_smc:
        raise LexergyError(f"`--runs` is {runs} without `--method smc`; expected both; leave it out.")
    given = {"--windows": windows is not None, "--seed": seed is not None, "--method smc": by_smc}
    wrong = next((option for option, is_given in given.items() if is_given), None)
    if samples is None and wrong is not None:
        raise LexergyError(
            f"`{wrong}` was given without `--samples`; expected both, since the stored result is only read; "
            "add `--samples 64` to estimate again."
        )


def _num_windows(result: "RunResult", asked: int | None) -> int:
    """How many test windows to use: as many as the run did, unless told."""
    available = result.corpus.windows["test"]
    if asked is not None and asked > available:
        raise LexergyError(
            f"`--windows` is {asked}; the run {result.folder} has {available} test windows; ask for no more."
        )
    return asked or next(iter(result.energies.values())).perplexity.num_windows


def _print(result: "RunResult", estimates: "dict[str, PerplexityEstimate]") -> None:
    from lexergy.report.perplexity import base_label, corrections_table, headlines, perplexity_table, verdicts

    base, corrections = base_label(result.recipe), corrections_table(result)
    if corrections is not None:
        print_table(CORRECTIONS_TITLE, corrections.columns, corrections.texts)
    table = perplexity_table(estimates, base=base).transposed
    print_table(PERPLEXITY_TITLE, table.columns, table.texts)
    print_paragraphs(*headlines(estimates, base), *verdicts(estimates))
