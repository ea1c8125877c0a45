"""Figure 2, left: how many samples the perplexity needs."""

from collections.abc import Sequence

import numpy as np

from lexergy.core.estimation.findings import above, mean, similar
from lexergy.core.estimation.perplexity import PerplexityEstimate
from lexergy.report.figures.picture import Panel, Series
from lexergy.report.pages.study import Conclusion
from lexergy.report.table import Table
from lexergy.studies.residual.workspace import PAPER, RUN, Evidence, StudiedRun, documents, doubt, usual_sizes
from lexergy.studies.study import Study

STABLE = 0.005  # nats per token, half a per cent of the perplexity


def _conclude(evidence: Sequence[Evidence]) -> Conclusion:
    estimates = [seen.run.energies[seen.energy].perplexity for seen in evidence]
    curves = [estimate.curve for estimate in estimates]
    sizes = [point.num_samples for point in curves[0]]
    lower = np.mean([[point.lower for point in curve] for curve in curves], axis=0)  # (S,)
    upper = np.mean([[point.upper for point in curve] for curve in curves], axis=0)  # (S,)
    bound = np.mean([[point.bound for point in curve] for curve in curves], axis=0)  # (S,)
    base = float(np.mean([estimate.base for estimate in estimates]))
    bounds = [_log_z_per_token(estimate) for estimate in estimates]  # per run: lower (N, S), upper (N, S)
    gaps = [high - low for low, high in bounds]
    quarter = max(0, len(sizes) - 3)
    groups, reason = documents(evidence), doubt(evidence)
    rows = [
        (size, float(most), float(low), float(high), 100 * float(high / low - 1))
        for size, most, low, high in zip(sizes, bound, lower, upper, strict=True)
    ]
    return Conclusion(
        tables=(Table("bounds", ("samples", "at most", "optimistic", "pessimistic", "gap (%)"), rows),),
        panels=(
            Panel(
                xlabel="samples per window",
                ylabel="perplexity",
                series=(
                    Series("joint model, at most", sizes, bound.tolist()),
                    Series("joint model, pessimistic", sizes, upper.tolist()),
                    Series("joint model, optimistic", sizes, lower.tolist()),
                    Series("base LM", [sizes[0], sizes[-1]], [base, base]),
                ),
                log_x=True,
            ),
        ),
        findings=(
            above(
                "The gap between the bounds closes as more samples are taken.",
                f"gap at {sizes[0]} samples - gap at {sizes[-1]}, nats per token",
                mean([gap[:, 0] - gap[:, -1] for gap in gaps], groups=groups),
                doubt=reason,
            ),
            similar(
                "The pessimistic estimate becomes stable.",
                f"its change from {sizes[quarter]} to {sizes[-1]} samples, nats per token",
                mean([high[:, quarter] - high[:, -1] for _, high in bounds], groups=groups),
                STABLE,
                doubt=reason,
            ),
        ),
    )


def _log_z_per_token(estimate: PerplexityEstimate) -> tuple[np.ndarray, np.ndarray]:
    """Both bounds of each window's log Z per token, against the number of samples: (N, S) each."""
    bounds, length = estimate.windows.log_z, estimate.continuation_length
    return bounds.lower.numpy() / length, bounds.upper.numpy() / length


STUDY = Study(
    title="Perplexity against the number of samples",
    part="Figure 2, left, and Section 4.3",
    paper=PAPER,
    method=(
        "Both bounds of Eq. 4 from the run's stored samples, at each size averaged over disjoint blocks of samples. "
        "The paper draws this for joint BiT-Base on CC-News's validation set; ours is the test set. Its numbers: "
        "15.32 - 15.35 from 100,000 samples, and “beyond 20,000 samples the upper estimate becomes very stable”. "
        f"Stable means here: changed by less than {STABLE} nats per token (half a per cent) when the last three "
        "quarters of the samples are added. Beside them the bound of what is drawn from as many candidates, which "
        "needs no trust in the weights."
    ),
    sizes=usual_sizes(),
    workspace=RUN,
    examine=StudiedRun.found,
    conclude=_conclude,
)
