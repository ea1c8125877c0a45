"""Long texts from the joint model, chunk by chunk: each chunk is resampled by its energy, then kept.

Section 6 of Deng et al. 2020 asks for it: the model is auto-regressive over chunks instead of tokens,
P(x) = prod_j P(chunk_j | the text before it), each factor a joint model over one chunk.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lexergy.core.estimation import importance
from lexergy.errors import LexergyError
from lexergy.models.joint.sampling import JointRows, prompt_tokens, sample_rows
from lexergy.models.joint.weights import WeighedLM


class LongRows(NamedTuple):
    """Long continuations of B prefixes."""

    tokens: Tensor  # (B, J * C)
    energy: Tensor  # (B, J) of each chunk given the text before it
    log_prob: Tensor  # (B, J) the LM's, under the distribution that the candidates were drawn from
    log_weights: Tensor  # (B, J, n) of each chunk's candidates


def continue_long(
    joint: WeighedLM,
    prefix: Tensor,  # (B, P)
    *,
    num_chunks: int,
    chunk_tokens: int,
    num_candidates: int,
    context_tokens: int | None = None,
    seed: int = 0,
    prefix_ids: Sequence[int] | None = None,
    **decoding: Any,
) -> LongRows:
    """Write J = `num_chunks` chunks of C = `chunk_tokens` tokens after each prefix.

    Each chunk is read and continued from at most the last `context_tokens` tokens before it (unless given, all
    that the LM can read). With one candidate per chunk this is the LM itself.
    """
    for name, value in (("num_chunks", num_chunks), ("chunk_tokens", chunk_tokens)):
        if value < 1:
            raise LexergyError(f"`{name}` is {value}; expected at least 1.")
    limit = _context(joint, context_tokens, chunk_tokens)
    ids = list(range(len(prefix)) if prefix_ids is None else prefix_ids)
    text = prefix.cpu()
    chunks: list[JointRows] = []
    for number in range(num_chunks):
        context = text if limit is None else text[:, -limit:]
        chunk = sample_rows(
            joint,
            context,
            num_candidates=num_candidates,
            max_new_tokens=chunk_tokens,
            seed=seed,
            prefix_ids=[stream * num_chunks + number for stream in ids],  # no two chunks share random numbers
            **decoding,
        )
        chunks.append(chunk)
        text = torch.cat((text, chunk.tokens), 1)
    return LongRows(
        text[:, prefix.shape[1] :],
        torch.stack([chunk.energy for chunk in chunks], 1),
        torch.stack([chunk.log_prob for chunk in chunks], 1),
        torch.stack([chunk.log_weights for chunk in chunks], 1),
    )


def _context(joint: WeighedLM, context_tokens: int | None, chunk_tokens: int) -> int | None:
    longest = None if joint.lm.max_length is None else joint.lm.max_length - chunk_tokens
    if longest is not None and longest < 1:
        raise LexergyError(
            f"`chunk_tokens` is {chunk_tokens}; expected less than {joint.lm.max_length}, what the LM can read."
        )
    if context_tokens is None:
        return longest
    if context_tokens < 1 or (longest is not None and context_tokens > longest):
        raise LexergyError(
            f"`context_tokens` is {context_tokens}; expected 1 to {longest}, so that context and chunk fit the LM."
        )
    return context_tokens


@dataclass(frozen=True)
class Chunk:
    """A stretch of a long text, and how far the weights it was chosen by can be trusted."""

    text: str  # empty when the LM has no tokenizer
    energy: float
    ess: float
    pareto_k: float


@dataclass(frozen=True)
class LongGeneration:
    """A long continuation by the joint model, beside one by the LM alone."""

    text: str
    tokens: Tensor  # (J * C,)
    chunks: list[Chunk]
    base_text: str
    base_tokens: Tensor  # (J * C,)


def write_long(joint: WeighedLM, prompt: str | Sequence[int] | Tensor, **settings: Any) -> LongGeneration:
    """Continue one prompt by the joint model and by the LM; `settings` are those of `continue_long`."""
    prefix = prompt_tokens(joint.lm, prompt)  # (1, P)
    rows = continue_long(joint, prefix, **settings)
    base = continue_long(joint, prefix, **{**settings, "num_candidates": 1})
    parts = rows.tokens[0].chunk(rows.energy.shape[1])  # J of (C,)
    log_weights = rows.log_weights[0]  # (J, n)
    columns = (rows.energy[0], importance.effective_sample_size(log_weights), importance.pareto_k(log_weights))
    return LongGeneration(
        text=_text(joint, rows.tokens[0]),
        tokens=rows.tokens[0],
        chunks=[
            Chunk(_text(joint, part), *numbers)
            for part, *numbers in zip(parts, *(column.tolist() for column in columns), strict=True)
        ],
        base_text=_text(joint, base.tokens[0]),
        base_tokens=base.tokens[0],
    )


def _text(joint: WeighedLM, tokens: Tensor) -> str:  # (C,)
    return "" if joint.lm.tokenizer is None else joint.lm.decode(tokens)[0]
