"""Section 6: negatives that are closer to the joint model than the LM's are."""

from collections.abc import Sequence

import numpy as np

from lexergy.core.estimation.findings import Finding, above, mean
from lexergy.report.picture import Panel, Series
from lexergy.studies.residual.table_1 import NATS, joint_gains
from lexergy.studies.study import Cell, Conclusion, Evidence, Size, Study, Table

MODELS = {
    "unit": "once, against the LM",
    "continued": "further, against the LM anew",
    "refreshed": "further, against the joint model",
}


def _conclude(evidence: Sequence[Evidence]) -> Conclusion:
    runs = [one.run for one in evidence]
    gains = {name: [joint_gains(run, name) for run in runs] for name in MODELS}  # (N,) per run
    estimates = {name: mean(values) for name, values in gains.items()}
    rows: list[tuple[Cell, ...]] = []
    for name, description in MODELS.items():
        results = [run.energies[name].perplexity for run in runs]
        numbers = (float(np.mean([getattr(result, key) for result in results])) for key in ("lower", "upper", "ess"))
        found = estimates[name]
        rows.append((description, *numbers, found.value, found.low, found.high))
    columns = ("trained", "optimistic", "pessimistic", "ESS", f"gain ({NATS})", "low", "high")
    points = [estimates[name] for name in MODELS]
    series = Series(
        "",
        range(len(MODELS)),
        [point.value for point in points],
        [point.low for point in points],
        [point.high for point in points],
        style="points",
    )
    return Conclusion(
        tables=(Table("perplexity", columns, rows),),
        panels=(Panel("", f"gain over the base LM ({NATS})", (series,), categories=tuple(MODELS.values())),),
        findings=(
            _better("refreshed", "unit", "Training on against the joint model's own samples helps.", gains),
            _better("refreshed", "continued", "It helps more than training on against new samples of the LM.", gains),
        ),
    )


def _better(one: str, other: str, sentence: str, gains: dict[str, list[np.ndarray]]) -> Finding:
    difference = mean([a - b for a, b in zip(gains[one], gains[other], strict=True)])
    return above(sentence, f"gain {MODELS[one]} - gain {MODELS[other]}, {NATS}", difference)


STUDY = Study(
    name="dynamic-nce",
    title="Negatives refreshed from the joint model",
    part="Section 6, which asks for it",
    method=(
        "A UniT energy is trained by NCE against samples of the LM, as in the paper. Then it is trained on against one "
        "new negative per prefix, drawn from its own joint model by resampling candidates; the classifier's logit is "
        "log P_model - log P_noise, so that its optimum stays the data (dynamic NCE, Wang and Ou 2018). The control is "
        "trained on for as many steps against new samples of the LM. The LM is trained briefly, so that the joint "
        "model differs from it. Gains are pessimistic and paired by window. The paper has no numbers."
    ),
    sizes={"cpu": Size("dynamic-nce-cpu", "unit"), "paper": Size("paper/cc-news-dynamic-nce", "unit")},
    conclude=_conclude,
)
