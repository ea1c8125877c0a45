"""Where a sampler's step goes, by operator: OpenVINO's own counters for the graphs, CPU time for the rest."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from lexergy import CausalLM
from lexergy.models.causal import sampling
from lexergy.models.causal.runtimes import openvino_rows

ROWS = (1, 2, 8, 32, 64, 256, 1024)
STEPS = 9
COLUMNS = ("linear layers", "attention", "other operators", "head", "keys and values", "draw", "random numbers", "rest")
ATTENTION = {"MatMul", "Softmax"}


def profile_table(lm: CausalLM, prefix: Tensor, top_k: int | None) -> list[str]:
    """Milliseconds of a step at each number of rows. Counters are wall time, so the machine should be quiet."""
    openvino_rows.SETTINGS["PERF_COUNT"] = True
    lines = [f"| rows | prefill | a step | {' | '.join(COLUMNS)} |", "|---:" * (len(COLUMNS) + 3) + "|"]
    for rows in ROWS:
        lm.sample(prefix, num_samples=rows, max_new_tokens=2, top_k=top_k)
        spent: Counter[str] = Counter()
        with _counted(spent):
            lm.forget_prefix()
            lm.sample(prefix, num_samples=rows, max_new_tokens=1, top_k=top_k)
            prefill = spent["prefill"]
            spent.clear()
            # Counters are means over all that a compiled graph was given: here, of these steps alone.
            openvino_rows._KEPT.clear()
            openvino_rows.compiled(lm.model, rows)
            start = time.perf_counter()
            lm.sample(prefix, num_samples=rows, max_new_tokens=STEPS + 1, top_k=top_k)
            total = time.perf_counter() - start
        spent["rest"] = total - sum(spent[column] for column in COLUMNS)
        times = [prefill * STEPS, total, *(spent[column] for column in COLUMNS)]
        lines.append(f"| {rows:,} | {' | '.join(f'{1000 * value / STEPS:.1f}' for value in times)} |")
    return lines


@contextmanager
def _counted(spent: Counter[str]) -> Iterator[None]:
    """Add up the seconds of each column while samples are drawn."""
    rows, steps = openvino_rows.OpenVinoContinuations, openvino_rows.OpenVinoSteps
    usual = [(rows, "feed"), (rows, "_keep"), (steps, "prefill"), (sampling, "draw"), (sampling, "uniforms")]
    kept = [getattr(owner, name) for owner, name in usual]
    feed, keep, prefill, draw, uniforms = kept

    def timed(column: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            start = time.perf_counter()
            result = call(*arguments, **options)
            spent[column] += time.perf_counter() - start
            return result

        return run

    def counted_feed(self: Any, tokens: Tensor, **options: Any) -> Any:
        output = feed(self, tokens, **options)
        if tokens.shape[1] > 1:
            return output  # a prefix
        means: Counter[str] = Counter()
        for request, place in ((self._layers, None), (self._head, "head")):
            for operator in request.profiling_info:
                kind = operator.node_type
                column = "linear layers" if "FullyConnected" in kind else "other operators"
                column = "attention" if kind in ATTENTION else column
                means[place or column] += operator.real_time.total_seconds()
        spent.update({column: mean * STEPS - spent[column] for column, mean in means.items()})
        return output

    changed = (counted_feed, timed("keys and values", keep), timed("prefill", prefill))
    changed += (timed("draw", draw), timed("random numbers", uniforms))
    for (owner, name), call in zip(usual, changed, strict=True):
        setattr(owner, name, call)
    try:
        yield
    finally:
        for (owner, name), call in zip(usual, kept, strict=True):
            setattr(owner, name, call)
