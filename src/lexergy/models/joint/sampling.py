"""Generation from the joint model: candidates from the LM, one of them drawn by the energy (Algorithm 1)."""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lexergy.core.candidates import Candidate
from lexergy.core.conditions import UnlikeTrainingWarning
from lexergy.core.decoding import Decoding
from lexergy.core.estimation import importance
from lexergy.core.random import uniforms
from lexergy.errors import LexergyError
from lexergy.models.causal.batches import in_batches, joined
from lexergy.models.causal.language_model import LanguageModel
from lexergy.models.causal.samples import Samples
from lexergy.models.causal.stopping import cut
from lexergy.models.joint.weights import ROWS_PER_BATCH, WeighedLM

_MOST_DOUBLINGS = 4  # a budget of 16 times the first candidates, unless one is given


class UnreliableWeightsWarning(UserWarning):
    """The importance weights are too heavy-tailed for the number of samples."""


class Candidates(NamedTuple):
    """n continuations of each of B prefixes, their energies, and the one drawn by them."""

    samples: Samples
    energy: Tensor  # (B, n) float64
    chosen: Tensor  # (B,)


def draw_candidates(
    joint: WeighedLM,
    prefix: Tensor,  # (B, P)
    *,
    num_candidates: int,
    max_new_tokens: int,
    seed: int,
    prefix_ids: Sequence[int],
    target_ess: float | None = None,
    max_candidates: int | None = None,
    **sampling: Any,
) -> Candidates:
    """Top-k joint sampling: x_i ~ P_LM truncated, x = x_i with probability proportional to exp(-E(x_i)).

    Algorithm 1, Deng et al. 2020, with all candidates kept; the first one is a plain sample of the LM. `sampling` is
    what `CausalLM.sample` takes (top_k, top_p, temperature, stop). The distribution of x tends to
    P_LM(x) exp(-E(x)) / Z as the candidates grow, P_LM being the truncated distribution of texts up to where they stop.
    With `target_ess`, they are doubled until each prefix's effective sample size reaches it or `max_candidates` are
    drawn.
    """
    budget = _budget(num_candidates, target_ess, max_candidates)
    drawn: list[Samples] = []
    energy = torch.empty(len(prefix), 0, dtype=torch.double)  # (B, n)
    while (total := energy.shape[1]) == 0 or (total < budget and not _suffices(energy, target_ess)):
        samples = joint.lm.sample(
            prefix,
            num_samples=min(max(total, num_candidates), budget - total),
            first_sample=total,
            max_new_tokens=max_new_tokens,
            seed=seed,
            prefix_ids=prefix_ids,
            features=joint.energy.features,
            **sampling,
        )
        drawn.append(samples)
        scores = joint.score(prefix, samples.tokens, samples.features, samples.lengths)
        energy = torch.cat([energy, scores.double()], dim=1)
    # The sampler's own numbers are those of steps 0 .. max_new_tokens - 1.
    numbers = uniforms(seed, prefix_ids, max_new_tokens, 0, 1)  # (B, 1)
    return Candidates(joined(drawn, 1), energy, importance.resample(-energy, numbers).squeeze(-1))


def _suffices(energy: Tensor, target_ess: float | None) -> bool:  # (B, n)
    return target_ess is None or bool((importance.effective_sample_size(-energy) >= target_ess).all())


def pick(values: Tensor, chosen: Tensor) -> Tensor:  # (B, n, ...), (B,) -> (B, ...)
    """The chosen one of each row."""
    return values[torch.arange(len(chosen)), chosen]


class JointRows(NamedTuple):
    """One continuation of each of B prefixes, and the n candidates' weights that it was chosen by."""

    tokens: Tensor  # (B, C), padded after an end
    lengths: Tensor  # (B,)
    log_prob: Tensor  # (B,) float64, the LM's, under the distribution that the candidates were drawn from
    energy: Tensor  # (B,) float64
    features: Tensor | None  # (B, F), for an energy that reads the LM's states
    base_tokens: Tensor  # (B, C), the first candidate: a plain sample of the LM
    base_log_prob: Tensor  # (B,)
    base_energy: Tensor  # (B,)
    log_weights: Tensor  # (B, n) float64, -E of all candidates

    @property
    def ess(self) -> Tensor:  # (B,)
        return importance.effective_sample_size(self.log_weights)


def sample_rows(
    joint: WeighedLM,
    prefix: Tensor,  # (B, P)
    *,
    num_candidates: int,
    max_new_tokens: int,
    seed: int = 0,
    prefix_ids: Sequence[int] | None = None,
    rows_per_batch: int = ROWS_PER_BATCH,
    **decoding: Any,
) -> JointRows:
    """One continuation of each prefix by Algorithm 1, a few prefixes at a time. With one candidate this is the LM.

    `rows_per_batch` changes speed, never results.
    """
    ids = list(range(len(prefix)) if prefix_ids is None else prefix_ids)

    def compute(group: slice, *_: int) -> JointRows:
        samples, energy, chosen = draw_candidates(
            joint,
            prefix[group],
            num_candidates=num_candidates,
            max_new_tokens=max_new_tokens,
            seed=seed,
            prefix_ids=ids[group],
            rows_per_batch=rows_per_batch,
            **decoding,
        )
        first = torch.zeros_like(chosen)
        return JointRows(
            pick(samples.tokens, chosen),
            pick(samples.lengths, chosen),
            pick(samples.log_prob, chosen),
            pick(energy, chosen),
            None if samples.features is None else pick(samples.features, chosen),
            pick(samples.tokens, first),
            pick(samples.log_prob, first),
            pick(energy, first),
            -energy,
        )

    return in_batches(compute, len(prefix), 1, rows_per_batch, rows_of_a_sample=max(1, num_candidates))


