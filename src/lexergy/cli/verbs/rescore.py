"""`lexergy rescore`: re-rank n-best lists with a model's scores."""

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lexergy.cli.options import Json, Seed, new_file, positive
from lexergy.cli.render import print_json, print_lines, print_paragraphs, print_table, to_plain
from lexergy.errors import LexergyError

if TYPE_CHECKING:
    from lexergy.core.rescoring import Comparison
    from lexergy.tasks.cloze.rescoring import Relative, RescoreResult


NBest = Annotated[Path, typer.Argument(metavar="NBEST.json", help="The list to re-rank: mlm-scoring's JSON, or JSONL.")]
Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        help="Whose scores to use; given again: others too, each alone and all together.",
        show_default="none: only 1-best and oracle",
    ),
]
Then = Annotated[
    list[str] | None,
    typer.Option("--then", help="A dear model, which reads only the best of what came before; may be given again."),
]
Keep = Annotated[
    int, typer.Option("--keep", help="How many hypotheses `--then` reads.", callback=positive("leave it out for 20"))
]
Dev = Annotated[Path | None, typer.Option("--dev", help="The list to choose the weights on.")]
DevUtterances = Annotated[
    int | None,
    typer.Option(
        "--dev-utterances",
        help="`--then` reads only so many utterances of dev, at equal distances.",
        callback=positive("leave it out for all"),
    ),
]
Lambda = Annotated[
    float | None,
    typer.Option("--lambda", help="Use this lambda instead of one chosen.", callback=positive("or give --dev")),
]
RelativeShare = Annotated[
    str,
    typer.Option("--relative", metavar="MU|auto", help="Share of the log-frequencies to take away, or `auto`: by dev."),
]
MetricName = Annotated[str, typer.Option("--metric", help="wer, bleu or chrf.")]
NumUtterances = Annotated[
    int | None,
    typer.Option(
        "--utterances",
        help="Only so many utterances of each list, at equal distances.",
        callback=positive("leave it out for all"),
    ),
]
Reranked = Annotated[Path | None, typer.Option("--out", help="File to write the re-ranked list to.", callback=new_file)]


def rescore(
    nbest: NBest,
    model: Models = None,
    then: Then = None,
    keep: Keep = 20,
    dev: Dev = None,
    dev_utterances: DevUtterances = None,
    weight: Lambda = None,
    relative: RelativeShare = "0",
    metric: MetricName = "wer",
    utterances: NumUtterances = None,
    out: Reranked = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Re-rank n-best lists: argmax first pass + lambda * (log-score - mu * log-frequency).

    lambda is chosen on the dev list from .05, .1, ..., 1, and with `--relative auto` mu from 0, .25, ..., 1. Several
    models stand alone and together, with a weight each. In a cascade `--model` reads all hypotheses, and `--then` the
    best 20 (`--keep`) of what came before. Beside them are the first pass (1-best) and the oracle; the difference to
    the first pass has a 95 % interval and a p-value by a matched-pairs bootstrap over speakers, where the ids are
    LibriSpeech's, or utterances. Scores are kept in the cache: a command that was stopped goes on where it was.

    Examples:

    \b
      lexergy rescore test.json --model runs/electric-cpu/electric --dev dev.json --out better.json
      lexergy rescore test.json --model trigram --model runs/electric --dev dev.json --relative auto
      lexergy rescore test.json --model trigram --then smollm2-135m --keep 20 --dev dev.json
      lexergy rescore test.json --model smollm2-135m --dev dev.json --utterances 100
      lexergy rescore test.json
    """
    from lexergy.data.lists.nbest import load_nbest, save_nbest, some_of

    _check(bool(model or then), dev, weight, out)
    share = _share(relative)
    test = some_of(load_nbest(nbest), utterances)
    development = None if dev is None else some_of(load_nbest(dev), utterances)
    from lexergy.tasks.cloze.rescoring import rescore as rescore_lists  # seconds to import: after what may be mistaken

    result = rescore_lists(
        test,
        model or [],
        then=then or [],
        keep=keep,
        dev=development,
        dev_utterances=dev_utterances,
        weight=weight,
        relative=share,
        metric=metric,
        seed=seed,
    )
    if out is not None:
        save_nbest(out, list(result.reranked))
    _print(result, out, as_json)


def _check(has_models: bool, dev: Path | None, weight: float | None, out: Path | None) -> None:
    if has_models and (dev is None) == (weight is None):
        raise LexergyError(
            f"{'neither' if dev is None else 'both'} of `--dev` and `--lambda` given; expected exactly one of them: "
            "lambda is chosen on the dev list."
        )
    if out is not None and not has_models:
        raise LexergyError("`--out` was given without `--model`; expected a model to re-rank the list with.")
    if out is not None and out.suffix not in (".json", ".jsonl"):
        raise LexergyError(f"`--out` is {out}; expected a name that ends in .json or .jsonl.")


def _share(relative: str) -> "Relative":
    if relative == "auto":
        return "auto"
    try:
        share = float(relative)
    except ValueError:
        share = math.nan
    if not 0 <= share < math.inf:
        raise LexergyError(f"`--relative` is {relative}; expected a number from 0 on, or `auto` to choose it on dev.")
    return share


def _print(result: "RescoreResult", out: Path | None, as_json: bool) -> None:
    for warning in result.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    if as_json:
        record = to_plain(result)
        del record["reranked"]
        print_json(record)
        return
    _print_systems(result)
    if out is not None:
        print_lines(f"Re-ranked: {out}")


def _print_systems(result: "RescoreResult") -> None:
    rows = [
        (
            system.name,
            " + ".join(f"{weight.score:g}" for weight in system.weights),
            " + ".join(f"{weight.frequencies:g}" for weight in system.weights),
            _value(system.dev),
            _value(system.test),
            system.passes,
            "" if system.hypotheses_per_second is None else f"{system.hypotheses_per_second:.0f}",
        )
        for system in result.systems
    ]
    title = f"{result.metric} of {result.num_utterances} utterances, {result.num_hypotheses} hypotheses"
    print_table(title, ("", "lambda", "mu", "dev", "test", "passes", "hyp./s"), rows)
    for system in result.systems:
        _print_comparison(f"{system.name} against the 1-best", system.against_first_pass, result.resampled)
        _print_comparison(f"{system.name} against the first model", system.against_first_model, result.resampled)


def _value(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _print_comparison(what: str, comparison: "Comparison | None", resampled: str) -> None:
    if comparison is not None:
        difference, low, high, p_value = comparison
        interval = f"95 % over {resampled} [{low:+.2f}, {high:+.2f}]"
        print_paragraphs(f"{what}: {difference:+.2f} on test, {interval}, p {p_value:.3f}")
