"""Long texts from the joint model, chunk by chunk: each chunk is resampled by its energy, then kept.

Section 6 of Deng et al. 2020 asks for it: the model is auto-regressive over chunks instead of tokens,
P(x) = prod_j P(chunk_j | the text before it), each factor a joint model over one chunk.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lexergy.core.conditions import UnlikeTrainingWarning
from lexergy.core.estimation import importance
from lexergy.errors import LexergyError
from lexergy.models.causal.stopping import cut
from lexergy.models.joint.sampling import JointRows, differences, prompt_tokens, sample_rows, text_of, warn_of
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
    **settings: Any,
) -> LongRows:
    """Write J chunks of C tokens after each prefix; `settings` are those of `chunks_after`. No text may end."""
    if joint.lm.end_token is not None:
        raise LexergyError(
            "the LM may end its texts; expected one that goes on, since all prefixes get as many chunks; give "
            "`lm.endless()`, or write one text at a time with `generate_long`."
        )
    chunks = list(chunks_after(joint, prefix, **settings))
    return LongRows(
        torch.cat([chunk.tokens for chunk in chunks], 1),
        torch.stack([chunk.energy for chunk in chunks], 1),
        torch.stack([chunk.log_prob for chunk in chunks], 1),
        torch.stack([chunk.log_weights for chunk in chunks], 1),
    )


def chunks_after(
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
) -> Iterator[JointRows]:
    """J = `num_chunks` chunks of C = `chunk_tokens` tokens after each prefix, one after the other.

    Each chunk is read and continued from at most the last `context_tokens` tokens before it (unless given, all
    that the LM can read). With one candidate per chunk this is the LM itself.
    """
    limit = context_limit(joint, num_chunks, chunk_tokens, context_tokens)
    ids = list(range(len(prefix)) if prefix_ids is None else prefix_ids)
    text = prefix.cpu()
    for number in range(num_chunks):
        chunk = sample_rows(
            joint,
            text[:, -limit:],
            num_candidates=num_candidates,
            max_new_tokens=chunk_tokens,
            seed=seed,
            prefix_ids=[stream * num_chunks + number for stream in ids],  # no two chunks share random numbers
            **decoding,
        )
        yield chunk
        text = torch.cat((text, chunk.tokens), 1)


def context_limit(joint: WeighedLM, num_chunks: int, chunk_tokens: int, context_tokens: int | None) -> int:
    """How many tokens before a chunk are read at most; 0 is all of them."""
    for name, value in (("num_chunks", num_chunks), ("chunk_tokens", chunk_tokens)):
        if value < 1:
            raise LexergyError(f"`{name}` is {value}; expected at least 1.")
    longest = None if joint.lm.max_length is None else joint.lm.max_length - chunk_tokens
    if longest is not None and longest < 1:
        raise LexergyError(
            f"`chunk_tokens` is {chunk_tokens}; expected less than {joint.lm.max_length}, what the LM can read."
        )
    if context_tokens is None:
        return longest or 0
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
    tokens: Tensor  # (J * C,), fewer where the text ended
    chunks: list[Chunk]
    base_text: str
    base_tokens: Tensor  # (J * C,)
    warnings: tuple[str, ...]  # what was warned of
    num_ancestors: int | None = None  # with SMC: how many of the first particles had descendants at the end


def write_long(
    joint: WeighedLM,
    prompt: str | Sequence[int] | Tensor,
    *,
    stop: Sequence[str],
    stop_at_end: bool | None,
    **settings: Any,
) -> LongGeneration:
    """Continue one prompt by the joint model and by the LM; `settings` are those of `chunks_after`.

    A text stops within the chunk whose tokens end it; a stop string may lie across two chunks.
    """
    joint, prefix = joint.stopping(stop_at_end), prompt_tokens(joint.lm, prompt)  # (1, P)
    own = _until_the_end(joint, chunks_after(joint, prefix, stop=stop, **settings), stop)
    chunks = [
        Chunk(
            text_of(joint.lm, part, stop),
            float(chunk.energy),
            float(importance.effective_sample_size(chunk.log_weights)),
            float(importance.pareto_k(chunk.log_weights)),
        )
        for part, chunk in own
    ]
    told = warn_of({UnlikeTrainingWarning: differences(joint, prefix.shape[1], settings["chunk_tokens"], settings)})
    return beside_the_lm(joint, prefix, torch.cat([part for part, _ in own]), chunks, told, stop, settings)


def beside_the_lm(
    joint: WeighedLM,
    prefix: Tensor,  # (1, P)
    tokens: Tensor,  # (C',)
    chunks: list[Chunk],
    told: tuple[str, ...],
    stop: Sequence[str],
    settings: Mapping[str, Any],
) -> LongGeneration:
    """A text that was written, and one by the LM alone."""
    alone = chunks_after(joint, prefix, stop=stop, **{**settings, "num_candidates": 1})
    base_tokens = torch.cat([part for part, _ in _until_the_end(joint, alone, stop)])
    return LongGeneration(
        text=text_of(joint.lm, tokens, stop),
        tokens=tokens,
        chunks=chunks,
        base_text=text_of(joint.lm, base_tokens, stop),
        base_tokens=base_tokens,
        warnings=told,
    )


def _until_the_end(
    joint: WeighedLM, chunks: Iterable[JointRows], stop: Sequence[str]
) -> list[tuple[Tensor, JointRows]]:
    """The chunks of one text up to its end, each with its tokens without padding."""
    written: list[tuple[Tensor, JointRows]] = []
    for chunk in chunks:
        tokens = chunk.tokens[0, : int(chunk.lengths)]
        written.append((tokens, chunk))
        if has_stopped(joint, torch.cat([part for part, _ in written]), stop):
            break
    return written


def has_stopped(joint: WeighedLM, tokens: Tensor, stop: Sequence[str]) -> bool:  # (C',)
    """Whether a text goes no further: it has ended, or a string to stop at is in it."""
    text = text_of(joint.lm, tokens, ()) if stop else ""
    return bool(tokens[-1] == joint.lm.end_token) or cut(text, stop) != text
