"""`lexergy score`: the log-score of each sentence, by any model."""

import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lexergy.cli.engines import check_shards, in_parts
from lexergy.cli.options import Json, ScorerName, ShardsOut, read_lines
from lexergy.cli.render import visible

if TYPE_CHECKING:
    from lexergy.tasks.cloze.scoring import ScoredTexts

Sentences = Annotated[str, typer.Argument(metavar="FILE", help="A text file, one sentence a line; `-` reads stdin.")]
Relative = Annotated[
    bool,
    typer.Option(
        "--relative", help="Subtract each token's log-frequency: what its context says of it, common or rare."
    ),
]
Tokens = Annotated[bool, typer.Option("--tokens", help="Print the score of each token too.")]


@in_parts
def score(
    model: ScorerName,
    file: Sentences,
    tokens: Tokens = False,
    relative: Relative = False,
    out: ShardsOut = None,
    as_json: Json = False,
) -> None:
    """Log-scores of sentences: pseudo-log-likelihood, or a causal LM's log-likelihood.

    One line for each sentence: its score, its number of tokens, and the sentence. Higher is likelier. With --json, one
    JSON object a line. Scores are kept in the cache: a command that was stopped goes on where it was.

    For millions of sentences, --out keeps them in a folder instead, in shards that --engine and --part share out; no
    more than a few thousand are in memory.

    Examples:

    \b
      lexergy score runs/electric-cpu/electric sentences.txt
      lexergy score smollm2-135m sentences.txt --tokens
      echo "it was a dark and stormy night" | lexergy score runs/electric-cpu/electric - --json
      lexergy score smollm2-135m sentences.txt --out runs/scores --engine ray > scores.tsv
    """
    check_shards(out, [file])
    texts = read_lines(file) if out is None else []
    from lexergy.models.scoring.kinds import load_scorer  # seconds to import: after what may be mistaken
    from lexergy.tasks.cloze.file_scoring import score_file
    from lexergy.tasks.cloze.scoring import scored_batches

    scorer, number = load_scorer(model), 0
    batches: Iterable[ScoredTexts] = (
        scored_batches(scorer, model, texts, relative=relative)
        if out is None
        else score_file(scorer, model, file, out, relative=relative)
    )
    for batch in batches:
        _print(batch, number, tokens=tokens, as_json=as_json)
        number += len(batch.texts)


def _print(batch: "ScoredTexts", first: int, *, tokens: bool, as_json: bool) -> None:
    for number, (text, score) in enumerate(zip(batch.texts, batch.scores, strict=True), start=first + 1):
        num_tokens = len(score.log_scores)
        _warn(f"line {number}", num_tokens, score.num_pieces)
        scored: list[dict[str, Any]] = [
            {"token": text[start:end], "log_score": log_score}
            for (start, end), log_score in zip(score.spans, score.log_scores, strict=True)
        ]
        if as_json:
            record = {"log_score": score.log_score, "num_tokens": num_tokens, "text": text}
            print(json.dumps(record | {"tokens": scored} if tokens else record, ensure_ascii=False))
            continue
        print(f"{score.log_score:.4f}\t{num_tokens}\t{visible(text)}")
        if tokens:
            for token in scored:
                print(f"  {token['log_score']:.4f}\t{visible(token['token'])}")


def _warn(place: str, num_tokens: int, num_pieces: int) -> None:
    if num_tokens == 0:
        print(f"warning: {place} is empty: its score is that of no token, 0", file=sys.stderr)
    if num_pieces > 1:
        print(f"warning: {place} is longer than the model reads at once: read in {num_pieces} pieces", file=sys.stderr)