@dataclass(frozen=True)
class Generation:
    """A continuation of the prompt from the joint model, and what it was chosen from."""

    text: str
    tokens: Tensor  # (C,)
    candidates: list[Candidate]  # lowest energy first
    chosen: int  # index into `candidates`
    base: Candidate  # the first one drawn: a plain sample of the LM
    log_weights: Tensor  # (n,) in the order of `candidates`: -energy, or what SMC has come to
    ess: float
    pareto_k: float
    warnings: tuple[str, ...]  # what was warned of
    num_ancestors: int | None = None  # with SMC: how many of the first particles the candidates descend from


def joint_sample(
    joint: WeighedLM,
    prompt: str | Sequence[int] | Tensor,
    *,
    max_new_tokens: int,
    seed: int,
    stop: Sequence[str],
    stop_at_end: bool | None,
    **settings: Any,
) -> Generation:
    """A continuation of one prompt by Algorithm 1; `settings` are those of `draw_candidates`."""
    joint, prefix = joint.stopping(stop_at_end), prompt_tokens(joint.lm, prompt)
    samples, energy, chosen = draw_candidates(
        joint, prefix, max_new_tokens=max_new_tokens, seed=seed, prefix_ids=[0], stop=stop, **settings
    )
    generation = chosen_among(joint.lm, samples, energy[0], -energy[0], int(chosen), stop)
    told = {
        UnlikeTrainingWarning: differences(joint, prefix.shape[1], max_new_tokens, settings, samples),
        UnreliableWeightsWarning: heavy_tails(generation.pareto_k, generation.ess, energy.shape[1]),
    }
    return replace(generation, warnings=warn_of(told))


def chosen_among(
    lm: LanguageModel,
    samples: Samples,  # of one prefix
    energy: Tensor,  # (n,)
    log_weights: Tensor,  # (n,)
    chosen: int,
    stop: Sequence[str],
) -> Generation:
    """What was drawn and chosen, as texts; nothing is warned of yet."""
    candidates = candidates_of(lm, samples, energy, log_weights, stop)
    order = torch.argsort(energy, stable=True)  # (n,)
    return Generation(
        text=candidates[chosen].text,
        tokens=torch.tensor(candidates[chosen].tokens),
        candidates=[candidates[i] for i in order.tolist()],
        chosen=int((order == chosen).nonzero()),
        base=candidates[0],
        log_weights=log_weights[order],
        ess=float(importance.effective_sample_size(log_weights)),
        pareto_k=float(importance.pareto_k(log_weights)),
        warnings=(),
    )


def candidates_of(
    lm: LanguageModel, samples: Samples, energy: Tensor, log_weights: Tensor, stop: Sequence[str]
) -> list[Candidate]:  # (n,), (n,)
    """The samples of one prefix, in their order."""
    rows = [row[:length] for row, length in zip(samples.tokens[0], samples.lengths[0].tolist(), strict=True)]
    return list(
        map(
            Candidate,
            (text_of(lm, row, stop) for row in rows),
            energy.tolist(),
            samples.log_prob[0].tolist(),
            torch.softmax(log_weights, dim=0).tolist(),
            (tuple(row.tolist()) for row in rows),
        )
    )


def differences(
    joint: WeighedLM, prefix: int, continuation: int, settings: Mapping[str, Any], samples: Samples | None = None
) -> list[str]:
    """What is unlike the energy's training here, where that is known; `settings` are those of decoding."""
    if joint.trained_on is None:
        return []
    decoding = Decoding(**{name: settings[name] for name in ("temperature", "top_k", "top_p") if name in settings})
    if samples is None:
        return joint.trained_on.differences(prefix, continuation, decoding)
    ended = samples.lengths < continuation  # (1, n)
    if joint.trained_on.ends:
        last = samples.tokens.gather(-1, samples.lengths.unsqueeze(-1) - 1).squeeze(-1)
        ended = ended & (last != joint.lm.end_token)
    return joint.trained_on.differences(prefix, continuation, decoding, int(ended.sum()), ended.numel())


def warn_of(told: Mapping[Any, list[str]]) -> tuple[str, ...]:
    """Warn of each, in its category, at the line outside this room that asked for it; all of them."""
    for category, messages in told.items():
        for message in messages:
            warnings.warn(message, category, stacklevel=4)
    return tuple(message for messages in told.values() for message in messages)


def prompt_tokens(lm: LanguageModel, prompt: str | Sequence[int] | Tensor) -> Tensor:  # -> (1, P)
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


def heavy_tails(pareto_k: float, ess: float, num_candidates: int) -> list[str]:
    """A sentence if the candidates are too few for weights of this tail."""
    if math.isnan(pareto_k):
        return []
    threshold = importance.pareto_k_threshold(num_candidates)
    if pareto_k <= threshold:
        return []
    return [
        f"Pareto k-hat is {pareto_k:.2f}, more than the {threshold:.2f} that {num_candidates} candidates "
        f"can cope with (effective sample size {ess:.1f}): their weights are too heavy-tailed to be "
        "trusted; raise `num_candidates`, or set `target_ess`."
    ]


def text_of(lm: LanguageModel, tokens: Tensor, stop: Sequence[str]) -> str:  # (C,)
    """The text of a continuation, its end token or stop string left out; empty when the LM has no tokenizer."""
    if lm.tokenizer is None:
        return ""
    if len(tokens) and tokens[-1] == lm.end_token:
        tokens = tokens[:-1]
    return cut(lm.decode(tokens)[0], stop) if len(tokens) else ""
