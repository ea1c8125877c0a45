"""`lexergy generate`: the frozen LM beside the joint model."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lexergy.cli.models import open_joint
from lexergy.cli.options import (
    EnergyName,
    Json,
    Prompt,
    RunFolder,
    Seed,
    at_least,
    positive,
    read_prompt,
    share,
)
from lexergy.cli.render import print_json, print_lines, print_passage, print_table, visible
from lexergy.errors import LexergyError

if TYPE_CHECKING:
    from lexergy.core.candidates import Candidate
    from lexergy.models.joint.long_text import LongGeneration
    from lexergy.models.joint.sampling import Generation

DEFAULT_TOP_K = 10  # the papers' choice for generation
WHOLE_VOCABULARY = "give `--top-p 1` to sample from the whole vocabulary"


def generate(
    run: RunFolder,
    prompt: Prompt,
    energy: EnergyName = None,
    candidates: Annotated[
        int,
        typer.Option(
            help="Continuations drawn from the LM to choose from.",
            callback=at_least(2, "the joint model chooses among them; 256 is a good start"),
        ),
    ] = 256,
    max_new_tokens: Annotated[
        int, typer.Option(help="Length of a continuation, or of a chunk.", callback=at_least(1, "40 is a good start"))
    ] = 40,
    chunks: Annotated[
        int,
        typer.Option(
            help="Write a long text: so many chunks, each chosen by its energy and kept.",
            callback=at_least(1, "1 writes a single continuation"),
        ),
    ] = 1,
    top_k: Annotated[
        int | None,
        typer.Option(
            help="Draw from the k likeliest tokens.",
            show_default=f"{DEFAULT_TOP_K}, or none with --top-p",
            callback=at_least(1, WHOLE_VOCABULARY),
        ),
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(
            help="Draw from the likeliest tokens that hold this probability; 1 is the whole vocabulary.",
            callback=share(WHOLE_VOCABULARY),
        ),
    ] = None,
    temperature: Annotated[
        float,
        typer.Option(
            help="Below 1 sharpens the LM, above 1 flattens it.",
            callback=positive("1 leaves the LM as it is"),
        ),
    ] = 1.0,
    target_ess: Annotated[
        float | None,
        typer.Option(
            help="Draw further candidates until this many count effectively.",
            callback=at_least(1, "leave it out for a fixed number of candidates"),
        ),
    ] = None,
    max_candidates: Annotated[
        int | None,
        typer.Option(
            help="With --target-ess: never draw more than this.",
            callback=at_least(2, "leave it out for the default budget"),
        ),
    ] = None,
    seed: Seed = 0,
    show: Annotated[
        int,
        typer.Option(
            help="Show the best and the worst candidates too, so many of each.",
            callback=at_least(0, "5 shows five of each"),
        ),
    ] = 0,
    as_json: Json = False,
) -> None:
    """Continue a prompt: frozen LM beside joint model.

    The joint model draws candidates from the LM and keeps one in proportion to exp(-energy) (Algorithm 1,
    Deng et al. 2020).

    Examples:

    \b
      lexergy generate runs/quickstart --prompt "The state of the union is"
      lexergy generate runs/quickstart --prompt "Our economy" --candidates 512 --show 5
      lexergy generate runs/quickstart --prompt "Our economy" --chunks 4 --max-new-tokens 32
      echo "My fellow Americans," | lexergy generate runs/quickstart --prompt - --json
    """
    text = read_prompt(prompt)
    if max_candidates is not None and target_ess is None:
        raise LexergyError(
            f"`--max-candidates` is {max_candidates} without `--target-ess`; expected both, "
            "since it limits what is drawn to reach that; use `--candidates` for a fixed number."
        )
    if chunks > 1 and (show or target_ess is not None):
        raise LexergyError(
            f"`--chunks` is {chunks} beside `--show` or `--target-ess`; expected one or the other, since they look "
            "at the candidates of a single continuation; leave them out."
        )
    settings: dict[str, Any] = {
        "num_candidates": candidates,
        "top_k": DEFAULT_TOP_K if top_k is None and top_p is None else top_k,
        "top_p": None if top_p == 1 else top_p,
        "temperature": temperature,
        "seed": seed,
    }
    from lexergy.runs.records import load_run

    chosen, joint = open_joint(run, energy)
    if chunks > 1:
        context = load_run(run).recipe.windows.prefix  # as the energy was trained
        long = joint.generate_long(
            text, num_chunks=chunks, chunk_tokens=max_new_tokens, context_tokens=context, **settings
        )
        _print_long(text, chosen, long, as_json)
        return
    generation = joint.generate(
        text,
        max_new_tokens=max_new_tokens,
        target_ess=target_ess,
        max_candidates=max_candidates,
        **settings,
    )
    if as_json:
        print_json(_record(text, chosen, generation, show))
    else:
        _print(text, chosen, generation, show)


def _best_and_worst(generation: "Generation", count: int) -> tuple[list["Candidate"], list["Candidate"]]:
    """The `count` candidates of lowest energy, and of highest energy with the highest first."""
    return generation.candidates[:count], generation.candidates[::-1][:count]


def _record(prompt: str, energy: str, generation: "Generation", show: int) -> dict:
    best, worst = _best_and_worst(generation, show)
    return {
        "prompt": prompt,
        "energy": energy,
        "base": generation.base.text,
        "joint": generation.text,
        "ess": generation.ess,
        "pareto_k": generation.pareto_k,
        "num_candidates": len(generation.candidates),
        "best": best,
        "worst": worst,
    }


def _print(prompt: str, energy: str, generation: "Generation", show: int) -> None:
    from lexergy.report.numbers import fixed

    print_passage("Prompt", prompt)
    print_passage("Frozen LM goes on", generation.base.text)
    print_passage(f"Joint model ({energy}) goes on", generation.text)
    if show:
        best, worst = _best_and_worst(generation, show)
        for title, rows in (("Lowest energy", best), ("Highest energy", worst)):
            cells = [(fixed(row.energy), fixed(row.log_prob, 1), visible(row.text)) for row in rows]
            print_table(title, ("energy", "log p_LM", "continuation"), cells, text_columns=(2,))
    print_lines(
        f"{len(generation.candidates)} candidates, worth {fixed(generation.ess, 1)} equally weighted ones; "
        f"k-hat {fixed(generation.pareto_k)}"
    )


def _print_long(prompt: str, energy: str, long: "LongGeneration", as_json: bool) -> None:
    if as_json:
        chunks = [vars(chunk) for chunk in long.chunks]
        print_json({"prompt": prompt, "energy": energy, "base": long.base_text, "joint": long.text, "chunks": chunks})
        return
    from lexergy.report.numbers import fixed

    print_passage("Prompt", prompt)
    print_passage("Frozen LM goes on", long.base_text)
    print_passage(f"Joint model ({energy}) goes on", long.text)
    cells = [
        (fixed(chunk.energy), fixed(chunk.ess, 1), fixed(chunk.pareto_k), visible(chunk.text)) for chunk in long.chunks
    ]
    print_table("Chunks", ("energy", "ESS", "k-hat", "text"), cells, text_columns=(3,))
