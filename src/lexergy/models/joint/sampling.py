"""Generation from the joint model: candidates from the LM, one of them drawn by the energy (Algorithm 1)."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from lexergy.core.candidates import Candidate
from lexergy.core.estimation import importance
from lexergy.core.random import uniforms
from lexergy.errors import LexergyError

if TYPE_CHECKING:
    from lexergy.models.causal.lm import CausalLM
    from lexergy.models.joint.model import ResidualEBM

_MOST_DOUBLINGS = 4  # a budget of 16 times the first candidates, unless one is given


class UnreliableWeightsWarning(UserWarning):
    """The importance weights are too heavy-tailed for the number of samples."""


@dataclass(frozen=True)
class Generation:
    """A continuation of the prompt from the joint model, and what it was chosen from."""

    text: str
    tokens: Tensor  # (C,)
    candidates: list[Candidate]  # lowest energy first
    chosen: int  # index into `candidates`
    base: Candidate  # the first one drawn: a plain sample of the LM
    log_weights: Tensor  # (n,), -energy in the order of `candidates`
    ess: float
    pareto_k: float


def joint_sample(
    joint: "ResidualEBM",
    prompt: str | Sequence[int] | Tensor,
    *,
    num_candidates: int,
    max_new_tokens: int,
    top_k: int | None,
    top_p: float | None,
    temperature: float,
    seed: int,
    target_ess: float | None,
    max_candidates: int | None,
    stop_token: int | None,
) -> Generation:
    """Top-k joint sampling: x_i ~ P_LM truncated, x = x_i with probability proportional to exp(-E(x_i)).

    Algorithm 1, Deng et al. 2020, with top-p, temperature and an adaptive number of candidates beside it. The
    law of x tends to P_LM(x) exp(-E(x)) / Z as the candidates grow, P_LM being the truncated law.
    """
    budget = _budget(num_candidates, target_ess, max_candidates)
    prefix = prompt_tokens(joint.lm, prompt)  # (1, P)
    drawn: list[tuple[Tensor, ...]] = []
    total, ess = 0, 0.0
    while total < budget and (total == 0 or ess < (target_ess or 0)):
        samples = joint.lm.sample(
            prefix,
            num_samples=min(max(total, num_candidates), budget - total),
            max_new_tokens=max_new_tokens,
            top_k=top_k,
            top_p=top_p,
            temperature=temperature,
            seed=seed,
            stop_token=stop_token,
            first_sample=total,
            features=joint.energy.features,
        )
        energies = joint.score(prefix, samples.tokens, samples.features)
        drawn.append((samples.tokens[0], samples.log_prob[0], samples.lengths[0], energies[0].double()))
        total += samples.tokens.shape[1]
        ess = float(importance.effective_sample_size(-torch.cat([part[3] for part in drawn])))
    tokens, log_prob, lengths, energy = (torch.cat(parts) for parts in zip(*drawn, strict=True))
    pareto_k = float(importance.pareto_k(-energy))
    _warn_if_unreliable(pareto_k, ess, total)
    # The sampler's own numbers are those of steps 0 .. max_new_tokens - 1.
    number = uniforms(seed, [0], max_new_tokens, 0, 1)[0]  # (1,)
    chosen = int(importance.resample(-energy, number))
    weights = torch.softmax(-energy, dim=0)  # (n,)
    rows = [row[:length] for row, length in zip(tokens, lengths.tolist(), strict=True)]
    candidates = list(
        map(
            Candidate,
            (_text(joint.lm, row, stop_token) for row in rows),
            energy.tolist(),
            log_prob.tolist(),
            weights.tolist(),
            (tuple(row.tolist()) for row in rows),
        )
    )
    order = torch.argsort(energy, stable=True)  # (n,)
    return Generation(
        text=candidates[chosen].text,
        tokens=rows[chosen],
        candidates=[candidates[i] for i in order.tolist()],
        chosen=int((order == chosen).nonzero()),
        base=candidates[0],
        log_weights=-energy[order],
        ess=ess,
        pareto_k=pareto_k,
    )


def prompt_tokens(lm: "CausalLM", prompt: str | Sequence[int] | Tensor) -> Tensor:  # -> (1, P)
    """Token ids of a prompt given as text or as ids."""
    tokens = lm.encode(prompt) if isinstance(prompt, str) else torch.as_tensor(prompt).cpu()
    if tokens.numel() == 0:
        raise LexergyError("the prompt is empty; expected at least one token to continue; write a few words.")
    if tokens.is_floating_point() or tokens.squeeze().ndim > 1:
        raise LexergyError(
            f"the prompt is a {tokens.dtype} tensor of shape {tuple(tokens.shape)}; expected text, or the "
            "token ids of one prompt; call `generate` once per prompt."
        )
    return tokens.long().reshape(1, -1)


def _budget(num_candidates: int, target_ess: float | None, max_candidates: int | None) -> int:
    if num_candidates < 1:
        raise LexergyError(f"`num_candidates` is {num_candidates}; expected at least 1; 256 is a good start.")
    if target_ess is None:
        if max_candidates is not None:
            raise LexergyError(
                f"`max_candidates` is {max_candidates} without `target_ess`; expected both, since the number "
                "of candidates grows only towards a target; set `num_candidates` instead."
            )
        return num_candidates
    budget = num_candidates * 2**_MOST_DOUBLINGS if max_candidates is None else max_candidates
    if budget < num_candidates:
        raise LexergyError(
            f"`max_candidates` is {budget}; expected at least `num_candidates`, {num_candidates}; raise it."
        )
    if not 0 < target_ess <= budget:
        raise LexergyError(
            f"`target_ess` is {target_ess}; expected more than 0 and at most the {budget} candidates that "
            "may be drawn; lower it or raise `max_candidates`."
        )
    return budget


def _warn_if_unreliable(pareto_k: float, ess: float, num_candidates: int) -> None:
    if math.isnan(pareto_k):
        return
    threshold = importance.pareto_k_threshold(num_candidates)
    if pareto_k > threshold:
        warnings.warn(
            f"Pareto k-hat is {pareto_k:.2f}, more than the {threshold:.2f} that {num_candidates} candidates "
            f"can cope with (effective sample size {ess:.1f}): their weights are too heavy-tailed to be "
            "trusted; raise `num_candidates`, or set `target_ess`.",
            UnreliableWeightsWarning,
            stacklevel=4,
        )


def _text(lm: "CausalLM", tokens: Tensor, stop_token: int | None) -> str:  # (C,)
    if lm.tokenizer is None:
        return ""
    if stop_token is not None and tokens[-1] == stop_token:
        tokens = tokens[:-1]
    return lm.decode(tokens)[0] if len(tokens) else ""
