"""Figure 1: what the joint model gains at each position of the continuation."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import torch

from lexergy.core.estimation.findings import above, agrees, mean, over_runs, std_error
from lexergy.report.figures.picture import Panel, Series
from lexergy.report.pages.study import Conclusion
from lexergy.report.table import Cell, Table
from lexergy.runs.columns import to_column
from lexergy.studies.residual.workspace import PAPER, RUN, Evidence, StudiedRun, Subject, documents, doubt
from lexergy.studies.study import Settings, Size, Study

MEASURED = ("base", "lower", "upper", "last_exact")
PRECISION = 0.01  # nats: how narrow the interval must be before "agrees" means anything
NATS = "nats per token"


class Steps(NamedTuple):
    """log P(x_t | x_<t) of people's text: the LM's, bounds on the joint model's, and its exact last one."""

    base: np.ndarray  # (N, C)
    lower: np.ndarray  # (N, C)
    upper: np.ndarray  # (N, C)
    last_exact: np.ndarray  # (N,)
    documents: np.ndarray  # (N,)

    @property
    def middle(self) -> np.ndarray:  # (N, C)
        """The middle of both bounds of log Z is the jackknife estimate n T_n - (n - 1) T_{n-1}."""
        return (self.lower + self.upper) / 2

    @property
    def gap(self) -> np.ndarray:  # (N, C)
        return self.upper - self.lower

    @property
    def last_error(self) -> np.ndarray:  # (N,)
        return self.middle[:, -1] - self.last_exact

    @property
    def monte_carlo_error(self) -> float:
        """Of the mean of `last_error`: the bounds are as far apart as the variance of T_n, to first order."""
        return float(np.sqrt(np.maximum(self.gap[:, -1], 0).sum()) / len(self.gap))

    @property
    def last_std_error(self) -> float:
        """The larger of two estimates of the same error, since a few windows make either too small by chance."""
        return max(self.last_bootstrap_error, self.monte_carlo_error)

    @property
    def last_bootstrap_error(self) -> float:
        """Of the mean of `last_error`, over documents."""
        return std_error(self.last_error, groups=self.documents.tolist())

    @property
    def last_gain(self) -> np.ndarray:  # (N,)
        return self.last_exact - self.base[:, -1]


def rows(subject: Subject, ids: range) -> pa.Table:
    """The steps of each window."""
    windows = subject.windows
    # Window by window, each with its own seed: the random numbers of a window depend on no other.
    steps = [
        subject.joint.step_probabilities(
            windows.tokens[window : window + 1],
            windows.prefix_length,
            num_samples=subject.settings["samples"],
            seed=subject.seed + window,
            enumerated=subject.settings.get("enumerated"),
        )
        for window in ids
    ]
    columns = {name: torch.cat([getattr(step, name) for step in steps]) for name in MEASURED}
    return pa.table({name: to_column(values.numpy()) for name, values in columns.items()})


def _examine(workspace: StudiedRun, settings: Settings) -> Evidence:
    # A setting that figures made before did not have: where it changes nothing, they stay as they are.
    return workspace.measured("figure-1", rows, {key: value for key, value in settings.items() if value is not None})


def _conclude(evidence: Sequence[Evidence]) -> Conclusion:
    runs = [
        Steps(documents=np.array(seen.documents), **{name: seen.array(name) for name in MEASURED}) for seen in evidence
    ]
    pooled = Steps(*(np.concatenate(parts) for parts in zip(*runs, strict=True)))
    groups, reason = documents(evidence), doubt(evidence)
    # Perplexity of the joint model over the base LM's, at each position (C,), and exactly at the last.
    optimistic, pessimistic = (np.exp((pooled.base - joint).mean(0)) for joint in (pooled.upper, pooled.lower))
    exact = float(np.exp(-pooled.last_gain.mean()))
    return Conclusion(
        tables=(_by_position(optimistic, pessimistic, exact), _at_the_last(runs)),
        panels=(_panel(optimistic, pessimistic, exact),),
        findings=(
            agrees(
                "At the last position the estimate from samples agrees with the exact value.",
                f"estimate - exact, {NATS}",
                over_runs([float(run.last_error.mean()) for run in runs], [run.last_std_error for run in runs]),
                PRECISION,
            ),
            above(
                "The joint model outperforms the base LM at the last position for sure (exact value).",
                f"gain at the last position, {NATS}",
                mean([run.last_gain for run in runs], groups=groups),
            ),
            above(
                "The bounds get tighter to the right.",
                f"gap of the bounds, first half - second half, {NATS}",
                mean([_first_less_second_half(run.gap) for run in runs], groups=groups),
                doubt=reason,
            ),
            above(
                "The gain gets smaller to the right.",
                f"gain, first half - second half, {NATS}",
                mean([_first_less_second_half(run.middle - run.base) for run in runs], groups=groups),
                doubt=reason,
            ),
        ),
    )


