"""A run evaluated by lm-eval: base LM and joint model on the same items, with intervals over these."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import lm_eval
import numpy as np
from lm_eval.api.task import Task

from lexergy.core.estimation.bootstrap import group_counts
from lexergy.core.estimation.findings import BOOTSTRAP_SEED, CONFIDENCE, Estimate, clopper_pearson
from lexergy.errors import LexergyError
from lexergy.tasks.harness.base_lm import BaseLM
from lexergy.tasks.harness.joint_lm import JointLM
from lexergy.tasks.harness.run_lm import RunLM
from lexergy.tasks.harness.task_list import LoadedTasks
from lexergy.tasks.harness.treatment import Treatment

NUM_RESAMPLES = 1000
MODELS = {"base": BaseLM, "joint": JointLM}
_TAILS = (100 * (1 - CONFIDENCE) / 2, 100 * (1 + CONFIDENCE) / 2)

Aggregation = Callable[[list[Any]], float]


@dataclass(frozen=True)
class MetricResult:
    """A metric of a task: the base LM's, the joint model's, and by how much the latter is above, paired by item."""

    task: str
    metric: str
    filter: str
    higher_is_better: bool | None
    num_items: int
    base: Estimate | None
    joint: Estimate | None
    difference: Estimate | None


@dataclass(frozen=True)
class HarnessResult:
    """All that lm-eval found, and how the joint model's numbers came about."""

    lm_eval: str  # its version
    metrics: tuple[MetricResult, ...]
    treatments: tuple[Treatment, ...]
    notes: tuple[str, ...]


def evaluate(
    models: Mapping[str, RunLM],  # by `base` and `joint`
    loaded: LoadedTasks,
    *,
    limit: int | None = None,
    num_fewshot: int | None = None,
    generation_kwargs: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> HarnessResult:
    """Each model on all tasks; `seed` is that of few-shot examples."""
    samples = {}
    for name, model in models.items():
        for task in loaded.tasks.values():
            _configure(task, num_fewshot, generation_kwargs, seed)
        results = lm_eval.evaluate(lm=model, task_dict={"tasks": loaded.tasks}, limit=limit, bootstrap_iters=0)
        samples[name] = results["samples"]
    notes = [f"{name}: {note}" for name, model in models.items() for note in model.notes]
    treatments = [item for model in models.values() if isinstance(model, JointLM) for item in model.treatments]
    metrics = [
        result
        for task_name, task in loaded.tasks.items()
        for result in _metrics(task_name, task, {name: own[task_name] for name, own in samples.items()})
    ]
    return HarnessResult(lm_eval.__version__, tuple(metrics), tuple(treatments), tuple(notes))


def _configure(task: Task, num_fewshot: int | None, generation_kwargs: Mapping[str, Any] | None, seed: int) -> None:
    """As lm-eval's own command does; a task that wants no examples before its items gets none."""
    if generation_kwargs and task.OUTPUT_TYPE == "generate_until":
        task.set_config(key="generation_kwargs", value=dict(generation_kwargs), update=True)
    if task.get_config("num_fewshot") is None or (num_fewshot is not None and task.get_config("num_fewshot") != 0):
        task.set_config(key="num_fewshot", value=num_fewshot or 0)
    task.set_fewshot_seed(seed=seed)


def _metrics(name: str, task: Task, samples: Mapping[str, Sequence[dict[str, Any]]]) -> list[MetricResult]:
    """All metrics of a task, filter by filter."""
    results = []
    first = next(iter(samples.values()))
    for filter_name in dict.fromkeys(sample["filter"] for sample in first):
        own = {
            name: [sample for sample in listed if sample["filter"] == filter_name] for name, listed in samples.items()
        }
        _check_same_items(name, list(own.values()))
        for metric in own[next(iter(own))][0]["metrics"]:
            values = {name: [sample[metric] for sample in listed] for name, listed in own.items()}
            aggregation = task.aggregation().get(metric, lambda items: float(np.mean(items)))
            estimates = paired_estimates(values, aggregation)
            results.append(
                MetricResult(
                    task=name,
                    metric=metric,
                    filter=filter_name,
                    higher_is_better=task.higher_is_better().get(metric),
                    num_items=len(next(iter(values.values()))),
                    base=estimates.get("base"),
                    joint=estimates.get("joint"),
                    difference=estimates.get("difference"),
                )
            )
    return results


def paired_estimates(values: Mapping[str, list[Any]], aggregation: Aggregation) -> dict[str, Estimate]:
    """A metric of each model, and of `joint` minus `base`, with percentile intervals of the bootstrap over items.

    The same items are drawn again for both models (Koehn 2004); `aggregation` is the task's own, whatever it makes of
    the items' values. The bootstrap knows nothing of what did not happen: a share has the interval of Clopper and
    Pearson (1934), and where no item tells two models apart, they differ by at most what that leaves open.
    """
    num_items = len(next(iter(values.values())))
    counts, _ = group_counts(range(num_items), BOOTSTRAP_SEED, NUM_RESAMPLES)  # (R, N)
    drawn = [np.repeat(np.arange(num_items), row) for row in counts.long().numpy()]
    whole = {name: float(aggregation(own)) for name, own in values.items()}
    again = {
        name: np.array([aggregation([own[item] for item in items]) for items in drawn], dtype=float)
        for name, own in values.items()
    }  # (R,)
    if {"base", "joint"} <= set(values):
        whole["difference"] = whole["joint"] - whole["base"]
        again["difference"] = again["joint"] - again["base"]
    estimates = {
        name: Estimate(value, *(np.percentile(again[name], _TAILS).tolist() if num_items > 1 else (np.nan, np.nan)))
        for name, value in whole.items()
    }
    if all(_are_hits(own) and whole[name] == np.mean(own) for name, own in values.items()):
        estimates |= {name: clopper_pearson(whole[name], num_items) for name in values}
        if "difference" in whole and values["base"] == values["joint"]:
            most = clopper_pearson(0.0, num_items).high
            estimates["difference"] = Estimate(0.0, -most, most)
    return estimates


def _are_hits(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int | float) and value in (0, 1) for value in values)


def _check_same_items(task: str, listed: Sequence[Sequence[dict[str, Any]]]) -> None:
    prompts = {tuple((item["doc_hash"], item["prompt_hash"]) for item in own) for own in listed}
    if len(prompts) > 1:
        raise LexergyError(
            f"the models were given different items of task {task}; expected the same ones, to be compared; "
            "does the task draw its prompts at random?"
        )
