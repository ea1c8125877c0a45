"""`lexergy generate`: the frozen LM beside the joint model."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lexergy.cli.options import (
    WHOLE_VOCABULARY,
    EnergyName,
    Json,
    Method,
    MethodChoice,
    Prompt,
    RunFolder,
    Seed,
    Temperature,
    TopP,
    at_least,
    choose_energy,
    read_prompt,
)
from lexergy.cli.render import print_json, print_lines, print_passage, print_table, visible
from lexergy.errors import LexergyError

if TYPE_CHECKING:
    from lexergy.core.candidates import Candidate
    from lexergy.models.joint.long_text import LongGeneration
    from lexergy.models.joint.sampling import Generation
    from lexergy.models.joint.token_by_token import TokenGeneration

DEFAULT_TOP_K = 10  # the papers' choice for generation


NumCandidates = Annotated[
    int,
    typer.Option(
        "--candidates",
        help="Continuations drawn from the LM to choose from.",
        callback=at_least(2, "the joint model chooses among them; 256 is a good start"),
    ),
]
MaxNewTokens = Annotated[
    int,
    typer.Option(
        "--max-new-tokens",
        help="Length of a continuation, or of a chunk, unless it stops before.",
        callback=at_least(1, "40 is a good start"),
    ),
]
NumChunks = Annotated[
    int,
    typer.Option(
        "--chunks",
        help="Write a long text: so many chunks, each chosen by its energy and kept; with --method smc, many texts "
        "are carried on and resampled after each chunk.",
        callback=at_least(1, "1 writes a single continuation"),
    ),
]
TopK = Annotated[
    int | None,
    typer.Option(
        "--top-k",
        help="Draw from the k likeliest tokens.",
        show_default=f"{DEFAULT_TOP_K}, or none with --top-p",
        callback=at_least(1, WHOLE_VOCABULARY),
    ),
]
TargetEss = Annotated[
    float | None,
    typer.Option(
        "--target-ess",
        help="Draw further candidates until their effective sample size is this.",
        callback=at_least(1, "leave it out for a fixed number of candidates"),
    ),
]
MaxCandidates = Annotated[
    int | None,
    typer.Option(
        "--max-candidates",
        help="With --target-ess: never draw more than this.",
        callback=at_least(2, "leave it out for the default budget"),
    ),
]
StopStrings = Annotated[
    list[str] | None,
    typer.Option(
        "--stop",
        help="Stop before this text, which may be given several times; \\n is a line break, \\t a tab.",
        show_default="none",
    ),
]
StopAtEnd = Annotated[
    bool | None,
    typer.Option(
        "--stop-at-end/--no-stop-at-end",
        help="Let the LM end its texts at end-of-text.",
        show_default="if the energy was trained on texts that end",
    ),
]
TokenByToken = Annotated[
    int | None,
    typer.Option(
        "--token-by-token",
        help="Write one token after the other: each of the --top-k likeliest is weighed by so many samples of what "
        "could follow. Costs far more than choosing among candidates.",
        show_default="whole texts",
        callback=at_least(1, "leave it out to choose among whole texts"),
    ),
]
NumShown = Annotated[
    int,
    typer.Option(
        "--show",
        help="Show the best and the worst candidates too, so many of each.",
        callback=at_least(0, "5 shows five of each"),
    ),
]


def generate(
    run: RunFolder,
    prompt: Prompt,
    energy: EnergyName = None,
    method: Method = MethodChoice.IMPORTANCE,
    candidates: NumCandidates = 256,
    max_new_tokens: MaxNewTokens = 40,
    chunks: NumChunks = 1,
    top_k: TopK = None,
    top_p: TopP = None,
    temperature: Temperature = 1.0,
    target_ess: TargetEss = None,
    max_candidates: MaxCandidates = None,
    stop: StopStrings = None,
    stop_at_end: StopAtEnd = None,
    token_by_token: TokenByToken = None,
    seed: Seed = 0,
    show: NumShown = 0,
    as_json: Json = False,
) -> None:
    """Continue a prompt: frozen LM beside joint model.

    The joint model draws candidates from the LM and keeps one in proportion to exp(-energy) (Algorithm 1,
    Deng et al. 2020). A use unlike the energy's training is warned of, in numbers.

    Examples:

    \b
      lexergy generate runs/quickstart --prompt "The state of the union is"
      lexergy generate runs/quickstart --prompt "Our economy" --candidates 512 --show 5
      lexergy generate runs/quickstart --prompt "Our economy" --chunks 4 --max-new-tokens 32
      lexergy generate runs/quickstart --prompt "Our economy" --stop "\\n" --stop ". "
      lexergy generate runs/quickstart --prompt "Our economy" --method smc --candidates 64
      lexergy generate runs/quickstart --prompt "Our economy" --method smc --candidates 64 --chunks 4
      lexergy generate runs/quickstart --prompt "Our economy" --token-by-token 4 --max-new-tokens 12
      echo "My fellow Americans," | lexergy generate runs/quickstart --prompt - --json
    """
    text = read_prompt(prompt)
    _check(chunks, show, target_ess, max_candidates, method)
    if token_by_token is not None:
        unused = {"--chunks": chunks > 1, "--show": show, "--target-ess": target_ess, "--top-p": top_p, "--stop": stop}
        unused |= {"--temperature": temperature != 1, "--method": method == MethodChoice.SMC}
        _check_alone("--token-by-token", unused)
    if top_k is None and top_p is None:
        top_k = DEFAULT_TOP_K
    settings: dict[str, Any] = {
        "num_candidates": candidates,
        "top_k": top_k,
        "top_p": None if top_p == 1 else top_p,
        "temperature": temperature,
        "seed": seed,
        "stop": [_unescaped(string) for string in stop or ()],
        "stop_at_end": stop_at_end,
    }
    from lexergy.runs.records import load_run

    result = load_run(run)
    chosen = choose_energy(result, energy)
    from lexergy.progress import counted
    from lexergy.tasks.residual.context import RunContext  # seconds to import: after what may be mistaken
    from lexergy.tasks.residual.steering import resampling_of

    context = RunContext(result.recipe, result.folder)
    joint = context.joint(chosen)
    if token_by_token is not None:
        top_k = top_k or DEFAULT_TOP_K
        with counted("tokens", top_k * token_by_token * max_new_tokens * (max_new_tokens - 1) // 2):
            written = joint.generate_tokens(
                text,
                max_new_tokens=max_new_tokens,
                top_k=top_k,
                num_samples=token_by_token,
                seed=seed,
                stop_at_end=stop_at_end,
            )
        _print_tokens(text, chosen, written, as_json)
        return
    if chunks > 1:
        settings |= {"chunk_tokens": max_new_tokens, "context_tokens": result.recipe.windows.prefix}  # as in training
        with counted("tokens", chunks * candidates * max_new_tokens):
            long = joint.generate_long(text, num_chunks=chunks, method=method.value, **settings)
        _print_long(text, chosen, long, as_json)
        return
    settings |= {"max_new_tokens": max_new_tokens, "target_ess": target_ess, "max_candidates": max_candidates}
    if method == MethodChoice.SMC:
        truncated = top_k is not None or settings["top_p"] is not None or temperature != 1
        settings["resampling"] = resampling_of(context, chosen, max_new_tokens, truncated=truncated)
    with counted("tokens", candidates * max_new_tokens):
        generation = joint.generate(text, method=method.value, **settings)
    _print(text, chosen, generation, show, as_json)


def _check(chunks: int, show: int, target_ess: float | None, max_candidates: int | None, method: MethodChoice) -> None:
    if method == MethodChoice.SMC and target_ess is not None:
        raise LexergyError(
            "`--target-ess` is given beside `--method smc`; expected one or the other, since so many particles are "
            "resampled all along; use `--candidates` for their number."
        )
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


def _check_alone(option: str, others: Mapping[str, object]) -> None:
    """Refuse what a way of writing has no use for."""
    given = next((name for name, value in others.items() if value), None)
    if given is not None:
        raise LexergyError(f"`{given}` is given beside `{option}`, which has no use for it; leave one of them out.")


def _unescaped(text: str) -> str:
    """A stop string as it is meant: a shell hands on `\\n` as two characters."""
    for written, meant in (("\\n", "\n"), ("\\t", "\t")):
        text = text.replace(written, meant)
    if not text:
        raise LexergyError("`--stop` is empty; expected some text to stop before; leave it out to go on.")
    return text


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
        "num_ancestors": generation.num_ancestors,
        "best": best,
        "worst": worst,
        "warnings": generation.warnings,
    }


def _print(prompt: str, energy: str, generation: "Generation", show: int, as_json: bool) -> None:
    if as_json:
        print_json(_record(prompt, energy, generation, show))
        return
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
    _print_ancestors(generation.num_ancestors)


def _print_tokens(prompt: str, energy: str, written: "TokenGeneration", as_json: bool) -> None:
    if as_json:
        texts = {"prompt": prompt, "energy": energy, "joint": written.text, "joint_energy": written.energy}
        print_json({**texts, "num_drawn": written.num_drawn, "warnings": written.warnings})
        return
    from lexergy.report.numbers import fixed

    print_passage("Prompt", prompt)
    print_passage(f"Joint model ({energy}) goes on", written.text)
    print_lines(f"energy {fixed(written.energy)}; the LM drew {written.num_drawn:,} tokens for it")


def _print_long(prompt: str, energy: str, long: "LongGeneration", as_json: bool) -> None:
    if as_json:
        texts = {"prompt": prompt, "energy": energy, "base": long.base_text, "joint": long.text}
        chunks = [vars(chunk) for chunk in long.chunks]
        print_json({**texts, "chunks": chunks, "num_ancestors": long.num_ancestors, "warnings": long.warnings})
        return
    from lexergy.report.numbers import fixed

    print_passage("Prompt", prompt)
    print_passage("Frozen LM goes on", long.base_text)
    print_passage(f"Joint model ({energy}) goes on", long.text)
    cells = [
        (fixed(chunk.energy), fixed(chunk.ess, 1), fixed(chunk.pareto_k), visible(chunk.text)) for chunk in long.chunks
    ]
    print_table("Chunks", ("energy", "ESS", "k-hat", "text"), cells, text_columns=(3,))
    _print_ancestors(long.num_ancestors)


def _print_ancestors(number: int | None) -> None:
    """How far resampling has gone, where there was any."""
    if number is not None:
        print_lines(f"by SMC: they descend from {number} of the first ones")
