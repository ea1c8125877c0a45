"""Whether engines do the same work: as many tokens, all samples different, drawn from the LM's own distribution."""

import math
from typing import NamedTuple

import torch
from engines import ENGINES, NEW
from torch import Tensor

from lexergy import CausalLM
from lexergy.core.vocabulary import ranks, summarise
from lexergy.models.causal.log_probs import pick_log_prob
from lexergy.models.causal.row_logits import row_logits


class Work(NamedTuple):
    """Of n samples. `excess` is the mean of -log p(x_t | x_<t) - H(p(. | x_<t)), zero where x_t ~ p."""

    tokens: int
    different: int
    excess: float
    standard_error: float  # over samples
    outside: float  # share of tokens that are not among the reference LM's k best


@torch.inference_mode()
def work_of(lm: CausalLM, prefix: Tensor, samples: Tensor, top_k: int) -> Work:  # (1, P), (n, C)
    """By the LM in float32, whatever the samples were computed in."""
    excess, outside = [], []
    rows = torch.cat((prefix.expand(len(samples), -1), samples), 1)
    for part in row_logits(lm, rows, prefix.shape[1]):
        tokens, logits = part.rows[:, prefix.shape[1] :], part.logits.flatten(0, 1)  # (b, C), (b C, V)
        summary = summarise(logits)
        _, entropy, _ = summary.moments()
        excess.append((-pick_log_prob(part.logits, tokens) - entropy.view_as(tokens)).mean(-1))
        outside.append(ranks(logits, tokens.flatten(), summary.maximum) >= top_k)
    means = torch.cat(excess)
    return Work(
        samples.numel(),
        len(samples.unique(dim=0)),
        means.mean().item(),
        means.std().item() / math.sqrt(len(means)),
        torch.cat(outside).double().mean().item(),
    )


def work_table(engines: list[str], lm: CausalLM, prefix: Tensor, n: int, top_k: int) -> list[str]:
    lines = [
        f"| engine | computes in | tokens | different samples | surprisal - entropy, nats per token | "
        f"top-k {top_k}: outside the reference's |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for name in engines:
        sampler = ENGINES[name].build(lm, prefix)
        whole = work_of(lm, prefix, sampler(n, None), top_k)
        cut = work_of(lm, prefix, sampler(n, top_k), top_k)
        counts = f"{whole.tokens} of {n * NEW} | {whole.different} of {n}"
        excess = f"{whole.excess:+.3f} ± {1.96 * whole.standard_error:.3f}"
        lines.append(f"| {name} | {ENGINES[name].precision} | {counts} | {excess} | {cut.outside:.1%} |")
        print(lines[-1], flush=True)
    return lines