def _first_less_second_half(values: np.ndarray) -> np.ndarray:  # (N, C) -> (N,)
    half = values.shape[1] // 2
    return values[:, :half].mean(1) - values[:, -half:].mean(1)


def _by_position(optimistic: np.ndarray, pessimistic: np.ndarray, exact: float) -> Table:
    places = zip(optimistic.tolist(), pessimistic.tolist(), strict=True)
    rows: list[tuple[Cell, ...]] = [(place, *ratios, None) for place, ratios in enumerate(places, start=1)]
    rows[-1] = (*rows[-1][:-1], exact)
    columns = ("position", "ratio, optimistic", "ratio, pessimistic", "ratio, exact")
    return Table("joint / base perplexity by position", columns, rows)


def _at_the_last(runs: Sequence[Steps]) -> Table:
    """Estimate and exact value of each run, with the standard error of their difference found in two ways."""
    rows: list[tuple[Cell, ...]] = []
    for number, run in enumerate(runs):
        ratios = (np.exp(-(run.middle - run.base)[:, -1].mean()), np.exp(-run.last_gain.mean()))
        difference = (float(run.last_error.mean()), run.last_bootstrap_error, run.monte_carlo_error)
        rows.append((number, *map(float, ratios), *difference, len(run.last_error)))
    columns = (
        "run",
        "ratio, from samples",
        "ratio, exact",
        "difference (nats)",
        "std. error over documents",
        "Monte-Carlo error",
        "windows",
    )
    return Table("last position", columns, rows)


def _panel(optimistic: np.ndarray, pessimistic: np.ndarray, exact: float) -> Panel:
    positions = list(range(1, len(optimistic) + 1))
    middle = np.sqrt(optimistic * pessimistic).tolist()
    return Panel(
        xlabel="position in the continuation",
        ylabel="perplexity, joint / base",
        series=(
            Series("between the bounds", positions, middle, optimistic.tolist(), pessimistic.tolist()),
            Series("exact", positions[-1:], [exact], style="points"),
        ),
        reference=1.0,
    )


STUDY = Study(
    title="Perplexity gain by position",
    part="Figure 1 and Section 4.2",
    paper=PAPER,
    method=(
        "log P(x_t | x_<t) of people's held-out text by Eq. 5, bounded with Eq. 4; at the last position also exactly, "
        "by enumeration of the vocabulary (with the setting `enumerated`: of so many of the LM's likeliest tokens, and "
        "a quarter as many drawn from the others for their share). A ratio below 1 is a gain over the base LM. The "
        "estimate compared with the exact value is the middle of the bounds; its standard error is the larger of that "
        "over documents and that told by the weights. The paper draws this for BiT-Med and BiT-Large* on CC-News with "
        "20,000 samples and gives no numbers."
    ),
    sizes={
        "cpu": Size("table-1-cpu", {"energy": "bit", "windows": 32, "samples": 256, "enumerated": None}),
        "paper": Size(
            "paper/cc-news-24-layers-bit-med",
            {"energy": "bit-med", "windows": 1024, "samples": 20_000, "enumerated": None},
        ),
    },
    workspace=RUN,
    examine=_examine,
    conclude=_conclude,
)
