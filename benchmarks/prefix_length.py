"""A run's models after longer prefixes than its own: the same continuations of held-out documents, told more before.

Windows are cut with the long prefix; the short one is its end. Windows are taken document by document in turn. The LM
and what corrects it are exact. The energy is that of the run, which was fitted after short prefixes; what its joint
model is at most is that of as many candidates as there are samples. Errors are over documents, differences paired.
"""

import argparse
from pathlib import Path

import torch
from smc_bound import perplexity, round_robin
from torch import Tensor

from lexergy.cli.memory import keep_freed_memory
from lexergy.core.estimation.bootstrap import bootstrap_std_error
from lexergy.models.causal.language_model import LanguageModel
from lexergy.models.joint.model import ResidualEBM
from lexergy.runs.records import load_run
from lexergy.tasks.residual.base_models import cut_windows
from lexergy.tasks.residual.context import RunContext


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--energy", default="energy")
    parser.add_argument("--prefix", type=int, default=256, help="tokens")
    parser.add_argument("--windows", type=int, default=64)
    parser.add_argument("--samples", type=int, default=32, help="0: without the energy")
    arguments = parser.parse_args()
    recipe = load_run(arguments.run).recipe
    context, short = RunContext(recipe, arguments.run), recipe.windows.prefix
    longer = recipe.model_copy(update={"windows": recipe.windows.model_copy(update={"prefix": arguments.prefix})})
    windows = cut_windows(RunContext(longer, arguments.run), "test")
    windows = windows.select(round_robin(windows.document_ids)[: arguments.windows])
    documents, length = windows.document_ids, windows.continuation_length
    print(f"{len(documents)} windows of {len(set(documents))} documents, continuations of {length} tokens")

    def told(name: str, values: Tensor) -> None:  # (B,)
        error = bootstrap_std_error(values, 0, groups=documents)
        print(f"{name}: {float(values.mean()):.4f} +- {error:.4f} nats per token")

    def measured(name: str, prefix: int, lm: LanguageModel) -> Tensor:
        log_prob = lm.log_prob(windows.tokens[:, arguments.prefix - prefix :], prefix_length=prefix).double() / length
        shown(name, prefix, log_prob)
        return log_prob

    def shown(name: str, prefix: int, log_prob: Tensor) -> None:
        error = bootstrap_std_error(log_prob, 0, groups=documents, statistic=perplexity)
        print(f"{name}, prefix {prefix}: {float(perplexity(log_prob)):.2f} +- {error:.2f}", flush=True)

    prefixes = (short, arguments.prefix)
    frozen = {prefix: measured("frozen LM", prefix, context.frozen_lm) for prefix in prefixes}
    corrected = {prefix: measured("corrected LM", prefix, context.lm) for prefix in prefixes}
    told("the longer prefix, frozen LM", frozen[arguments.prefix] - frozen[short])
    told("the longer prefix, corrected LM", corrected[arguments.prefix] - corrected[short])
    if not arguments.samples:
        return
    joint = ResidualEBM(context.lm, context.energy(arguments.energy))
    bound = {}
    for prefix in prefixes:
        tokens = windows.tokens[:, arguments.prefix - prefix :]
        estimate = joint.perplexity(tokens, prefix, arguments.samples, seed=0)
        gain = torch.as_tensor(estimate.windows.gain).double() / length
        bound[prefix] = corrected[prefix] + gain
        shown("joint model, at most", prefix, bound[prefix])
        told("  the energy", gain)
        told("  corrections and energy", bound[prefix] - frozen[prefix])
        print(f"  ESS {estimate.ess:.1f}, k-hat {estimate.pareto_k:.2f}")
    told("the longer prefix, joint model", bound[arguments.prefix] - bound[short])


if __name__ == "__main__":
    keep_freed_memory()
    with torch.no_grad():
        main()
