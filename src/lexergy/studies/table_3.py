"""Table 3: next-token probabilities where the LM repeats a word."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from lexergy.models.joint_steps import NextToken, NextTokens
from lexergy.studies.findings import NOTHING, Estimate, above, mean, over_runs, proportion, std_error
from lexergy.studies.picture import Panel, Series
from lexergy.studies.study import Cell, Conclusion, Evidence, Measurement, Size, Study, Subject, Table

NEAR = 16  # tokens of the past in which a repetition is looked for
LETTERS = 4  # in a word worth mentioning: the and its like repeat in good text too
SHOWN = 5  # likeliest tokens, as in the paper
EXAMPLES = 3
CONTEXT_SHOWN = 200  # characters
NUM_BINS = 24
REPEATED, NEW = "repeated", "new"


def first_places(words: Sequence[str], start: int) -> dict[str, int]:
    """Where, from `start` on, a word is first repeated from the near past, and where one first appears.

    `words` are the decoded tokens of prefix and continuation.
    """
    places: dict[str, int] = {}
    for place in range(start, len(words)):
        word = words[place].strip()
        if len(word) >= LETTERS and word.isalpha():
            near = {earlier.strip() for earlier in words[max(0, place - NEAR) : place]}
            places.setdefault(REPEATED if word in near else NEW, place)
    return places


def _rows(subject: Subject, ids: range) -> pa.Table:
    """One plain sample of each prefix; in it the first repetition and, to compare with, the first new word."""
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
        words = lm.decode(torch.tensor(tokens)[:, None])
        for kind, place in first_places(words, len(prefix)).items():
            records.append({"kind": kind, **_compare(subject, tokens, place, subject.seed + window)})
    return pa.Table.from_pylist(records, schema=_SCHEMA)


def _compare(subject: Subject, tokens: list[int], place: int, seed: int) -> dict[str, Any]:
    """Both laws of the token at `place`; the energy sees as much text as it was trained on."""
    lm, candidates = subject.joint.lm, subject.settings["candidates"]
    found = subject.joint.next_token(
        tokens[:place],
        candidates=candidates,
        num_samples=subject.settings["samples"],
        horizon=len(tokens) - place,
        top=candidates,
        seed=seed,
        given=place - subject.windows.prefix_length,
    )
    entry = next(entry for entry in found.base_entries if entry.token == tokens[place])
    context = lm.decode(torch.tensor(tokens[:place]))[0]
    return {"context": context, "word": entry.text, "base": entry.base, "joint": entry.joint, **_shown(found)}


def _shown(found: NextTokens) -> dict[str, Any]:
    def listed(entries: list[NextToken], law: str) -> list[dict[str, Any]]:
        return [{"text": entry.text, "probability": getattr(entry, law)} for entry in entries[:SHOWN]]

    return {"base_top": listed(found.base_entries, "base"), "joint_top": listed(found.entries, "joint")}


_TOP = pa.list_(pa.struct({"text": pa.string(), "probability": pa.float64()}))
_SCHEMA = pa.schema(
    {
        "kind": pa.string(),
        "context": pa.string(),
        "word": pa.string(),
        "base": pa.float64(),
        "joint": pa.float64(),
        "base_top": _TOP,
        "joint_top": _TOP,
    }
)


def _conclude(evidence: Sequence[Evidence]) -> Conclusion:
    changes = {kind: [_log_ratios(one, kind) for one in evidence] for kind in (REPEATED, NEW)}  # (n,) per run
    lowered = {kind: np.concatenate(runs) < 0 for kind, runs in changes.items()}
    rows: list[tuple[Cell, ...]] = []
    for kind, runs in changes.items():
        share = proportion(int(lowered[kind].sum()), len(lowered[kind]))
        ratio = mean(runs)
        shares = (100 * share.value, 100 * share.low, 100 * share.high)
        rows.append((kind, len(lowered[kind]), *shares, ratio.value, ratio.low, ratio.high))
    columns = ("word", "contexts", "lowered (%)", "low", "high", "mean log joint / base", "low ", "high ")
    return Conclusion(
        tables=(Table("words", columns, rows), _examples(evidence[0])),
        panels=(_panel({kind: np.concatenate(runs) for kind, runs in changes.items()}),),
        findings=(
            above(
                "The joint model gives a repetition of the LM a lower probability, more often than not.",
                "share of contexts",
                proportion(int(lowered[REPEATED].sum()), len(lowered[REPEATED])),
                0.5,
            ),
            above(
                "It lowers repetitions more than new words of the LM (beyond the paper).",
                "mean log joint / base, new words - repetitions",
                _difference(changes[NEW], changes[REPEATED]),
            ),
        ),
    )


def _log_ratios(one: Evidence, kind: str) -> np.ndarray:
    assert one.rows is not None
    records = [record for record in one.rows.to_pylist() if record["kind"] == kind]
    return np.array([np.log(record["joint"] / record["base"]) for record in records])


def _difference(first: Sequence[np.ndarray], second: Sequence[np.ndarray]) -> Estimate:
    """Difference of the means of two groups that are not paired."""
    values, std_errors = [], []
    for one, other in zip(first, second, strict=True):
        if len(one) == 0 or len(other) == 0:
            return NOTHING
        values.append(float(one.mean() - other.mean()))
        std_errors.append(float(np.hypot(std_error(one), std_error(other))))
    return over_runs(values, std_errors)


def _examples(one: Evidence) -> Table:
    """Repetitions with both laws side by side, likeliest tokens first; the repeated word is marked."""
    assert one.rows is not None
    repetitions = [record for record in one.rows.to_pylist() if record["kind"] == REPEATED]
    rows: list[tuple[Cell, ...]] = []
    for record in repetitions[:EXAMPLES]:
        for rank, (base, joint) in enumerate(zip(record["base_top"], record["joint_top"], strict=True)):
            context = "..." + record["context"][-CONTEXT_SHOWN:] if rank == 0 else ""
            cells = (_marked(base["text"], record["word"]), base["probability"])
            rows.append((context, rank, *cells, _marked(joint["text"], record["word"]), joint["probability"]))
    return Table("examples", ("context", "rank", "base LM", "P ", "joint model", "P"), rows)


def _marked(text: str, word: str) -> str:
    return f"**{text.strip()}**" if text == word else text.strip()


def _panel(changes: dict[str, np.ndarray]) -> Panel:
    everything = np.concatenate(list(changes.values()))
    edges = np.linspace(everything.min(), everything.max(), NUM_BINS + 1) if len(everything) else np.arange(2.0)
    middles = ((edges[:-1] + edges[1:]) / 2).tolist()
    return Panel(
        xlabel="log probability, joint model - base LM",
        ylabel="share of contexts",
        series=tuple(
            Series(f"{kind} words", middles, (np.histogram(values, edges)[0] / max(1, len(values))).tolist())
            for kind, values in changes.items()
        ),
    )


STUDY = Study(
    name="table-3",
    title="Next-token probabilities at repetitions",
    part="Table 3, Appendix A.1",
    method=(
        f"In a plain sample of the LM (top-k 10) for each held-out prefix, the first token of at least {LETTERS} "
        f"letters that is among the {NEAR} before it, and P(x_t | x_<t) there under the LM and under the joint model: "
        "Eq. 5 over the LM's likeliest tokens, each completed by samples up to the end of the window, and both laws "
        "renormalised over these tokens. The paper chose its examples by hand, with 128 tokens and 10,000 samples for "
        "each. A word that the LM has drawn is lowered on average by any other law, by the divergence of the two; so "
        "the first word in each sample that is not a repetition is looked at as well, to compare with."
    ),
    sizes={
        "cpu": Size("table-1-cpu", settings={"windows": 128, "samples": 64, "candidates": 32, "top_k": 10}),
        "paper": Size(
            "paper/cc-news-12-layers",
            "bit-base",
            settings={"windows": 128, "samples": 10_000, "candidates": 128, "top_k": 10},
        ),
    },
    measurement=Measurement("table-3", _rows),
    conclude=_conclude,
)
