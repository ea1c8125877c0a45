"""Rows of different lengths through a transformer end to end, as one long row: nothing is padded.

Linear layers and norms do not care where a row ends. Attention does, and positions do: an attention function reads rows
of one length together, each by itself, and every token is told its place in its own row. Whether an architecture can be
read this way is tried once, on a few tokens, against its plain forward pass.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, PreTrainedModel

from lexergy.models.inference.attention import attending_by
from lexergy.models.inference.linears import fast_linears
from lexergy.models.inference.side_by_side import side_by_side

_ATTENTION = "lexergy_ragged"
_TOLERANCE = 1e-3
TOKENS_AT_ONCE = 2**10  # what a layer writes of so many is still in the caches when the next one reads it
# What attention may be asked for beside the product of queries and keys; whoever asks is read padded.
_UNKNOWN = ("softcap", "sliding_window", "s_aux", "position_bias")


class _Equals(NamedTuple):
    """Neighbouring rows of one length."""

    first: int  # token, of all
    rows: int
    length: int


class _Layout(NamedTuple):
    """How rows lie one after the other, and whether a token sees only those before it."""

    equals: list[_Equals]
    causal: bool


def encoder_states(
    encoder: PreTrainedModel,
    tokens: Tensor,  # (N, L)
    attended: Tensor | None = None,  # (N, L), False on the padding behind shorter rows; None: there is none
    token_types: Tensor | None = None,  # (N, L)
) -> Tensor:  # (N, L, D)
    """The last states of a bidirectional encoder; of padding they are whatever they are, but finite."""
    if not _pays(encoder, attended):
        kinds = {} if token_types is None else {"token_type_ids": token_types}
        mask = None if attended is None else attended.long()
        with fast_linears(encoder):
            return encoder(input_ids=tokens, attention_mask=mask, **kinds).last_hidden_state
    assert attended is not None
    lengths = attended.sum(1).tolist()
    inside = attended.bool().flatten()
    own_types = None if token_types is None else list(token_types[attended.bool()].split(lengths))
    read = ragged_states(encoder, list(tokens[attended.bool()].split(lengths)), own_types)
    states = read[0].new_zeros(*tokens.shape, read[0].shape[-1])
    states.flatten(0, 1)[inside] = torch.cat(read)
    return states


def _pays(encoder: PreTrainedModel, attended: Tensor | None) -> bool:
    """Whether something is padded, all of it on the right, and the encoder can be read without."""
    if attended is None or not _is_only_run(encoder) or bool(attended.all()):  # a GPU is not waited for
        return False
    attended = attended.bool()
    on_the_right = bool(attended[:, 0].all()) and not bool((attended[:, 1:] & ~attended[:, :-1]).any())
    return on_the_right and reads_ragged(encoder)


def reads_ragged(model: Any, *, causal: bool = False) -> bool:
    """Whether rows can be read end to end: on a CPU, by a model that is only run, and whose attention is plain."""
    if not _is_only_run(model):
        return False
    known = _CAN.setdefault(model, {})
    if causal not in known:
        known[causal] = model._can_set_attn_implementation() and _equals_plain(model.base_model, causal)
    return known[causal]


_CAN: WeakKeyDictionary[PreTrainedModel, dict[bool, bool]] = WeakKeyDictionary()  # by whether it is to be causal


def _is_only_run(model: Any) -> bool:
    return not torch.is_grad_enabled() and not model.training and model.device.type == "cpu"


def ragged_states(
    encoder: Any, rows: Sequence[Tensor], token_types: Sequence[Tensor] | None = None, *, causal: bool = False
) -> list[Tensor]:  # (L,) each -> (L, D) each
    """The last states of rows of any lengths."""

    def read(batch: list[int]) -> tuple[Tensor, ...]:
        kinds = {}
        if token_types is not None:
            kinds = {"token_type_ids": torch.cat([token_types[place] for place in batch])[None]}
        own = [rows[place] for place in batch]
        output = _run(encoder, own, causal, **kinds).last_hidden_state[0]  # (T, D)
        return output.split([len(row) for row in own])

    batches = _equal_batches([len(row) for row in rows], torch.get_num_threads())
    with attending_by(_ATTENTION, encoder), fast_linears(encoder, often=len(batches) > 1):
        read_batches = side_by_side(read, batches)
    states = {
        place: own
        for batch, of_batch in zip(batches, read_batches, strict=True)
        for place, own in zip(batch, of_batch, strict=True)
    }
    return [states[place] for place in range(len(rows))]


def run_ragged(model: Any, rows: Sequence[Tensor], *, causal: bool, **kwargs: Any) -> Any:
    """The model's output on rows in ascending order of length, as on one row: (1, T, ...), T tokens in all."""
    with attending_by(_ATTENTION, model), fast_linears(model):
        return _run(model, rows, causal, **kwargs)


