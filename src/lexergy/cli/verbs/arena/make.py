"""`lexergy arena make`: a study from a run, or from files of continuations."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lexergy.cli.engines import in_parts
from lexergy.cli.options import EnergyName, Json, LocalOut, Seed, Temperature, TopP, at_least, choose_energy
from lexergy.cli.render import lexergy_command, print_json, print_lines
from lexergy.cli.verbs.arena.plan import PagesPerPerson, VotesPerPair
from lexergy.cli.verbs.generate import DEFAULT_TOP_K, NumCandidates, TopK
from lexergy.errors import LexergyError

if TYPE_CHECKING:
    from lexergy.tasks.arena.continuations import Material
    from lexergy.tasks.arena.study import Rules

QUALIFYING = 12
PAPER_PAIRS = 333

Sources = Annotated[
    list[Path], typer.Argument(metavar="RUN", help="Folder of a run; with --files: two or more JSONL files.")
]
Files = Annotated[
    bool,
    typer.Option("--files", help="Compare continuations in JSONL files: `prompt` and `text` in each line."),
]
People = Annotated[
    Path | None,
    typer.Option("--people", help="With --files: people's own continuations, for checks.", show_default="none"),
]
Models = Annotated[
    str,
    typer.Option("--models", help="Of a run: base, joint, best, worst (with `:ENERGY` for another energy), people."),
]
NumPairs = Annotated[
    int | None,
    typer.Option(
        "--pairs",
        help="Prompts to compare all systems on.",
        show_default=f"{PAPER_PAIRS}; with --files: all",
        callback=at_least(1, "the paper has 333"),
    ),
]
Qualifying = Annotated[
    int | None,
    typer.Option(
        "--qualifying",
        help="Comparisons of the qualifying round; 0: none.",
        show_default=f"{QUALIFYING} where there is people's text",
        callback=at_least(0, "0 leaves the round out"),
    ),
]
Bar = Annotated[
    float | None,
    typer.Option("--bar", help="Accuracy in the qualifying round to go on at once.", show_default="the better half"),
]
Checks = Annotated[
    int, typer.Option("--checks", help="Attention checks to choose from; 0: none.", callback=at_least(0, "0: none"))
]
TiesAllowed = Annotated[bool, typer.Option("--ties/--no-ties", help="Whether `no difference` is an answer.")]
RepeatEvery = Annotated[
    int,
    typer.Option(
        "--repeat-every",
        help="Show a pair again, its sides swapped, on every so manieth page; 0: never.",
        callback=at_least(0, "0 repeats none"),
    ),
]
Question = Annotated[
    str | None, typer.Option("--question", help="What is asked on every page.", show_default="the paper's")
]
ConsentFile = Annotated[
    Path | None, typer.Option("--consent", help="Text file that people agree to first.", show_default="a short one")
]
Code = Annotated[
    str | None, typer.Option("--code", help="Completion code, shown at the end.", show_default="one by lot")
]


@in_parts
def make(
    sources: Sources,
    out: LocalOut,
    files: Files = False,
    people: People = None,
    models: Models = "base,joint",
    energy: EnergyName = None,
    pairs: NumPairs = None,
    candidates: NumCandidates = 256,
    top_k: TopK = None,
    top_p: TopP = None,
    temperature: Temperature = 1.0,
    votes: VotesPerPair = 3,
    pages: PagesPerPerson = 10,
    qualifying: Qualifying = None,
    bar: Bar = None,
    checks: Checks = 10,
    ties: TiesAllowed = True,
    repeat_every: RepeatEvery = 5,
    question: Question = None,
    consent: ConsentFile = None,
    code: Code = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Make a study: who wrote the better continuation?

    The systems of a run go on from its held-out prompts, with the candidates drawn once for all of them (Algorithm 1,
    Deng et al. 2020). A study that was stopped while its texts were drawn goes on where it was.

    Examples:

    \b
      lexergy arena make runs/quickstart --pairs 333 --models base,joint --out arena
      lexergy arena make runs/quickstart --pairs 100 --models base,joint,people --no-ties --out arena
      lexergy arena make --files gpt2.jsonl mine.jsonl --people people.jsonl --out arena
    """
    from lexergy.data.reading import read_text
    from lexergy.tasks.arena.study import Rules

    texts = {"question": question, "code": code, "consent": None if consent is None else read_text(consent)}
    given: dict[str, Any] = {name: text for name, text in texts.items() if text is not None}
    rules = Rules(votes, pages=pages, bar=_checked_bar(bar), ties=ties, repeat_every=repeat_every, **given)
    if files:
        from lexergy.tasks.arena.continuations import file_material

        material = file_material(sources, people, pairs=pairs, qualifying=qualifying, checks=checks, seed=seed)
    else:
        _check_run(sources, people)
        counts = {"pairs": pairs or PAPER_PAIRS, "qualifying": QUALIFYING if qualifying is None else qualifying}
        sampling = {"candidates": candidates, "top_k": top_k, "top_p": top_p, "temperature": temperature}
        material = _run_material(sources[0], out, models, energy, seed, counts | {"checks": checks}, sampling)
    _write(material, rules, seed, out, as_json)


def _check_run(sources: list[Path], people: Path | None) -> None:
    if people is not None or len(sources) != 1:
        raise LexergyError(
            f"{len(sources)} folders{' and `--people`' if people else ''} were given without `--files`; expected one "
            "run; with `--files`, JSONL files."
        )


def _checked_bar(bar: float | None) -> float | None:
    if bar is not None and not 0 <= bar <= 1:
        raise LexergyError(f"`--bar` is {bar:g}; expected 0 to 1; the better half of the paper had more than 0.667.")
    return bar


def _run_material(
    run: Path, out: Path, models: str, energy: str | None, seed: int, counts: dict[str, int], sampling: dict[str, Any]
) -> "Material":
    from lexergy.runs.records import load_run

    result = load_run(run)
    chosen = choose_energy(result, energy)
    if sampling["top_k"] is None and sampling["top_p"] is None:
        sampling["top_k"] = DEFAULT_TOP_K
    sampling["top_p"] = None if sampling["top_p"] == 1 else sampling["top_p"]
    from lexergy.runs.workspace import open_workspace
    from lexergy.tasks.arena.run_texts import RunTexts  # seconds to import: after what may be mistaken

    systems = tuple(name.strip() for name in models.split(","))
    texts = RunTexts(result, systems, chosen, **counts, **sampling)
    texts.writers  # noqa: B018, a mistaken name is told before the folder is made
    with open_workspace(out, seed) as workspace:
        return texts.material(workspace)


def _write(material: "Material", rules: "Rules", seed: int, out: Path, as_json: bool) -> None:
    from lexergy.tasks.arena.making import make_study
    from lexergy.tasks.arena.study import StudyFolder

    study = make_study(out.name, material, rules, seed)
    StudyFolder(out).write(study)
    counts = {kind: len(study.of_kind(kind)) for kind in ("pair", "qualifying", "check")}
    if as_json:
        print_json({"study": out, "id": study.id, "systems": study.systems, **counts, "facts": study.facts})
        return
    alike = study.facts["left_out_as_alike"]
    print_lines(
        f"Study: {out} ({', '.join(study.systems)})",
        f"{counts['pair']} pairs, {study.rules.votes} votes each; {counts['qualifying']} qualifying comparisons, "
        f"{counts['check']} attention checks",
        *([f"{alike} pairs whose texts are the same to the letter were left out"] if alike else []),
        "",
        "Next:",
        f"  {lexergy_command()} arena serve {out}",
    )
