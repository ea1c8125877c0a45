"""The logits that predict given continuations, a few rows at a time, the prefixes run once where they can be."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from lexergy.models.causal.frozen import FrozenModel
from lexergy.models.causal.language_model import PREFIXES_AT_ONCE
from lexergy.models.causal.log_probs import rows_at_once
from lexergy.models.causal.runtimes.shared_prefix import SharedPrefix


class RowLogits(NamedTuple):
    """A few rows, and the states of the layers that were asked for, of the continuation's own tokens."""

    rows: Tensor  # (b, L)
    logits: Tensor  # (b, C, V), those that predict each continuation token
    states: Mapping[int, Tensor]  # by layer (b, C, D)


def row_logits(
    lm: FrozenModel, tokens: Tensor, prefix_length: int, layers: Collection[int] = ()
) -> Iterator[RowLogits]:  # of (B, L)
    """All rows, in order."""
    length = tokens.shape[1] - prefix_length
    few = rows_at_once(length, lm.vocab_size)
    lm.reader(layers)  # with them from the beginning, so that prefixes need no graph of their own
    for group in tokens.split(PREFIXES_AT_ONCE):
        if not lm.shares_prefix(tokens.shape[1]):
            for rows in group.split(few):
                yield whole_row_logits(lm, rows, length, layers)
            continue
        prefilled = lm.prefill(group[:, :prefix_length])
        for start in range(0, len(group), few):
            chunk = slice(start, start + few)
            first, shared = prefilled.logits[chunk].unsqueeze(1), prefilled.shared.select(chunk)
            rows = group[chunk]
            logits, states = _continuation_logits(lm, first, shared, rows[:, prefix_length:], layers)
            yield RowLogits(rows, lm.correct(logits, lm.contexts(rows)[:, prefix_length:-1]), states)


def whole_row_logits(lm: FrozenModel, rows: Tensor, length: int, layers: Collection[int] = ()) -> RowLogits:
    """Of rows whose last `length` tokens are the continuation, in one pass."""
    output = lm.reader(layers).read(lm.with_start(rows), with_states=bool(layers))
    states = {layer: output.hidden_states[layer][:, -length:] for layer in layers}
    logits, before = output.logits[:, -length - 1 : -1].float(), lm.contexts(rows)[:, -length - 1 : -1]
    return RowLogits(rows, lm.correct(logits, before), states)


@contextmanager
def logits_only_at(model: PreTrainedModel, places: Tensor) -> Iterator[None]:  # (n,)
    """Let the output layer, the dearest of a large vocabulary, see only these places of each row."""

    def choose(layer: nn.Module, states: tuple[Tensor]) -> tuple[Tensor]:  # (b, T, D) -> (b, n, D)
        return (states[0][:, places],)

    hook = model.get_output_embeddings().register_forward_pre_hook(choose)
    try:
        yield
    finally:
        hook.remove()


def shared_row_logits(lm: FrozenModel, rows: Tensor, shared_length: int, layers: Collection[int] = ()) -> RowLogits:
    """Of rows (b, L) that begin with the same `shared_length` tokens, which are run once; all others are continuation.

    Rows that share nothing are run whole, after the start token, without which nothing predicts their first token.
    """
    if shared_length == 0:
        return whole_row_logits(lm, rows, rows.shape[1], layers)
    lm.reader(layers)
    prefilled = lm.prefill(rows[:1, :shared_length])
    first = prefilled.logits.unsqueeze(1).expand(len(rows), -1, -1)
    continuation = rows[:, shared_length:]
    return RowLogits(rows, *_continuation_logits(lm, first, prefilled.shared, continuation, layers))


def _continuation_logits(
    lm: FrozenModel, first: Tensor, shared: SharedPrefix, continuation: Tensor, layers: Collection[int]
) -> tuple[Tensor, Mapping[int, Tensor]]:
    length = continuation.shape[1]
    # The last token predicts nothing: it is fed only where its own states are wanted.
    tokens = continuation if layers else continuation[:, :-1]
    if tokens.shape[1] == 0:
        return first.clone(), {}
    fed = lm.reader(layers).reading(shared, len(continuation), length)
    output = fed.feed(tokens, output_hidden_states=bool(layers))
    logits = torch.cat((first, output.logits[:, : length - 1].float()), 1)
    return logits, {layer: output.hidden_states[layer] for layer in layers}
