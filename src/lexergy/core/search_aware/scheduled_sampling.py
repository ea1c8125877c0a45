"""Training on the decoder's own choices: scheduled sampling, its relaxations, and their schedules (3.3, Goyal 2021).

Schedules count steps, that is updates of the weights. The thesis counts epochs: with its k = 100 gold still has
probability .98 after 50 epochs, which is next to no mixing. Multiply its k by the steps of an epoch to follow it.
"""

import math
from collections.abc import Callable
from typing import TypeAlias

import torch
from scipy.special import lambertw
from torch import Tensor

from lexergy.core.decoding import pick
from lexergy.core.search_aware.step_decoder import StepDecoder, written
from lexergy.errors import LexergyError

Noise: TypeAlias = Callable[[int], Tensor]
"""A position -> uniform numbers (B, V) for the draws there. Asked step by step, as (B, T, V) of them are too many."""


def soft_argmax(scores: Tensor, alpha: float) -> Tensor:  # (..., V) -> (..., V)
    """The weights exp(alpha s(v)) / sum_v' exp(alpha s(v')); alpha = inf is the argmax itself (3.3.2)."""
    if alpha == math.inf:
        return torch.zeros_like(scores).scatter(-1, scores.argmax(-1, keepdim=True), 1.0)
    return (scores * alpha).softmax(-1)


def gumbel_softmax(scores: Tensor, uniforms: Tensor, alpha: float) -> Tensor:  # (..., V), (..., V) -> (..., V)
    """A soft sample: the soft argmax of s(v) + G_v, G = -log(-log U) (3.3.2; Maddison et al. 2017, Jang et al. 2016).

    Its largest entry is a draw from softmax(s), whatever alpha is; alpha = inf is the draw itself.
    """
    tiny = torch.finfo(uniforms.dtype).tiny
    return soft_argmax(scores - (-uniforms.clamp_min(tiny).log()).clamp_min(tiny).log().to(scores.dtype), alpha)


def scheduled_log_scores(
    decoder: StepDecoder,
    gold: Tensor,  # (B, T)
    gold_probability: float,
    coins: Tensor,  # (B, T), uniform numbers
    *,
    alpha: float = math.inf,
    noise: Noise | None = None,
) -> Tensor:  # (B, T), 0 after the end
    """f(h_t, y*_t) at each step, when what was written before is gold with a probability and else the decoder's choice.

    The choice is the best symbol or, where there is `noise`, a draw, taken hard (alpha = inf: Bengio et al. 2015, no
    gradient passes through it) or as a mixture of embeddings (3.3.2). -sum_t of this is the loss; with probability 1
    it is that of teacher forcing. A coin for each step of each sentence says gold where it is below the probability.
    """
    if not 0 <= gold_probability <= 1:
        raise LexergyError(f"`gold_probability` is {gold_probability}; expected 0 to 1; 1 is teacher forcing.")
    embeddings = decoder.embeddings
    takes_gold = coins < gold_probability  # (B, T)
    states, inputs = decoder.start()
    log_scores = []
    for position in range(gold.shape[1]):
        scores, states = decoder.step(position, states, inputs)  # (B, 1, V)
        symbol = gold[:, position, None].clamp_min(0)  # (B, 1)
        log_scores.append(pick(scores, symbol))
        if noise is None:
            weights = soft_argmax(scores, alpha)
        else:
            weights = gumbel_softmax(scores, noise(position).unsqueeze(1), alpha)
        inputs = torch.where(takes_gold[:, position, None, None], embeddings[symbol], weights @ embeddings)
    return torch.where(written(decoder, gold), torch.cat(log_scores, 1), 0)


def inverse_sigmoid(step: int, strength: float) -> float:
    """The probability of gold k / (k + exp(i / k)) at step i: near 1 until about k log k (Bengio et al. 2015)."""
    return 1 / (1 + math.exp(min(step / strength - math.log(strength), 700.0)))


def linear(step: int, slope: float, floor: float = 0.0) -> float:
    """The probability of gold max(floor, 1 - slope i) (Bengio et al. 2015)."""
    return max(floor, 1 - slope * step)


def exponential(step: int, base: float) -> float:
    """The probability of gold base^i, base < 1 (Bengio et al. 2015)."""
    return float(base**step)


def annealed(step: int, first: float, last: float, steps: int) -> float:
    """Alpha that grows by one factor at each step, from `first` to `last` after `steps`, and stays there (3.3.3)."""
    return first * math.pow(last / first, min(step / max(steps, 1), 1.0))


def inverse_sigmoid_strength(half: float) -> float:
    """The k whose inverse sigmoid gives gold a probability of one half at step `half`: k log k = half."""
    return half / float(lambertw(half).real)
