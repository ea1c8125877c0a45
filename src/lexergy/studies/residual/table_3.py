"""Table 3: next-token probabilities where the LM repeats a word."""

from collections.abc import Hashable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from lexergy.core.estimation.findings import above, mean, mean_difference, proportion
from lexergy.errors import LexergyError
from lexergy.models.joint.steps import NextToken, NextTokens
from lexergy.report.figures.distributions import histogram
from lexergy.report.figures.picture import Panel
from lexergy.report.pages.study import Conclusion
from lexergy.report.table import Cell, Table
from lexergy.studies.residual.workspace import (
    PAPER,
    RUN,
    STUDIES_FOLDER,
    Evidence,
    StudiedRun,
    Subject,
    doubt,
    usual_sizes,
)
from lexergy.studies.study import Settings, Study

NEAR = 32  # tokens of the past in which a repetition is looked for
LETTERS = 5  # in a stretch worth mentioning
SHOWN = 5  # likeliest tokens, as in the paper
EXAMPLES = 3
CONTEXT_SHOWN = 200  # characters
NUM_BINS = 12
REPEATED, BEFORE = "repeated", "before"


def first_repetition(tokens: Sequence[int], words: Sequence[str], start: int) -> int | None:
    """The first place, from `start` on, that ends a stretch of text said already in the near past.

    The stretch is the shortest one of whole tokens with enough letters: one long word of a large vocabulary, a few
    pieces of a small one. `words` are the decoded tokens.
    """
    for place in range(start, len(tokens)):
        begin = place
        while begin > 0 and _letters(words[begin : place + 1]) < LETTERS:
            begin -= 1
        stretch, past = tokens[begin : place + 1], tokens[max(0, place - NEAR) : place]
        if any(past[i : i + len(stretch)] == stretch for i in range(len(past) - len(stretch) + 1)):
            return place
    return None


def _letters(words: Sequence[str]) -> int:
    return sum(letter.isalpha() for word in words for letter in word)


def rows(subject: Subject, ids: range) -> pa.Table:
    """The first repetition in a plain sample of each prefix and, to compare with, the token drawn before it."""
    lm, windows = subject.joint.lm, subject.windows.select(list(ids))
    samples = lm.sample(
        windows.prefixes,
        num_samples=1,
        max_new_tokens=windows.continuation_length,
        top_k=subject.settings["top_k"],
        seed=subject.seed,
        prefix_ids=list(ids),
    ).tokens[:, 0]  # (B, C)
    records = []
    for window, prefix, sample in zip(ids, windows.prefixes.tolist(), samples.tolist(), strict=True):
        tokens = prefix + sample
        place = first_repetition(tokens, lm.decode(torch.tensor(tokens)[:, None]), len(prefix))
        if place is not None and place > len(prefix):
            for kind, where in ((REPEATED, place), (BEFORE, place - 1)):
                compared = _compare(subject, tokens, where, subject.seed + window)
                records.append({"kind": kind, "window": window, **compared})
    return pa.Table.from_pylist(records, schema=_SCHEMA)


def _compare(subject: Subject, tokens: list[int], place: int, seed: int) -> dict[str, Any]:
    """Both distributions of the token at `place`; the energy sees as much text as it was trained on."""
    lm, candidates = subject.joint.lm, subject.settings["candidates"]
    next_tokens = subject.joint.next_token(
        tokens[:place],
        candidates=candidates,
        num_samples=subject.settings["samples"],
        horizon=len(tokens) - place,
        top=candidates,
        seed=seed,
        given=place - subject.windows.prefix_length,
    )
    entry = next(entry for entry in next_tokens.base_entries if entry.token == tokens[place])
    context = lm.decode(torch.tensor(tokens[:place]))[0]
    return {"context": context, "word": entry.text, "base": entry.base, "joint": entry.joint, **_shown(next_tokens)}


def _shown(next_tokens: NextTokens) -> dict[str, Any]:
    def listed(entries: list[NextToken], distribution: str) -> list[dict[str, Any]]:
        return [{"text": entry.text, "probability": getattr(entry, distribution)} for entry in entries[:SHOWN]]

    return {"base_top": listed(next_tokens.base_entries, "base"), "joint_top": listed(next_tokens.entries, "joint")}


_TOP = pa.list_(pa.struct({"text": pa.string(), "probability": pa.float64()}))
_SCHEMA = pa.schema(
    {
        "kind": pa.string(),
        "window": pa.int64(),
        "context": pa.string(),
        "word": pa.string(),
        "base": pa.float64(),
        "joint": pa.float64(),
        "base_top": _TOP,
        "joint_top": _TOP,
    }
)


def _examine(workspace: StudiedRun, settings: Settings) -> Evidence:
    return workspace.measured("table-3", rows, settings)


