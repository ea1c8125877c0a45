"""The joint model token by token: log P(x_t | x_<t) by marginalising the future (Eq. 5)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lexergy.core.estimation import importance, partition
from lexergy.core.random import uniforms
from lexergy.errors import LexergyError
from lexergy.models.joint.sampling import prompt_tokens
from lexergy.models.joint.weights import WeighedLM


@dataclass(frozen=True)
class StepProbabilities:
    """log P(x_t | x_<t) at each position of the continuations (Fig. 1, Deng et al. 2020)."""

    base: Tensor  # (B, C) the LM's
    lower: Tensor  # (B, C) the joint model's, pessimistic
    upper: Tensor  # (B, C) optimistic
    last_exact: Tensor  # (B,) the joint model's at the last position, by enumeration of the vocabulary or most of it
    num_samples: int


@dataclass(frozen=True)
class NextToken:
    """A candidate for the next token; probabilities and ranks (from 0) among the candidates."""

    token: int
    text: str  # empty when the LM has no tokenizer
    base: float
    joint: float
    base_rank: int
    joint_rank: int
    ess: float  # of the completions behind `joint`


@dataclass(frozen=True)
class NextTokens:
    """The most likely next tokens, by the joint model and by the LM."""

    entries: list[NextToken]  # most likely by the joint model first
    base_entries: list[NextToken]  # most likely by the LM first
    base_mass: float  # the LM's probability of all the candidates together
    num_candidates: int
    num_samples: int
    horizon: int


def step_probabilities(
    joint: WeighedLM,
    tokens: Tensor,  # (B, L)
    prefix_length: int,
    *,
    num_samples: int,
    seed: int,
    rows_per_batch: int,
    enumerated: int | None = None,
) -> StepProbabilities:
    """Bounds on log P(x_t | x_<t) = log P_LM(x_t | x_<t) + log N_t - log D_t, Eq. 5, Deng et al. 2020.

    D_t = E[exp(-E(x_<t, x'_t, ..., x'_T))] over LM samples x' of the rest; the numerator, which also fixes
    x_t, is the next denominator: N_t = D_{t+1}, and N_T = exp(-E(x)) is exact. The lower bound pairs the
    lower bound of N_t with the upper bound of D_t (Eq. 4), and the other way round. At the last position D_T is a sum
    over the vocabulary, or over its `enumerated` likeliest tokens and a few that stand for the others.
    """
    if enumerated is not None and enumerated < 1:
        raise LexergyError(f"`enumerated` is {enumerated}; expected at least 1 token; leave it out for all of them.")
    tokens = tokens.cpu()
    base = joint.lm.token_log_prob(tokens, prefix_length=prefix_length)  # (B, C)
    prefix, continuation = tokens[:, :prefix_length], tokens[:, prefix_length:]  # (B, P), (B, C)
    length = continuation.shape[1]
    lower, upper = [], []
    for step in range(length):
        weights = joint.log_weights(
            prefix,
            length=length,
            num_samples=num_samples,
            seed=seed,
            prefix_ids=[row * length + step for row in range(len(tokens))],
            given=continuation[:, :step],
            rows_per_batch=rows_per_batch,
        )  # (B, n)
        lower.append(partition.lower_bound(weights))
        upper.append(partition.upper_bound(weights))
    whole = -joint.score_texts(prefix, continuation, rows_per_batch).double()  # (B,) log N_T
    lower_bounds = torch.stack([*lower, whole], dim=1)  # (B, C + 1) log D_1, ..., log D_T, log N_T
    upper_bounds = torch.stack([*upper, whole], dim=1)
    at_once = 1 if enumerated is not None else max(1, rows_per_batch // joint.lm.vocab_size)
    last_denominator = torch.cat(
        [
            _last_denominator(joint, rows[:, :prefix_length], rows[:, prefix_length:-1], rows_per_batch)
            if enumerated is None
            else _most_of_the_last(joint, rows, prefix_length, enumerated, seed + number, rows_per_batch)
            for number, rows in enumerate(tokens.split(at_once))
        ]
    )  # (B,)
    return StepProbabilities(
        base=base,
        lower=base + lower_bounds[:, 1:] - upper_bounds[:, :-1],
        upper=base + upper_bounds[:, 1:] - lower_bounds[:, :-1],
        last_exact=base[:, -1] + whole - last_denominator,
        num_samples=num_samples,
    )


def _last_denominator(
    joint: WeighedLM,
    prefix: Tensor,  # (B, P)
    given: Tensor,  # (B, C - 1)
    rows_per_batch: int,
) -> Tensor:  # (B,)
    """log D_T = log sum_v P_LM(v | x_<T) exp(-E(x_<T, v)), over the whole vocabulary."""
    log_prob = joint.lm.next_log_prob(torch.cat([prefix, given], dim=1)).double()  # (B, V)
    allowed = log_prob.isfinite().any(dim=0).nonzero().squeeze(-1)  # (M,)
    terms = []
    for tokens in allowed.split(rows_per_batch):
        terms.append(log_prob[:, tokens] - joint.score_next(prefix, given, tokens).double())  # (B, m)
    return torch.logsumexp(torch.cat(terms, dim=1), dim=1)


def _most_of_the_last(
    joint: WeighedLM,
    window: Tensor,  # (1, L)
    prefix_length: int,
    enumerated: int,
    seed: int,
    rows_per_batch: int,
) -> Tensor:  # (1,)
    """log D_T from the likeliest tokens, and m of the others, drawn by P_LM in strata, for their share r.

    sum_v P_LM(v) exp(-E(v)) + r/m sum_i exp(-E(v_i)), v over the likeliest, v_i ~ P_LM / r: unbiased before the
    logarithm, and the less noisy the smaller r is. m is a quarter of those that are enumerated.
    """
    prefix, given = window[:, :prefix_length], window[:, prefix_length:-1]
    log_prob = joint.lm.next_log_prob(window[:, :-1])[0].double()  # (V,)
    order = log_prob.argsort(descending=True, stable=True)
    order = order[log_prob[order].isfinite()]
    likely, rest = order[:enumerated], order[enumerated:]
    log_share = log_prob[likely]
    if len(rest):
        number = max(1, enumerated // 4)
        points = (torch.arange(number).double() + uniforms(seed, [0], given.shape[1], 0, 1)[0].double()) / number
        drawn = rest[importance.resample(log_prob[rest], points)]  # (m,)
        each = log_prob[rest].logsumexp(0) - torch.tensor(float(number)).double().log()
        likely, log_share = torch.cat([likely, drawn]), torch.cat([log_share, each.expand(number)])
    energy = torch.cat([joint.score_next(prefix, given, part)[0] for part in likely.split(rows_per_batch)])
    return torch.logsumexp(log_share - energy.double(), dim=0, keepdim=True)


def next_tokens(
    joint: WeighedLM,
    prompt: str | Sequence[int] | Tensor,
    *,
    candidates: int,
    num_samples: int,
    horizon: int,
    top: int,
    seed: int,
    rows_per_batch: int,
    progress: bool,
    given: int = 0,
) -> NextTokens:
    """P(x_t | x_<t) over the LM's likeliest tokens, App. A.1, Deng et al. 2020.

    For each candidate v the numerator of Eq. 5, P_LM(v) E[exp(-E(x_<t, v, x'))], is estimated from LM
    completions up to `horizon` tokens after the prompt, v included. Both distributions are renormalised over all
    candidates (the paper: over the ten shown), so that the two columns can be compared. The last `given` tokens
    of the prompt are, to the energy, the beginning of the continuation.
    """
    counts = {"candidates": candidates, "num_samples": num_samples, "horizon": horizon, "top": top}
    for name, value in counts.items():
        if value < 1:
            raise LexergyError(f"`{name}` is {value}; expected at least 1.")
    context = prompt_tokens(joint.lm, prompt)  # (1, P + G)
    if not 0 <= given < context.shape[1]:
        raise LexergyError(
            f"`given` is {given} for a prompt of {context.shape[1]} tokens; expected 0 to {context.shape[1] - 1}; "
            "leave it out if the continuation begins with the next token."
        )
    distribution = joint.lm.next_log_prob(context)[0]  # (V,)
    allowed = int(distribution.isfinite().sum())
    base_log_prob, tokens = distribution.topk(min(candidates, allowed))  # (M,), (M,)
    prefix, before = context.split([context.shape[1] - given, given], dim=1)  # (1, P), (1, G)
    if horizon == 1:
        weights = -joint.score_next(prefix, before, tokens)[0, :, None].double()  # (M, 1)
    else:
        weights = joint.log_weights_after(
            prefix,
            before,
            tokens[None],
            length=given + horizon,
            num_samples=num_samples,
            seed=seed,
            prefix_ids=[0],
            rows_per_batch=rows_per_batch,
            progress=progress,
        )[0]  # (M, n)
    entries = _entries(joint, tokens, base_log_prob, weights)
    return NextTokens(
        entries=sorted(entries, key=lambda entry: entry.joint_rank)[:top],
        base_entries=entries[:top],
        base_mass=float(base_log_prob.exp().sum()),
        num_candidates=len(tokens),
        num_samples=weights.shape[1],
        horizon=horizon,
    )


def _entries(
    joint: WeighedLM,
    tokens: Tensor,  # (M,)
    base_log_prob: Tensor,  # (M,)
    weights: Tensor,  # (M, n)
) -> list[NextToken]:
    """The candidates with both probabilities, most likely by the LM first."""
    base = base_log_prob.softmax(dim=0)  # (M,)
    joint_prob = (base_log_prob.double() + partition.lower_bound(weights)).softmax(dim=0)  # (M,)
    joint_ranks = joint_prob.argsort(descending=True, stable=True).argsort()  # (M,)
    ess = importance.effective_sample_size(weights)  # (M,)
    return [
        NextToken(
            token=int(token),
            text="" if joint.lm.tokenizer is None else joint.lm.decode(token[None])[0],
            base=float(base[rank]),
            joint=float(joint_prob[rank]),
            base_rank=rank,
            joint_rank=int(joint_ranks[rank]),
            ess=float(ess[rank]),
        )
        for rank, token in enumerate(tokens)
    ]
