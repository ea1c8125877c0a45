"""What a causal LM gives to the tokens of a text, and which tokens it would have thought likelier."""

from typing import NamedTuple

import torch
from torch import Tensor

from lexergy.models.causal.lm import CausalLM
from lexergy.models.causal.log_probs import pick_log_prob
from lexergy.models.causal.row_logits import row_logits


class TopLogProbs(NamedTuple):
    """Of each token of one continuation."""

    log_prob: Tensor  # (C,) float64
    top_log_prob: Tensor  # (C, k), the likeliest first
    top_tokens: Tensor  # (C, k)


_PLACES_AT_ONCE = 256  # whose logits over the whole vocabulary are held at once


@torch.inference_mode()
def top_log_probs(lm: CausalLM, row: Tensor, prefix_length: int, count: int) -> TopLogProbs:  # (L,)
    """log p_LM(x_t | x_<t) of the continuation's tokens and of the `count` likeliest tokens in each place.

    The LM's own distribution: neither temperature nor truncation change it; what it may not write is left out.
    """
    row = lm.check_rows(row[None], prefix_length)  # (1, L)
    starts = range(prefix_length, row.shape[1], _PLACES_AT_ONCE)
    parts = [_part(lm, row[:, : start + _PLACES_AT_ONCE], start, count) for start in starts]
    return TopLogProbs(*(torch.cat(column) for column in zip(*parts, strict=True)))


def _part(lm: CausalLM, row: Tensor, prefix_length: int, count: int) -> TopLogProbs:  # (1, L)
    (part,) = row_logits(lm, row, prefix_length)
    log_prob = pick_log_prob(part.logits, part.rows[:, prefix_length:])[0]
    top = part.logits[0].double().log_softmax(-1).topk(min(count, lm.vocab_size), -1)
    return TopLogProbs(log_prob.cpu(), top.values.cpu(), top.indices.cpu())


class GreedyLogProbs(NamedTuple):
    """Of B continuations."""

    log_prob: Tensor  # (B,) float64
    is_greedy: Tensor  # (B,) bool, whether each token is the likeliest in its place


@torch.inference_mode()
def greedy_log_probs(lm: CausalLM, rows: Tensor, prefix_length: int) -> GreedyLogProbs:  # (B, L)
    """log p_LM of the continuations, and whether greedy decoding would write them."""
    log_prob, is_greedy = [], []
    for part in row_logits(lm, lm.check_rows(rows, prefix_length), prefix_length):
        own = part.rows[:, prefix_length:]  # (b, C)
        log_prob.append(pick_log_prob(part.logits, own).sum(1))
        is_greedy.append((part.logits.argmax(-1) == own).all(1))
    return GreedyLogProbs(torch.cat(log_prob).cpu(), torch.cat(is_greedy).cpu())
