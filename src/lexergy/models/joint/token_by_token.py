"""Writing token by token from the joint model: each token by what the rest could be (App. A.1, Deng et al. 2020).

The joint model as an auto-regressive one. Beside Algorithm 1, which draws whole texts and chooses one, it costs the
square of the length: k n completions of the rest at each token.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from lexergy.core.conditions import UnlikeTrainingWarning
from lexergy.core.estimation import importance, partition
from lexergy.core.random import uniforms
from lexergy.errors import LexergyError
from lexergy.models.joint.sampling import differences, prompt_tokens, text_of, warn_of
from lexergy.models.joint.weights import ROWS_PER_BATCH, WeighedLM


class WrittenTokens(NamedTuple):
    """One continuation of each of B prefixes."""

    tokens: Tensor  # (B, C), padded with the end token after an end
    lengths: Tensor  # (B,)
    drawn: Tensor  # (B,) tokens that the LM drew: those of the text, and of what the rest could have been


def write_tokens(
    joint: WeighedLM,
    prefix: Tensor,  # (B, P)
    *,
    length: int,
    top_k: int,
    num_samples: int,
    seed: int = 0,
    prefix_ids: Sequence[int] | None = None,
    rows_per_batch: int = ROWS_PER_BATCH,
) -> WrittenTokens:
    """x_t among the LM's k likeliest tokens v, with probability proportional to P_LM(v | x_<t) E[exp(-E(x_<t, v, x'))].

    The expectation over the rest x', untruncated samples of the LM, is that of n of them (Eq. 5); at the last token
    there is no rest. Tends to the joint model as n grows and k is the whole vocabulary. `rows_per_batch` changes speed,
    never results.
    """
    for name, value in (("length", length), ("top_k", top_k), ("num_samples", num_samples)):
        if value < 1:
            raise LexergyError(f"`{name}` is {value}; expected at least 1.")
    prefix = prefix.cpu()
    ids = torch.tensor(range(len(prefix)) if prefix_ids is None else list(prefix_ids))
    text = prefix[:, :0]
    drawn = torch.zeros(len(prefix), dtype=torch.long)
    for step in range(length):
        alive = ~joint.lm.have_ended(text)  # (B,)
        tokens = torch.full((len(prefix), 1), -1 if joint.lm.end_token is None else joint.lm.end_token)
        if bool(alive.any()):
            own = (prefix[alive], text[alive], ids[alive])
            scores, candidates = _next_scores(joint, *own, length, top_k, num_samples, seed, rows_per_batch)
            # The completions' own numbers are those of steps below `length`.
            numbers = uniforms(seed, ids[alive].tolist(), length + step, 0, 1)  # (b, 1)
            tokens[alive] = candidates.gather(1, importance.resample(scores, numbers))
            drawn[alive] += 1 + candidates.shape[1] * num_samples * (length - step - 1)
        text = torch.cat((text, tokens), 1)
    return WrittenTokens(text, joint.lm.lengths(text), drawn)


def _next_scores(
    joint: WeighedLM,
    prefix: Tensor,  # (b, P)
    text: Tensor,  # (b, t)
    ids: Tensor,  # (b,)
    length: int,
    top_k: int,
    num_samples: int,
    seed: int,
    rows_per_batch: int,
) -> tuple[Tensor, Tensor]:  # (b, k), (b, k)
    """log P_LM(v) + log 1/n sum_i exp(-E(x_<t, v, x'_i)) of the candidates v for the next token, and which they are."""
    base = joint.lm.next_log_prob(torch.cat((prefix, text), 1)).double()  # (b, V)
    count = min(top_k, int(base.isfinite().sum(1).min()))
    log_prob, candidates = base.topk(count)  # (b, k)
    step = text.shape[1]
    if step + 1 == length:
        begun = torch.cat((text.unsqueeze(1).expand(-1, count, -1), candidates.unsqueeze(-1)), -1)  # (b, k, t + 1)
        return log_prob - joint.score(prefix, begun).double(), candidates
    weights = joint.log_weights_after(
        prefix,
        text,
        candidates,
        length=length,
        num_samples=num_samples,
        seed=seed,
        prefix_ids=(ids * length + step).tolist(),  # no two steps or prefixes share random numbers
        rows_per_batch=rows_per_batch,
    )  # (b, k, n)
    return log_prob + partition.lower_bound(weights), candidates


@dataclass(frozen=True)
class TokenGeneration:
    """A continuation of the prompt that the joint model wrote token by token."""

    text: str
    tokens: Tensor  # (C,)
    energy: float
    num_drawn: int  # tokens that the LM drew for it
    warnings: tuple[str, ...]  # what was warned of


def generate_tokens(
    joint: WeighedLM,
    prompt: str | Sequence[int] | Tensor,
    *,
    max_new_tokens: int = 40,
    top_k: int = 10,
    num_samples: int = 8,
    seed: int = 0,
    stop_at_end: bool | None = None,
) -> TokenGeneration:
    """A continuation of one prompt as `write_tokens` writes it, from `num_samples` rests of each of `top_k` tokens."""
    joint, prefix = joint.stopping(stop_at_end), prompt_tokens(joint.lm, prompt)  # (1, P)
    written = write_tokens(
        joint, prefix, length=max_new_tokens, top_k=top_k, num_samples=num_samples, seed=seed, prefix_ids=[0]
    )
    tokens = written.tokens[0, : int(written.lengths)]
    told = differences(joint, prefix.shape[1], max_new_tokens, {})
    return TokenGeneration(
        text=text_of(joint.lm, tokens, ()),
        tokens=tokens,
        energy=float(joint.score(prefix, written.tokens.unsqueeze(1))),
        num_drawn=int(written.drawn),
        warnings=warn_of({UnlikeTrainingWarning: told}),
    )