def _run(model: Any, rows: Sequence[Tensor], causal: bool, **kwargs: Any) -> Any:
    lengths = [len(row) for row in rows]
    positions = torch.cat([torch.arange(length) for length in lengths]) + _first_position(model)
    layout = _Layout(list(_equals(lengths)), causal)
    return model(input_ids=torch.cat(list(rows))[None], position_ids=positions[None], ragged=layout, **kwargs)


def batches_of_tokens(lengths: Sequence[int], most_tokens: int) -> Iterator[list[int]]:
    """Rows in ascending order of length, as many as have `most_tokens` together."""
    batch: list[int] = []
    total = 0
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and total + lengths[row] > most_tokens:
            yield batch
            batch, total = [], 0
        batch.append(row)
        total += lengths[row]
    if batch:
        yield batch


def _equal_batches(lengths: Sequence[int], threads: int) -> list[list[int]]:
    """Rows in batches of about `TOKENS_AT_ONCE`, as many for each thread, the longest first, which take most time."""
    total = sum(lengths)
    number = threads * -(-total // (TOKENS_AT_ONCE * threads))
    batches: list[list[int]] = [[] for _ in range(number)]
    before = 0
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        batches[before * number // total].append(row)
        before += lengths[row]
    return [batch for batch in reversed(batches) if batch]


def _equals(lengths: list[int]) -> Iterator[_Equals]:
    first = 0
    for length, rows in groupby(lengths):
        count = len(list(rows))
        yield _Equals(first, count, length)
        first += count * length


def _first_position(encoder: PreTrainedModel) -> int:
    """RoBERTa's kind counts positions from after its padding index."""
    positions = getattr(getattr(encoder, "embeddings", None), "position_embeddings", None)
    padding = getattr(positions, "padding_idx", None)
    return 0 if padding is None else padding + 1


def _attend(
    module: Any,
    query: Tensor,  # (1, H, T, d)
    key: Tensor,  # (1, Hkv, T, d)
    value: Tensor,  # (1, Hkv, T, d)
    attention_mask: Tensor | None,
    scaling: float | None = None,
    ragged: _Layout | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    if ragged is None or attention_mask is not None or any(kwargs.get(name) is not None for name in _UNKNOWN):
        raise NotImplementedError("rows of different lengths are read end to end by plain attention only")
    output = query.new_empty(1, query.shape[2], query.shape[1], value.shape[3])  # (1, T, H, d)
    grouped = query.shape[1] != key.shape[1]
    for first, rows, length in ragged.equals:
        own = slice(first, first + rows * length)
        # (n, H, L, d), without a copy
        q, k, v = (whole[0, :, own].unflatten(1, (rows, length)).transpose(0, 1) for whole in (query, key, value))
        attended = scaled_dot_product_attention(q, k, v, is_causal=ragged.causal, scale=scaling, enable_gqa=grouped)
        output[0, own].unflatten(0, (rows, length)).copy_(attended.transpose(1, 2))
    return output, None


AttentionInterface.register(_ATTENTION, _attend)


def _equals_plain(model: Any, causal: bool) -> bool:
    vocab_size = model.get_input_embeddings().weight.shape[0]
    tokens = torch.arange(18).view(3, 6) * 7919 % vocab_size
    rows = [tokens[0, :2], tokens[1, :4], tokens[2]]
    try:
        plain = [model(input_ids=row[None]).last_hidden_state[0] for row in rows]
        ragged = ragged_states(model, rows, causal=causal)
    except (AttributeError, IndexError, KeyError, NotImplementedError, RuntimeError, TypeError, ValueError):
        return False
    return torch.allclose(torch.cat(ragged), torch.cat(plain), atol=_TOLERANCE, rtol=_TOLERANCE)
