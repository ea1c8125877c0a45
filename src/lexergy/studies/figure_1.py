"""Figure 1: what the joint model gains at each position of the continuation."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import torch

from lexergy.studies.findings import above, agrees, mean, std_error
from lexergy.studies.picture import Panel, Series
from lexergy.studies.study import Conclusion, Evidence, Measurement, Size, Study, Subject, Table
from lexergy.tasks.columns import to_column

PRECISION = 0.01  # nats: how narrow the interval must be before "agrees" means anything
NATS = "nats per token"


def _rows(subject: Subject, ids: range) -> pa.Table:
    windows, num_samples = subject.windows, subject.settings["samples"]
    assert num_samples is not None
    # Window by window, each with its own seed: the random numbers of a window depend on no other.
    steps = [
        subject.joint.step_probabilities(
            windows.tokens[window : window + 1],
            windows.prefix_length,
            num_samples=num_samples,
            seed=subject.seed + window,
        )
        for window in ids
    ]
    names = ("base", "lower", "upper", "last_exact")  # (1, C), (1, C), (1, C), (1,) each
    return pa.table({name: to_column(torch.cat([getattr(step, name) for step in steps]).numpy()) for name in names})


def _conclude(evidence: Sequence[Evidence]) -> Conclusion:
    base, lower, upper, exact = (
        [one.array(name) for one in evidence] for name in ("base", "lower", "upper", "last_exact")
    )  # per run (N, C), (N, C), (N, C), (N,)
    # The middle of the two bounds of log Z is the jackknife estimate n T_n - (n - 1) T_{n-1}.
    middle = [(low + high) / 2 for low, high in zip(lower, upper, strict=True)]
    gain = [joint - lm for joint, lm in zip(middle, base, strict=True)]  # (N, C)
    gap = [high - low for low, high in zip(lower, upper, strict=True)]  # (N, C)
    error = [joint[:, -1] - true for joint, true in zip(middle, exact, strict=True)]  # (N,)
    return Conclusion(
        tables=(_by_position(base, lower, upper, exact), _at_the_last(base, middle, exact, gap, error)),
        panels=(_panel(base, lower, upper, exact),),
        findings=(
            agrees(
                "At the last position the estimate from samples agrees with the exact value.",
                f"estimate - exact, {NATS}",
                mean(error),
                PRECISION,
            ),
            above(
                "The joint model gains at the last position for sure (exact value).",
                f"exact gain at the last position, {NATS}",
                mean([true - lm[:, -1] for true, lm in zip(exact, base, strict=True)]),
            ),
            above(
                "The bounds get tighter to the right.",
                f"gap of the bounds, first half - second half, {NATS}",
                mean([_first_less_second_half(values) for values in gap]),
            ),
            above(
                "The gain gets smaller to the right.",
                f"gain, first half - second half, {NATS}",
                mean([_first_less_second_half(values) for values in gain]),
            ),
        ),
    )


def _first_less_second_half(values: np.ndarray) -> np.ndarray:  # (N, C) -> (N,)
    half = values.shape[1] // 2
    return values[:, :half].mean(1) - values[:, -half:].mean(1)


def _ratio(base: Sequence[np.ndarray], joint: Sequence[np.ndarray]) -> np.ndarray:  # (N, ...) -> (...)
    """Perplexity of the joint model over the base LM's, at each position."""
    return np.exp((np.concatenate(base) - np.concatenate(joint)).mean(0))


def _by_position(base, lower, upper, exact) -> Table:  # type: ignore[no-untyped-def]
    optimistic, pessimistic = _ratio(base, upper), _ratio(base, lower)  # (C,)
    last = float(_ratio([lm[:, -1] for lm in base], exact))
    length = len(optimistic)
    rows = [
        (place + 1, float(optimistic[place]), float(pessimistic[place]), last if place == length - 1 else None)
        for place in range(length)
    ]
    columns = ("position", "ratio, optimistic", "ratio, pessimistic", "ratio, exact")
    return Table("by position", columns, list(rows))


def _at_the_last(base, middle, exact, gap, error) -> Table:  # type: ignore[no-untyped-def]
    """Estimate and exact value of each run, with the standard error of their difference found in two ways."""
    rows = []
    for number, (lm, joint, true, width, difference) in enumerate(zip(base, middle, exact, gap, error, strict=True)):
        # The bounds are one variance of T_n apart: 1/n Var(w) / E[w]^2, to first order.
        monte_carlo = float(np.sqrt(np.maximum(width[:, -1], 0).sum()) / len(width))
        rows.append(
            (
                number,
                float(_ratio([lm[:, -1]], [joint[:, -1]])),
                float(_ratio([lm[:, -1]], [true])),
                float(difference.mean()),
                std_error(difference),
                monte_carlo,
                len(true),
            )
        )
    columns = (
        "run",
        "ratio, from samples",
        "ratio, exact",
        "difference (nats)",
        "std. error over windows",
        "Monte-Carlo error",
        "windows",
    )
    return Table("last position", columns, rows)


def _panel(base, lower, upper, exact) -> Panel:  # type: ignore[no-untyped-def]
    optimistic, pessimistic = _ratio(base, upper), _ratio(base, lower)  # (C,)
    positions = list(range(1, len(optimistic) + 1))
    last = float(_ratio([lm[:, -1] for lm in base], exact))
    middle = np.sqrt(optimistic * pessimistic)
    return Panel(
        xlabel="position in the continuation",
        ylabel="perplexity, joint / base",
        series=(
            Series("between the bounds", positions, middle.tolist(), optimistic.tolist(), pessimistic.tolist()),
            Series("exact", positions[-1:], [last], style="points"),
        ),
        reference=1.0,
    )


STUDY = Study(
    name="figure-1",
    title="Perplexity gain by position",
    part="Figure 1 and Section 4.2",
    method=(
        "log P(x_t | x_<t) of people's held-out text by Eq. 5, bounded with Eq. 4; at the last position also exactly, "
        "by enumeration of the vocabulary. A ratio below 1 is a gain over the base LM. The estimate compared with the "
        "exact value is the middle of the bounds. The paper draws this for BiT-Med and BiT-Large* on CC-News with "
        "20,000 samples and gives no numbers."
    ),
    sizes={
        "cpu": Size("table-1-cpu", settings={"windows": 64, "samples": 256}),
        "paper": Size("paper/cc-news-24-layers", settings={"windows": 1024, "samples": 20_000}),
    },
    measurement=Measurement("figure-1", _rows),
    conclude=_conclude,
)
