"""The continuous relaxation of beam search (Algs. 2 and 3, Goyal 2021), and what is trained and decoded with it.

Every choice of the search becomes a peaked softmax: a hypothesis is a mixture of all continuations of all hypotheses,
its state, its input and its cost are mixtures too, and the cost of what search finds has a gradient. As alpha grows,
it becomes hard beam search, except where scores tie.

*Starting.* The printed s_0 = 0 for all k hypotheses keeps them identical for ever. Here the beam grows from a single
hypothesis, as hard search's does; where the first step has fewer than k continuations, copies of it at -1e4 stand in
(-inf would make NaN), which never win.

*Ending.* With an `end` symbol a hypothesis is over with probability o_i, the mass of `end` in what it wrote last. It
then writes `end` again, at no score: s~[i, v] = s_i + log((1 - o_i) exp f(h_i, v) + o_i 1[v = end]), so that a single
continuation of a hypothesis that is over competes, and a distribution stays one. Sentences that have reached their
length keep scores and costs as they are.

*Candidates.* In a large vocabulary a step lets only C symbols compete, those that score best after any hypothesis of
the sentence, s~ = max_i s~[i, v]. With C = V nothing changes; with fewer, what is left out would have had little mass.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as functional
from torch import Tensor

from lexergy.core.ends import inside, lengths_until
from lexergy.core.search_aware.beam_search import BeamResult, follow_backpointers, ranked
from lexergy.core.search_aware.sequence_costs import StepCosts, hamming_costs
from lexergy.core.search_aware.soft_choice import mixed, peak_logits
from lexergy.core.search_aware.step_decoder import PADDING, States, StepDecoder, score_sequences
from lexergy.errors import LexergyError

_NEVER = -1e4  # the logarithm of a probability that is as good as 0, in float32 and squared too


class SoftBeam(NamedTuple):
    """The relaxed beam after the last step, and the choices that had most mass on the way."""

    scores: Tensor  # (B, k), s_T, best first
    costs: Tensor  # (B, k), D_T
    backpointers: Tensor  # (T, B, k), places on the beam before
    symbols: Tensor  # (T, B, k), PADDING after a sentence's length


def continuous_top_k_argmax(scores: Tensor, alpha: float) -> Tensor:  # (..., k, V) -> (..., k, k, V)
    """p_i = peaked-softmax_alpha(-(s - m_i)^2), m_i the i-th largest score: where the i-th best is (Alg. 2).

    Each p_i sums to 1 over hypotheses and symbols, and becomes the indicator of the i-th best as alpha grows.
    """
    flat = scores.flatten(-2)
    largest = flat.topk(scores.shape[-2], -1).values
    peaks = peak_logits(flat, largest, alpha).softmax(-1)
    return peaks.view(*peaks.shape[:-1], *scores.shape[-2:])


def direct_loss(
    decoder: StepDecoder,
    gold: Tensor,  # (B, T)
    beam: int,
    alpha: float,
    costs: StepCosts | None = None,
    *,
    candidates: int | None = None,
) -> Tensor:  # (B,)
    """The relaxed cost of what beam search finds, peaked-softmax_alpha(s_T) . D_T (Alg. 3, line 19; Eq. 4.2).

    Costs are Hamming's unless told. As alpha grows, the loss becomes the cost of the sequence that hard search finds.

    Example: `direct_loss(model.bound(batch), gold, beam=3, alpha=1.0, candidates=50).mean().backward()`.
    """
    final = soft_beam(decoder, beam, alpha, costs or hamming_costs(decoder, gold), candidates=candidates)
    return ((final.scores * alpha).softmax(-1) * final.costs).sum(-1)


def soft_hinge_loss(
    decoder: StepDecoder,
    gold: Tensor,  # (B, T)
    beam: int,
    alpha: float,
    costs: StepCosts | None = None,
    *,
    candidates: int | None = None,
) -> Tensor:  # (B,)
    """max(0, s_max - s(y*)), s_max = peaked-softmax_alpha(s_T) . s_T of a search in which costs add to scores (4.4).

    Both passes read the same decoder, so that they share its dropout: otherwise the margin would be noise.
    """
    costs = costs or hamming_costs(decoder, gold)
    scores = soft_beam(decoder, beam, alpha, costs, candidates=candidates, augment=True).scores
    highest = ((scores * alpha).softmax(-1) * scores).sum(-1)
    return (highest - score_sequences(decoder, gold)).relu()


def soft_beam_decode(decoder: StepDecoder, beam: int, alpha: float, *, candidates: int | None = None) -> BeamResult:
    """The sequences that the relaxed search finds, by the pair of hypothesis and symbol of most mass at each step.

    "The hard backpointers are essentially the MAP estimate of the soft backpointers" (4.3.4): the pair of most mass
    in p_i is that of the i-th best score. States, inputs and scores are the relaxed ones, which is what makes this
    another search than the hard one while alpha is small.
    """
    with torch.no_grad():
        final = soft_beam(decoder, beam, alpha, candidates=candidates)
    symbols = follow_backpointers(final.backpointers, final.symbols)  # (B, k, T)
    over = ~inside(lengths_until(symbols, decoder.end), symbols.shape[-1])
    copies = final.scores < final.scores.amax(-1, keepdim=True) + _NEVER / 2
    return ranked(symbols.masked_fill(over, PADDING), final.scores.masked_fill(copies, -torch.inf))


class _Ends(NamedTuple):
    """Whether hypotheses are over: o_i and 1 - o_i, as logarithms."""

    log_over: Tensor  # (B, k)
    log_going: Tensor  # (B, k)


def soft_beam(
    decoder: StepDecoder,
    beam: int,
    alpha: float,
    costs: StepCosts | None = None,
    *,
    candidates: int | None = None,
    augment: bool = False,
) -> SoftBeam:
    """Run the relaxed search (Alg. 3); `augment` adds each symbol's cost to its score (4.4)."""
    _check(beam, alpha, candidates)
    embeddings, lengths = decoder.embeddings, decoder.lengths
    count = min(candidates or len(embeddings), len(embeddings))
    states, inputs, scores = _start(decoder, beam, count)
    totals, ends = torch.zeros_like(scores), None
    backpointers, written = [], []
    for position in range(int(lengths.max())):
        step_scores, states = decoder.step(position, states, inputs)  # (B, K, V)
        if decoder.end is not None and ends is not None:
            step_scores = _with_ends(step_scores, ends, decoder.end)
        width = step_scores.shape[1]
        step_scores, symbols, embedded = _candidates(step_scores, scores[:, :width], embeddings, candidates and count)
        step_costs = None if costs is None else costs(position, symbols)  # (B, C)
        if augment and step_costs is not None:
            step_scores = step_scores + step_costs.unsqueeze(1)
        continued = (scores[:, :width, None] + step_scores).flatten(1)  # s~ (B, K * C)
        best = continued.topk(beam, -1)
        new_scores, shares, mixture = mixed(continued, best.values, alpha, width)
        new_totals = (shares @ totals[:, :width, None]).squeeze(-1)
        if step_costs is not None:
            new_totals = new_totals + (mixture @ step_costs.unsqueeze(-1)).squeeze(-1)
        inputs = mixture @ embedded
        states = tuple((shares @ state.flatten(2)).view(*shares.shape[:2], *state.shape[2:]) for state in states)
        if decoder.end is not None:
            ends = _ends(peak_logits(continued, best.values, alpha), (symbols == decoder.end).repeat(1, width))
        going = (position < lengths).unsqueeze(-1)
        scores, totals = torch.where(going, new_scores, scores), torch.where(going, new_totals, totals)
        places = torch.arange(beam, device=going.device)
        backpointers.append(torch.where(going, best.indices // count, places))
        written.append(symbols.gather(1, best.indices % count).where(going, PADDING))
    return SoftBeam(scores, totals, torch.stack(backpointers), torch.stack(written))


def _check(beam: int, alpha: float, candidates: int | None) -> None:
    if beam < 1:
        raise LexergyError(f"`beam` is {beam}; expected at least 1, which is relaxed greedy search.")
    if not alpha > 0:
        raise LexergyError(f"`alpha` is {alpha}; expected more than 0; the larger, the closer to hard search.")
    if candidates is not None and candidates < 1:
        raise LexergyError(
            f"`candidates` is {candidates}; expected at least 1; leave it out to let all symbols compete."
        )


def _start(decoder: StepDecoder, beam: int, count: int) -> tuple[States, Tensor, Tensor]:
    """States and inputs of as many hypotheses as it takes to have `beam` continuations; scores (B, k) of all places."""
    states, inputs = decoder.start()
    copies = -(-beam // count)
    scores = torch.arange(beam, device=inputs.device).to(inputs) * _NEVER
    states = tuple(state.expand(-1, copies, *state.shape[2:]) for state in states)
    return states, inputs.expand(-1, copies, -1), scores.expand(len(inputs), -1)


def _candidates(
    step_scores: Tensor,  # (B, K, V)
    scores: Tensor,  # (B, K)
    embeddings: Tensor,  # (V, E)
    count: int | None,
) -> tuple[Tensor, Tensor, Tensor]:  # (B, K, C), (B, C), (B, C, E) or (V, E)
    """The symbols that compete, their scores after each hypothesis, and their embeddings."""
    batch, width, vocab_size = step_scores.shape
    if count is None:
        return step_scores, torch.arange(vocab_size, device=scores.device).expand(batch, -1), embeddings
    with torch.no_grad():
        symbols = (step_scores + scores.unsqueeze(-1)).amax(1).topk(count, -1, sorted=False).indices
    step_scores = step_scores.gather(2, symbols.unsqueeze(1).expand(-1, width, -1))
    return step_scores, symbols, functional.embedding(symbols, embeddings)


def _with_ends(step_scores: Tensor, ends: _Ends, end: int) -> Tensor:  # (B, K, V) -> (B, K, V)
    """log((1 - o_i) exp f(h_i, v) + o_i 1[v = end])."""
    going = step_scores + ends.log_going.unsqueeze(-1)
    ended = torch.logaddexp(going[..., end], ends.log_over).unsqueeze(-1)
    return going.index_copy(-1, torch.tensor([end], device=going.device), ended)


def _ends(logits: Tensor, is_end: Tensor) -> _Ends:  # (B, k, K * C), (B, K * C) bool
    """o_i, the mass of `end` in what a hypothesis wrote last, after whatever hypothesis it wrote it."""
    log_peaks, is_end = logits.log_softmax(-1), is_end.unsqueeze(1)
    return _Ends(*(torch.where(which, log_peaks, _NEVER).logsumexp(-1) for which in (is_end, ~is_end)))
