"""Where a sampler's step goes, by operator: OpenVINO's own counters for the graphs, the clock for the rest."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from lexergy import CausalLM
from lexergy.models.causal import sampling
from lexergy.models.causal.runtimes import openvino_rows, openvino_steps

ROWS = (1, 2, 8, 32, 64, 256, 1024)
STEPS = 9
COLUMNS = ("linear layers", "attention", "other operators", "head", "draw", "random numbers", "rest")
OPERATORS = {
    "FullyConnected": "linear layers",
    "FullyConnectedCompressed": "linear layers",
    "PagedAttentionExtension": "attention",
}


def profile_table(lm: CausalLM, prefix: Tensor, top_k: int | None) -> list[str]:
    """Milliseconds of a step at each number of rows. Counters are wall time, so the machine should be quiet."""
    openvino_steps.SETTINGS["PERF_COUNT"] = True
    lines = [f"| {lm.precision}, rows | prefill | a step | {' | '.join(COLUMNS)} |"]
    lines.append("|---:" * (len(COLUMNS) + 3) + "|")
    for rows in ROWS:
        options: dict[str, Any] = {"num_samples": rows, "top_k": top_k, "rows_per_batch": rows}
        lm.sample(prefix, max_new_tokens=2, **options)
        with _counted() as (spent, last):
            lm.forget_prefix()
            lm.sample(prefix, max_new_tokens=1, **options)
            prefill = spent["prefill"]
            # Counters are means over all that a compiled graph was given: here, of these steps alone.
            openvino_steps._KEPT.clear()
            openvino_steps.compiled(lm.model, rows, lm.precision)
            lm.sample(prefix, max_new_tokens=STEPS + 1, **options)  # the first steps of a graph make its kernels
            spent.clear()
            start = time.perf_counter()
            lm.sample(prefix, max_new_tokens=STEPS + 1, **options)
            total = time.perf_counter() - start
        spent.update(_operators(last[-1]))
        spent["rest"] = total - sum(spent[column] for column in COLUMNS)
        times = [prefill * STEPS, total, *(spent[column] for column in COLUMNS)]
        lines.append(f"| {rows:,} | {' | '.join(f'{1000 * value / STEPS:.1f}' for value in times)} |")
    return lines


def _operators(rows: openvino_rows.OpenVinoContinuations) -> Counter[str]:
    """Seconds of all steps that the rows' graphs were given."""
    spent: Counter[str] = Counter()
    for request, place in ((rows._last.request, None), (rows._head, "head")):
        for operator in request.profiling_info:
            column = place or OPERATORS.get(operator.node_type, "other operators")
            spent[column] += operator.real_time.total_seconds() * STEPS
    return spent


@contextmanager
def _counted() -> Iterator[tuple[Counter[str], list[Any]]]:
    """The seconds of prefill, draw and random numbers while samples are drawn, and the rows that were fed."""
    spent: Counter[str] = Counter()
    fed: list[Any] = []

    def timed(column: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            start = time.perf_counter()
            result = call(*arguments, **options)
            spent[column] += time.perf_counter() - start
            return result

        return run

    def noted(call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            fed.append(call(*arguments))
            return fed[-1]

        return run

    steps: Any = openvino_steps.OpenVinoSteps
    places = [(steps, "prefill"), (sampling, "draw"), (sampling, "uniforms"), (steps, "rows")]
    kept = [getattr(owner, name) for owner, name in places]
    prefill, draw, uniforms, rows = kept
    changed = (timed("prefill", prefill), timed("draw", draw), timed("random numbers", uniforms), noted(rows))
    for (owner, name), call in zip(places, changed, strict=True):
        setattr(owner, name, call)
    try:
        yield spent, fed
    finally:
        for (owner, name), call in zip(places, kept, strict=True):
            setattr(owner, name, call)
