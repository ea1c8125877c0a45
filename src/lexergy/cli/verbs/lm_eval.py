"""`lexergy lm-eval`: a run on the tasks of lm-eval, base LM beside joint model."""

from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lexergy.cli.options import EnergyName, Json, RunFolder, Seed, at_least, choose_energy
from lexergy.cli.render import print_json, print_lines, print_table
from lexergy.errors import LexergyError

if TYPE_CHECKING:
    from lexergy.core.estimation.findings import Estimate
    from lexergy.tasks.harness.evaluation import HarnessResult, MetricResult


class Models(StrEnum):
    base = "base"
    joint = "joint"
    both = "both"


TaskNames = Annotated[
    str, typer.Option("--tasks", help="Tasks or groups of lm-eval, or YAML files, separated by commas.")
]
IncludePath = Annotated[
    Path | None,
    typer.Option("--include-path", "--include_path", help="Folder of your own tasks.", show_default="none"),
]
Model = Annotated[Models, typer.Option("--model", help="The base LM alone, the joint model, or both with differences.")]
Limit = Annotated[
    int | None,
    typer.Option(
        "--limit", help="So many items of each task.", show_default="all", callback=at_least(1, "leave it out for all")
    ),
]
NumFewshot = Annotated[
    int | None,
    typer.Option(
        "--num-fewshot",
        "--num_fewshot",
        help="Examples before each item.",
        show_default="as the task says",
        callback=at_least(0, "leave it out for what the task says"),
    ),
]
NumSamples = Annotated[
    int,
    typer.Option(
        "--samples",
        help="Samples of the LM for each log Z that does not cancel, and for bounds of whole texts.",
        callback=at_least(2, "128 is a good start"),
    ),
]
NumCandidates = Annotated[
    int,
    typer.Option(
        "--candidates",
        help="Where texts are written: continuations of the LM that the joint model chooses from.",
        callback=at_least(2, "64 is a good start"),
    ),
]
GenerationSettings = Annotated[
    str | None,
    typer.Option(
        "--gen-kwargs",
        "--gen_kwargs",
        help="Where texts are written: do_sample=true,temperature=1,top_k=10,max_gen_toks=40.",
        show_default="as the task says",
    ),
]


def lm_eval(
    run: RunFolder,
    tasks: TaskNames,
    include_path: IncludePath = None,
    model: Model = Models.both,
    energy: EnergyName = None,
    limit: Limit = None,
    num_fewshot: NumFewshot = None,
    samples: NumSamples = 128,
    candidates: NumCandidates = 64,
    gen_kwargs: GenerationSettings = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Evaluate a run with lm-eval: base LM beside joint model, on the same items.

    Choices of one length after one prompt are compared by log P_LM - E, since log Z cancels; other log-likelihoods
    take an estimate of log Z from samples of the LM, and the output says how far to trust it. Differences are paired by
    item, with 95 % intervals. Needs the extra `lm-eval`: pip install 'lexergy[lm-eval]'.

    Examples:

    \b
      lexergy lm-eval runs/quickstart --tasks blimp_anaphor_number_agreement --limit 200
      lexergy lm-eval runs/quickstart --tasks pairs --include-path my-tasks --json
      lexergy lm-eval runs/quickstart --tasks my-tasks/pairs.yaml --model base
    """
    if find_spec("lm_eval") is None:
        raise LexergyError("evaluating needs lm_eval; run `pip install 'lexergy[lm-eval]'`.")
    from lexergy.runs.records import load_run

    names = [name.strip() for name in tasks.split(",") if name.strip()]
    if not names:
        raise LexergyError("`--tasks` is empty; expected the names of tasks, separated by commas.")
    settings = _parsed(gen_kwargs)
    chosen = choose_energy(load_run(run), energy)
    from lexergy.tasks.harness.task_list import check_joint_can, load_tasks  # seconds to import

    loaded = load_tasks(names, include_path)
    if model is not Models.base:
        check_joint_can(loaded.tasks, settings)
    from lexergy.tasks.harness.evaluation import MODELS, evaluate
    from lexergy.tasks.harness.run_lm import HarnessSettings, load_joint

    how = HarnessSettings(samples, candidates, seed, compared=loaded.compared, progress=True)
    joint = load_joint(run, chosen)
    asked = ("joint", "base") if model is Models.both else (model.value,)  # the one that may be refused first
    result = evaluate(
        {name: MODELS[name](joint, how) for name in asked},
        loaded,
        limit=limit,
        num_fewshot=num_fewshot,
        generation_kwargs=settings,
        seed=seed,
    )
    if as_json:
        doubts = [item.doubt for item in result.treatments]
        print_json({"run": run, "energy": chosen, "model": model.value, "result": result, "doubts": doubts})
    else:
        _print(result, chosen)


def _parsed(text: str | None) -> dict[str, Any]:
    """`do_sample=true,temperature=0.7` as values."""
    import yaml

    settings = {}
    for part in (text or "").split(",") if text else ():
        name, equals, value = part.partition("=")
        if not equals:
            raise LexergyError(f"`--gen-kwargs` has {part!r}; expected name=value, as in do_sample=true,temperature=1.")
        settings[name.strip()] = yaml.safe_load(value)
    return settings


def _print(result: "HarnessResult", energy: str) -> None:
    rows = [
        (f"{row.task}, {_metric(row)}", str(row.num_items), *map(_estimate, (row.base, row.joint, row.difference)))
        for row in result.metrics
    ]
    columns = ("task", "items", "base LM", f"joint ({energy})", "joint - base")
    print_table(f"lm-eval {result.lm_eval}, with 95 % intervals over items", columns, rows)
    from lexergy.report.numbers import fixed

    for item in result.treatments:
        weights = f"; ESS {fixed(item.ess, 1)}, k-hat {fixed(item.pareto_k)} (medians)" if item.num_samples else ""
        drawn = f" from {item.num_samples} samples" if item.num_samples else ""
        print_lines(f"{item.task}: {item.num_requests} requests, {item.kind.value}{drawn}{weights}")
        if item.doubt:
            print_lines(f"warning: {item.task}: {item.doubt}")
    print_lines(*(f"warning: {note}" for note in result.notes))


def _metric(row: "MetricResult") -> str:
    name = row.metric if row.filter == "none" else f"{row.metric} ({row.filter})"
    better = {True: " ↑", False: " ↓", None: ""}[row.higher_is_better]
    return f"{name}{better}"


def _estimate(estimate: "Estimate | None") -> str:
    from lexergy.report.numbers import significant

    if estimate is None:
        return "-"
    value, low, high = map(significant, estimate)
    return f"{value} [{low}, {high}]"
