"""Section 6: longer texts, the joint model being auto-regressive over chunks instead of tokens."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lexergy.core.estimation.findings import Finding, Groups, above, mean, mean_difference, mean_distance_difference
from lexergy.core.text_measures.repetition import unique_share
from lexergy.models.joint.long_text import continue_long
from lexergy.report.figures.picture import Panel, Series
from lexergy.report.pages.study import Conclusion
from lexergy.report.table import Cell, Table
from lexergy.runs.columns import to_column
from lexergy.studies.residual.workspace import PAPER, RUN, Evidence, StudiedRun, Subject, documents, usual_sizes
from lexergy.studies.study import Settings, Study

WRITERS = {"joint": "joint model", "base": "base LM"}
ORDER = 3


def rows(subject: Subject, ids: range) -> pa.Table:
    """Long texts of both models after each prefix, untruncated; the LM's is one candidate per chunk."""
    joint, settings = subject.joint, subject.settings
    windows = subject.windows.select(list(ids))
    columns = {
        "human_log_prob": joint.lm.log_prob(windows.tokens, prefix_length=windows.prefix_length),  # (B,)
        "human_tokens": windows.continuations,  # (B, C)
    }
    for writer, candidates in (("joint", settings["candidates"]), ("base", 1)):
        written = continue_long(
            joint,
            windows.prefixes,
            num_chunks=settings["chunks"] or 1,
            chunk_tokens=windows.continuation_length,
            context_tokens=windows.prefix_length,
            num_candidates=candidates or 1,
            seed=subject.seed,
            prefix_ids=ids,
        )
        columns[f"{writer}_tokens"] = written.tokens  # (B, J C)
        columns[f"{writer}_log_prob"] = written.log_prob  # (B, J)
    return pa.table({name: to_column(values.numpy()) for name, values in columns.items()})


def _examine(workspace: StudiedRun, settings: Settings) -> Evidence:
    return workspace.measured("long-text", rows, settings)


def _conclude(evidence: Sequence[Evidence]) -> Conclusion:
    length = evidence[0].run.recipe.windows.continuation
    people = [seen.array("human_log_prob") / length for seen in evidence]  # (N,) per run
    # Nats per token that each chunk is less likely to the LM than people's text: (N, J) per run.
    distance = {
        writer: [
            human[:, None] - seen.array(f"{writer}_log_prob") / length
            for human, seen in zip(people, evidence, strict=True)
        ]
        for writer in WRITERS
    }
    num_chunks = distance["base"][0].shape[1]
    estimates = {
        writer: [
            mean([values[:, chunk] for values in distance[writer]], groups=documents(evidence))
            for chunk in range(num_chunks)
        ]
        for writer in WRITERS
    }
    lines: list[tuple[Cell, ...]] = [
        (label, chunk, *estimate)
        for writer, label in WRITERS.items()
        for chunk, estimate in enumerate(estimates[writer], start=1)
    ]
    series = tuple(Series.of(label, range(1, num_chunks + 1), estimates[writer]) for writer, label in WRITERS.items())
    columns = ("text of", "chunk", "people - model, log P_LM per token", "low", "high")
    return Conclusion(
        tables=(Table("likelihood by chunk", columns, lines), _unique_table(evidence)),
        panels=(Panel("chunk", "log P_LM per token, people - model", series),),
        findings=(
            *(_closer(distance, chunk, documents(evidence)) for chunk in range(num_chunks)),
            _more_unique(evidence),
        ),
    )


def _closer(distance: dict[str, list[np.ndarray]], chunk: int, groups: Groups) -> Finding:
    base, joint = ([values[:, chunk] for values in distance[writer]] for writer in ("base", "joint"))
    return above(
        f"The LM finds the joint model's text as likely as people's, more nearly so than its own (chunk {chunk + 1}).",
        "absolute difference of means, base LM - joint model, nats per token",
        mean_distance_difference(base, joint, groups=groups),
    )


def _unique_shares(evidence: Sequence[Evidence], writer: str) -> list[np.ndarray]:  # (N,) per run, in %
    return [100 * unique_share(seen.array(f"{writer}_tokens"), ORDER) for seen in evidence]


def _unique_table(evidence: Sequence[Evidence]) -> Table:
    groups = documents(evidence)
    lines = [(label, *mean(_unique_shares(evidence, writer), groups=groups)) for writer, label in WRITERS.items()]
    return Table("repetition", ("text of", f"unique {ORDER}-grams within a text (%)", "low", "high"), lines)


def _more_unique(evidence: Sequence[Evidence]) -> Finding:
    return above(
        "The joint model repeats itself less over a long text than the base LM.",
        f"unique {ORDER}-grams, joint model - base LM, percentage points",
        mean_difference(*(_unique_shares(evidence, writer) for writer in WRITERS), groups=documents(evidence)),
    )


STUDY = Study(
    title="Long texts, chunk by chunk",
    part="Section 6, which asks for it",
    paper=PAPER,
    method=(
        "After each held-out prefix the joint model writes four chunks, each resampled by its energy from candidates "
        "of the LM and then kept; the base LM writes as much by plain sampling. Nothing is truncated, and both read "
        "as much context as the energy was trained with. As in Figure 3, a model that matches the data must write "
        "text that the LM finds as likely as people's; the energy itself does not judge. The paper has no numbers."
    ),
    sizes=usual_sizes(
        cpu={"windows": 256, "chunks": 4, "candidates": 64}, paper={"windows": 333, "chunks": 4, "candidates": 10_000}
    ),
    workspace=RUN,
    examine=_examine,
    conclude=_conclude,
)
