"""Figure 3: does a model find people's text as likely as its own?"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lexergy.core.estimation.findings import above, mean, mean_distance_difference
from lexergy.report.figures.distributions import densities
from lexergy.report.figures.picture import Panel
from lexergy.report.pages.study import Conclusion
from lexergy.report.table import Table
from lexergy.studies.residual.samples import UNTRUNCATED, samples
from lexergy.studies.residual.workspace import PAPER, RUN, Evidence, documents, doubt
from lexergy.studies.study import Study

PRINTED = {"base LM": 21.64, "joint model": 6.20}


class Scores(NamedTuple):
    """Log-probabilities under one model, one per prefix (N,)."""

    people: np.ndarray  # of people's text
    sample: np.ndarray  # of one sample of the model's own
    own_mean: np.ndarray  # the mean over all such samples, from all candidates of the prefix


def _conclude(evidence: Sequence[Evidence]) -> Conclusion:
    models = {"base LM": _base_scores, "joint model": _joint_scores}
    scores = {model: [score(seen) for seen in evidence] for model, score in models.items()}
    differences = {model: [run.people - run.own_mean for run in runs] for model, runs in scores.items()}
    rows = []
    for model, runs in scores.items():
        people, _, own = (float(np.mean([values.mean() for values in part])) for part in zip(*runs, strict=True))
        rows.append((model, people, own, *mean(differences[model], groups=documents(evidence)), PRINTED[model]))
    columns = ("log-probability under", "people's text", "own samples", "difference", "low", "high", "paper, absolute")
    return Conclusion(
        tables=(Table("difference of means", columns, rows),),
        panels=tuple(_panel(model, runs) for model, runs in scores.items()),
        findings=(
            above(
                "The joint model's own samples match people's text more closely than the base LM's match it: "
                "the difference of mean log-probabilities is smaller.",
                "absolute difference of means, base LM - joint model, nats",
                mean_distance_difference(
                    differences["base LM"], differences["joint model"], groups=documents(evidence)
                ),
                doubt=doubt(evidence),
            ),
        ),
    )


def _base_scores(seen: Evidence) -> Scores:
    """log P_LM."""
    return Scores(seen.array("human_log_prob"), seen.array("base_log_prob"), seen.array("base_mean_log_prob"))


def _joint_scores(seen: Evidence) -> Scores:
    """log P_LM - E - log Z."""
    log_z = (seen.array("log_z_lower") + seen.array("log_z_upper")) / 2
    people, sample = (seen.array(f"{name}_log_prob") - seen.array(f"{name}_energy") for name in ("human", "joint"))
    return Scores(people - log_z, sample - log_z, seen.array("joint_mean_score") - log_z)


def _panel(model: str, runs: Sequence[Scores]) -> Panel:
    people, own = (np.concatenate(part) for part in ([run.people for run in runs], [run.sample for run in runs]))
    return Panel(
        xlabel="log-probability of a continuation",
        ylabel="density",
        title=f"under the {model}",
        series=densities({"people's text": people, f"samples of the {model}": own}),
    )


STUDY = Study(
    title="Log-probabilities of people's text and of a model's own samples",
    part="Figure 3 and Section 4.3",
    paper=PAPER,
    method=(
        "For each held-out prefix: log P_LM of people's continuation and of a sample of the LM, and log P of people's "
        "continuation and of a sample of the joint model (resampled from the LM's). Nothing is truncated. The means "
        "over a model's own samples are taken over all candidates of a prefix, for the joint model by their weights. "
        "log Z of a prefix is the middle of its bounds and the same for both texts, so it cancels in the difference. "
        "The paper's differences are those of 40 tokens of CC-News, printed without a sign."
    ),
    sizes=UNTRUNCATED,
    workspace=RUN,
    examine=samples,
    conclude=_conclude,
)
