"""`lexergy rerank`: candidates from anywhere, weighed by the joint model."""

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from lexergy.cli.options import EnergyName, Json, RunFolder, Seed, choose_energy
from lexergy.cli.render import print_lines, print_passage, print_table, to_plain, visible

if TYPE_CHECKING:
    from lexergy.data.lists.candidates import CandidateList
    from lexergy.models.joint.reranking import Reranked


class Weights(StrEnum):
    energy = "energy"
    joint = "joint"


class Pick(StrEnum):
    draw = "draw"
    best = "best"


CandidateFile = Annotated[
    str, typer.Argument(metavar="FILE", help="JSONL: a prompt and candidates a line; `-` reads stdin.")
]
WeighBy = Annotated[
    Weights,
    typer.Option(
        "--weigh-by",
        help="energy: exp(-E), for samples of the run's LM; joint: P_LM exp(-E), for a list that nobody drew.",
    ),
]
Picked = Annotated[
    Pick, typer.Option("--pick", help="draw: one by lot, in proportion to the weights; best: the largest weight.")
]


def rerank(
    run: RunFolder,
    file: CandidateFile,
    energy: EnergyName = None,
    weigh_by: WeighBy = Weights.energy,
    pick: Picked = Pick.draw,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Weigh candidates from anywhere by a run's energy, and pick one for each prompt.

    A line of the file is {"prompt": "...", "candidates": ["...", ...]}; a candidate may also be an object with `text`
    or `tokens`, and `log_prob`, its log-probability under the distribution q that it was drawn from: then the weights
    are P_LM exp(-E) / q. With --json, one JSON object a line.

    Examples:

    \b
      lexergy rerank runs/quickstart answers.jsonl
      lexergy rerank runs/quickstart answers.jsonl --weigh-by joint --pick best --json
      cat answers.jsonl | lexergy rerank runs/quickstart - --json
    """
    from lexergy.data.lists.candidates import read_candidate_lists
    from lexergy.runs.records import load_run

    result = load_run(run)
    chosen = choose_energy(result, energy)
    lists = list(read_candidate_lists(file))
    from lexergy.tasks.residual.context import RunContext  # seconds to import: after what may be mistaken
    from lexergy.tasks.residual.reranking import rerank_lists

    joint = RunContext(result.recipe, result.folder).joint(chosen)
    for given, ranked in zip(lists, rerank_lists(joint, lists, weigh_by=weigh_by.value, seed=seed), strict=True):
        picked = ranked.best if pick is Pick.best else ranked.drawn
        if as_json:
            record = {"prompt": given.prompt, "energy": chosen, "picked": picked, **to_plain(ranked)}
            print(json.dumps(record, ensure_ascii=False, allow_nan=False))
        else:
            _print(given, ranked, picked)


def _print(given: "CandidateList", ranked: "Reranked", picked: int) -> None:
    from lexergy.report.numbers import fixed

    print_passage("Prompt", given.prompt)
    print_passage("Picked", ranked.candidates[picked].text)
    order = sorted(ranked.candidates, key=lambda candidate: -candidate.weight)
    rows = [(fixed(c.weight, 3), fixed(c.energy), fixed(c.log_prob, 1), visible(c.text)) for c in order]
    print_table("Candidates", ("weight", "energy", "log p_LM", "continuation"), rows, text_columns=(3,))
    print_lines(
        f"{len(rows)} candidates, worth {fixed(ranked.ess, 1)} equally weighted ones; k-hat {fixed(ranked.pareto_k)}",
        *(f"warning: {warning}" for warning in ranked.warnings),
    )