def _conclude(evidence: Sequence[Evidence]) -> Conclusion:
    changes = {kind: [_log_ratios(seen, kind) for seen in evidence] for kind in (REPEATED, BEFORE)}  # (n,) per run
    groups, reason = [_documents(seen) for seen in evidence], doubt(evidence)
    pooled = list(chain.from_iterable(groups))
    lowered = {kind: proportion(np.concatenate(runs) < 0, pooled) for kind, runs in changes.items()}
    lines: list[tuple[Cell, ...]] = [
        (kind, sum(map(len, runs)), *(100 * share for share in lowered[kind]), *mean(runs, groups=groups))
        for kind, runs in changes.items()
    ]
    columns = ("token", "contexts", "lowered (%)", "low", "high", "mean log joint / base", "low", "high")
    return Conclusion(
        tables=(Table("tokens", columns, lines), _examples(evidence[0])),
        panels=(_panel({kind: np.concatenate(runs) for kind, runs in changes.items()}),),
        findings=(
            above(
                "The joint model gives a repetition of the LM a lower probability, more often than not.",
                "share of contexts",
                lowered[REPEATED],
                0.5,
                doubt=reason,
            ),
            above(
                "It lowers a repetition more than the token that the LM drew before it (beyond the paper).",
                "mean log joint / base, token before - repetition",
                mean_difference(changes[BEFORE], changes[REPEATED], groups=groups),
                doubt=reason,
            ),
        ),
    )


def _documents(seen: Evidence) -> list[Hashable]:
    """Of each repetition, which are as many and in the same order as the tokens before them."""
    if "window" not in seen.table.column_names:
        raise LexergyError(
            "these rows of table-3 were measured before they kept their windows, so that their documents are not "
            f"known; remove {seen.run.folder / STUDIES_FOLDER / f'table-3-{seen.energy}'} and measure them again."
        )
    rows = seen.table.select(["kind", "window"]).to_pylist()
    return [seen.documents[row["window"]] for row in rows if row["kind"] == REPEATED]


def _log_ratios(seen: Evidence, kind: str) -> np.ndarray:
    records = [record for record in seen.table.to_pylist() if record["kind"] == kind]
    return np.array([np.log(record["joint"] / record["base"]) for record in records])


def _examples(seen: Evidence) -> Table:
    """Repetitions with both distributions side by side, likeliest tokens first; the repeated word is marked."""
    repetitions = [record for record in seen.table.to_pylist() if record["kind"] == REPEATED]
    lines: list[tuple[Cell, ...]] = []
    for record in repetitions[:EXAMPLES]:
        for rank, (base, joint) in enumerate(zip(record["base_top"], record["joint_top"], strict=True)):
            context = "..." + record["context"][-CONTEXT_SHOWN:] if rank == 0 else ""
            cells = (_marked(base["text"], record["word"]), base["probability"])
            lines.append((context, rank, *cells, _marked(joint["text"], record["word"]), joint["probability"]))
    return Table("examples", ("context", "rank", "base LM", "P ", "joint model", "P"), lines)


def _marked(text: str, word: str) -> str:
    shown = text.strip() or "(blank)"
    return f"**{shown}**" if text == word else shown


def _panel(changes: dict[str, np.ndarray]) -> Panel:
    return Panel(
        xlabel="log probability, joint model - base LM",
        ylabel="share of contexts",
        series=histogram({"repetitions": changes[REPEATED], "tokens before": changes[BEFORE]}, NUM_BINS),
    )


STUDY = Study(
    title="Next-token probabilities at repetitions",
    part="Table 3, Appendix A.1",
    paper=PAPER,
    method=(
        "In a plain sample of the LM (top-k 10) for each held-out prefix, the first token that ends a repetition, and "
        "P(x_t | x_<t) there under the LM and under the joint model: Eq. 5 over the LM's likeliest tokens, each "
        "completed by samples up to the end of the window, and both distributions renormalised over these tokens. A "
        f"repetition is the shortest stretch of whole tokens with at least {LETTERS} letters that occurs in the {NEAR} "
        "tokens before: with a large vocabulary a word, as in the paper, which chose its examples by hand and took "
        "128 tokens and 10,000 samples for each. A token that the LM has drawn is lowered on average by any other "
        "distribution, by the divergence of the two; so the token drawn before the repetition is looked at as well, "
        "to compare with."
    ),
    sizes=usual_sizes(
        cpu={"windows": 256, "samples": 64, "candidates": 32, "top_k": 10},
        paper={"windows": 1024, "samples": 10_000, "candidates": 128, "top_k": 10},
    ),
    workspace=RUN,
    examine=_examine,
    conclude=_conclude,
)
