"""`lexergy next-token`: what the joint model thinks of the LM's next words."""

from typing import TYPE_CHECKING, Annotated

import typer

from lexergy.cli.options import EnergyName, Json, Prompt, RunFolder, Seed, at_least, choose_energy, read_prompt
from lexergy.cli.render import print_json, print_lines, print_passage, print_table, to_plain

if TYPE_CHECKING:
    from lexergy.models.joint.steps import NextTokens


NumCandidates = Annotated[
    int,
    typer.Option(
        "--candidates",
        help="How many of the LM's likeliest tokens to weigh.",
        callback=at_least(2, "32 is a good start, the paper uses 128"),
    ),
]
NumSamples = Annotated[
    int, typer.Option("--samples", help="Samples per token.", callback=at_least(1, "32 is a good start"))
]
Horizon = Annotated[
    int, typer.Option("--horizon", help="Length of a sample, in tokens.", callback=at_least(1, "16 is a good start"))
]
NumShown = Annotated[int, typer.Option("--top", help="How many tokens to show.", callback=at_least(1, "try 10"))]


def next_token(
    run: RunFolder,
    prompt: Prompt,
    energy: EnergyName = None,
    candidates: NumCandidates = 32,
    samples: NumSamples = 32,
    horizon: Horizon = 16,
    top: NumShown = 10,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """The next token: frozen LM beside joint model.

    Each of the LM's likeliest tokens is completed many times; tokens whose completions have low energies gain
    probability (Top-k auto-regressive sampling, App. A.1, Deng et al. 2020).

    Examples:

    \b
      lexergy next-token runs/quickstart --prompt "The state of the union is"
      lexergy next-token runs/quickstart --prompt "We must" --candidates 128 --samples 256 --json
    """
    text = read_prompt(prompt)
    from lexergy.runs.records import load_run

    opened = load_run(run)
    chosen = choose_energy(opened, energy)
    from lexergy.tasks.residual.context import RunContext  # seconds to import: after what may be mistaken

    joint = RunContext(opened.recipe, opened.folder).joint(chosen)
    result = joint.next_token(
        text, candidates=candidates, num_samples=samples, horizon=horizon, top=top, seed=seed, progress=True
    )
    if as_json:
        print_json({"prompt": text, "energy": chosen} | to_plain(result))
    else:
        _print(text, result)


def _print(prompt: str, result: "NextTokens") -> None:
    from lexergy.report.numbers import percent

    print_passage("Prompt", prompt)
    rows = [
        (repr(entry.text), percent(entry.joint, 2), percent(entry.base, 2), str(entry.base_rank + 1))
        for entry in result.entries
    ]
    print_table("Next token", ("token", "joint model", "frozen LM", "rank by the LM"), rows)
    print_lines(
        f"Probabilities among the LM's {result.num_candidates} likeliest tokens, which hold "
        f"{percent(result.base_mass)} of its probability; {result.num_samples} completions each, "
        f"{result.horizon} tokens ahead."
    )
