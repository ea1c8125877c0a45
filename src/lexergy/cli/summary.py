"""What `run` and `quickstart` end with: the table, a prompt continued twice, the report, what to try next."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from lexergy.cli.render import (
    lexergy_command,
    print_json,
    print_lines,
    print_paragraphs,
    print_passage,
    print_table,
    to_plain,
)

if TYPE_CHECKING:
    from lexergy.core.estimation.perplexity import PerplexityEstimate
    from lexergy.recipes.residual import ResidualRecipe
    from lexergy.runs.records import RunResult

PERPLEXITY_TITLE = "Perplexity on held-out documents"
CORRECTIONS_TITLE = "What each local residual adds to the frozen LM"


def run_and_show(recipe: "ResidualRecipe", folder: Path, *, as_json: bool) -> None:
    """Bring the run up to date, write its report and show what came out."""
    from lexergy.report.pages.run import write_report
    from lexergy.runs.processes import is_main_process
    from lexergy.tasks.residual.run import run

    result = run(recipe, folder)
    if not is_main_process():
        return
    report = write_report(folder)
    if as_json:
        print_json(summary(result, report))
    else:
        show_summary(result, report)


def summary(result: "RunResult", report: Path) -> dict:
    """The run for programs: everything but the raw energies and histories."""
    return {
        "name": result.recipe.name,
        "folder": result.folder,
        "lm": result.recipe.lm.description,
        "report": report,
        "energies": {
            name: energy.best_validation if energy.measured is None else perplexity_record(energy.measured)
            for name, energy in result.energies.items()
        },
        "baselines": result.baselines,
        "corrections": result.corrections,
        "learning_curve": result.learning_curve,
        "generations": result.generations,
        "seconds": result.seconds,
        "corpus": result.corpus,
        "versions": result.versions,
    }


def perplexity_record(estimate: "PerplexityEstimate") -> dict:
    """An estimate as JSON, with its gain as a percentage and what speaks against its interval; no per-window arrays."""
    from lexergy.report.perplexity import relative_gain

    record = to_plain(estimate)
    del record["windows"]
    return record | {"gain_percent": 100 * relative_gain(estimate), "doubt": estimate.doubt}


def show_summary(result: "RunResult", report: Path) -> None:
    """The run for people."""
    from lexergy.report.learning_curve import growth_sentence
    from lexergy.report.perplexity import (
        base_label,
        corrections_table,
        gains_in_all,
        terminal_table,
        unmeasured,
        verdicts,
    )

    estimates, base, corrections = result.estimates, base_label(result.recipe), corrections_table(result)
    if corrections is not None:
        print_table(CORRECTIONS_TITLE, corrections.columns, corrections.texts)
    if estimates:
        table = terminal_table(estimates, result.baselines, base)
        print_table(PERPLEXITY_TITLE, table.columns, table.texts)
    told = verdicts(estimates) if estimates else unmeasured(result)
    grew = [] if result.learning_curve is None else [growth_sentence(result.learning_curve)]
    described = f"{base[0].upper()}{base[1:]}: {result.recipe.lm.description}."
    print_paragraphs(described, *gains_in_all(result), *told, *grew)
    if result.generations:
        first = result.generations[0]
        print_passage("Prompt", first.prompt)
        print_passage(f"{base[0].upper()}{base[1:]} goes on", first.base_text)
        for generation in result.generations:
            if generation.prompt == first.prompt:
                print_passage(f"Joint model ({generation.energy}) goes on", generation.joint_text)
    print_lines(f"Report: {report}", "", "Next:", *(f"  {line}" for line in next_commands(result)))


def next_commands(result: "RunResult") -> list[str]:
    """Commands that work on the run just made."""
    run, lexergy = shlex.quote(str(result.folder)), lexergy_command()
    windows = min(16, result.corpus.windows["test"])
    generate = f"{lexergy} generate {run} --prompt 'Our economy is' --show 5"
    if result.recipe.lm.is_remote:
        return [generate, f"{lexergy} serve {run}"]
    return [
        generate,
        f"{lexergy} perplexity {run} --samples 256 --windows {windows}",
        f"{lexergy} next-token {run} --prompt 'The state of the union is'",
    ]
