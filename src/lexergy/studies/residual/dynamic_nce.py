"""Section 6: negatives that are closer to the joint model than the LM's are."""

from collections.abc import Sequence

import numpy as np

from lexergy.core.estimation.findings import Finding, Groups, above, mean, mean_difference
from lexergy.report.figures.picture import Panel, Series
from lexergy.report.pages.study import Conclusion
from lexergy.report.table import Cell, Table
from lexergy.studies.residual.table_1 import NATS, joint_gains
from lexergy.studies.residual.workspace import PAPER, RUN, Evidence, StudiedRun, documents
from lexergy.studies.study import Size, Study

MODELS = {
    "unit": "once, against the LM",
    "continued": "further, against the LM anew",
    "refreshed": "further, against the joint model",
}


def _conclude(evidence: Sequence[Evidence]) -> Conclusion:
    runs = [seen.run for seen in evidence]
    gains = {name: [joint_gains(run, name) for run in runs] for name in MODELS}  # (N,) per run
    groups = documents(evidence)
    estimates = {name: mean(values, groups=groups) for name, values in gains.items()}
    rows: list[tuple[Cell, ...]] = []
    for name, description in MODELS.items():
        results = [run.energies[name].perplexity for run in runs]
        keys = ("bound", "lower", "upper", "ess")
        bound, *estimate = (float(np.mean([getattr(result, key) for result in results])) for key in keys)
        rows.append((description, bound, *estimates[name], *estimate))
    columns = ("trained", "at most", f"gain ({NATS})", "low", "high", "estimate, optimistic", "pessimistic", "ESS")
    series = Series.of("", range(len(MODELS)), list(estimates.values()), "points")
    return Conclusion(
        tables=(Table("perplexity", columns, rows),),
        panels=(Panel("", f"gain ({NATS})", (series,), categories=tuple(MODELS.values())),),
        findings=(
            _better("refreshed", "unit", "Training on against the joint model's own samples helps", gains, groups),
            _better(
                "refreshed", "continued", "It helps more than training on against new samples of the LM", gains, groups
            ),
        ),
    )


def _better(better: str, worse: str, sentence: str, gains: dict[str, list[np.ndarray]], groups: Groups) -> Finding:
    quantity = f"gain {MODELS[better]} - gain {MODELS[worse]}, {NATS}"
    return above(
        f"{sentence}, by what either is at most.", quantity, mean_difference(gains[better], gains[worse], groups=groups)
    )


STUDY = Study(
    title="Negatives refreshed from the joint model",
    part="Section 6, which asks for it",
    paper=PAPER,
    method=(
        "A UniT energy is trained by NCE against samples of the LM, as in the paper. Then it is trained on against one "
        "new negative per prefix, drawn from its own joint model by resampling candidates; the classifier's logit is "
        "log P_model - log P_noise with the density of that very sampler, so that its optimum stays the data however "
        "few the candidates (dynamic NCE, Wang and Ou 2018; Lawson et al. 2019). The control is trained on for as many "
        "steps against new samples of the LM. The LM is trained briefly, so that the joint model differs from it. "
        "Gains are at least those of what is drawn from n candidates, paired by window; models are compared by that "
        "bound, which is a statement about their samplers and cannot exceed log(n) / C nats per token, with C tokens "
        "in a continuation. The paper has no numbers."
    ),
    sizes={
        "cpu": Size("dynamic-nce-cpu", {"energy": "unit"}),
        "paper": Size("paper/cc-news-dynamic-nce", {"energy": "unit"}),
    },
    workspace=RUN,
    examine=StudiedRun.found,
    conclude=_conclude,
)
