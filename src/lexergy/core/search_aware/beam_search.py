"""Hard beam search over a step decoder (Alg. 1, Goyal 2021), what falls off its beam, and exact search as its oracle.

A hypothesis is over when its sentence's length is reached or when it has written `end`. It then stays on the beam with
its score: of its continuations a single one competes, which writes nothing and costs nothing.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as functional
from torch import Tensor

from lexergy.core.search_aware.step_decoder import PADDING, StepDecoder, written
from lexergy.errors import LexergyError

_MOST_SEQUENCES = 2**20


class BeamResult(NamedTuple):
    """The sequences that a search found for each sentence, best first."""

    symbols: Tensor  # (B, K, T), PADDING after the end
    scores: Tensor  # (B, K), -inf where there are fewer than K sequences
    lengths: Tensor  # (B, K), of the sequences, `end` included


class BeamStep(NamedTuple):
    """The beam after a step: whose continuation each hypothesis is, and by what."""

    scores: Tensor  # (B, K), best first
    parents: Tensor  # (B, K), places on the beam before
    symbols: Tensor  # (B, K), PADDING where a hypothesis was over already


def beam_search(
    decoder: StepDecoder, beam: int, *, max_steps: int | None = None, length_penalty: float = 0.0
) -> BeamResult:
    """The `beam` best sequences that beam search finds, for a batch of sentences at once; greedy search is beam 1.

    `length_penalty` p orders the last beam by s(y) / |y|^p; 0 orders it by the score, 1 by the mean score of a symbol.
    """
    with torch.no_grad():
        steps = [_widened(step, beam) for step in beam_steps(decoder, beam, max_steps)]
    parents, symbols = (torch.stack([step[part] for step in steps]) for part in (1, 2))  # (T, B, K)
    return ranked(follow_backpointers(parents, symbols), steps[-1].scores, length_penalty)


def beam_steps(decoder: StepDecoder, beam: int, max_steps: int | None = None) -> Iterator[BeamStep]:
    """The beam after each step, until all hypotheses are over; scores are differentiable, choices are not.

    The beam grows from one hypothesis, so that no two are the same; it stays narrower than `beam` while there are
    fewer sequences than that. Hypotheses of score -inf are none.
    """
    if beam < 1:
        raise LexergyError(f"`beam` is {beam}; expected at least 1, which is greedy search.")
    lengths = decoder.lengths if max_steps is None else decoder.lengths.clamp_max(max_steps)
    states, inputs = decoder.start()
    scores = inputs.new_zeros(inputs.shape[:2])  # (B, 1)
    over = torch.zeros_like(scores, dtype=torch.bool)
    for position in range(int(lengths.max())):
        over = over | (position >= lengths).unsqueeze(-1)
        if over.all():
            return
        step_scores, states = decoder.step(position, states, inputs)
        step = advance(scores, step_scores, over, beam)
        yield step
        scores, parents = step.scores, step.parents
        states = tuple(chosen(state, parents) for state in states)
        inputs = decoder.embeddings[step.symbols.clamp_min(0)]
        over = over.gather(1, parents)
        if decoder.end is not None:
            over = over | (step.symbols == decoder.end)


def advance(scores: Tensor, step_scores: Tensor, over: Tensor, beam: int) -> BeamStep:  # (B, K), (B, K, V), (B, K)
    """The best `beam` of all continuations, s~[i, v] = s_i + f(h_i, v) (Alg. 1, lines 3 to 7).

    What is over has a single continuation, of its own score. Where there are fewer, the beam is narrower.
    """
    vocab_size = step_scores.shape[-1]
    stay = step_scores.new_full((vocab_size,), -torch.inf)
    stay[0] = 0
    continued = scores.unsqueeze(-1) + torch.where(over.unsqueeze(-1), stay, step_scores)
    flat = continued.flatten(1)  # (B, K * V)
    best = flat.topk(min(beam, flat.shape[1]), -1)
    parents = best.indices // vocab_size
    return BeamStep(best.values, parents, (best.indices % vocab_size).masked_fill(over.gather(1, parents), PADDING))


def chosen(state: Tensor, parents: Tensor) -> Tensor:  # (B, K, ...), (B, N) -> (B, N, ...)
    """The states of the hypotheses that are continued."""
    return state[torch.arange(len(state), device=state.device).unsqueeze(-1), parents]


def follow_backpointers(parents: Tensor, symbols: Tensor) -> Tensor:  # (T, B, K), (T, B, K) -> (B, K, T)
    """The sequences that end in each place of the last beam (Alg. 1, line 11)."""
    place = torch.arange(parents.shape[-1], device=parents.device).expand_as(parents[0])  # (B, K)
    sequences = []
    for step_parents, step_symbols in zip(parents.flip(0), symbols.flip(0), strict=True):
        sequences.append(step_symbols.gather(1, place))
        place = step_parents.gather(1, place)
    return torch.stack(sequences[::-1], -1)


def _widened(step: BeamStep, beam: int) -> BeamStep:
    """A beam with hypotheses of score -inf in the places that are still free."""
    free = (0, beam - step.scores.shape[1])
    return BeamStep(
        functional.pad(step.scores, free, value=-torch.inf),
        functional.pad(step.parents, free),
        functional.pad(step.symbols, free, value=PADDING),
    )


def ranked(symbols: Tensor, scores: Tensor, length_penalty: float = 0.0) -> BeamResult:  # (B, K, T), (B, K)
    """Sequences in the order of s(y) / |y|^p, those of score -inf emptied."""
    symbols = symbols.masked_fill((scores == -torch.inf).unsqueeze(-1), PADDING)
    lengths = (symbols != PADDING).sum(-1)  # (B, K)
    order = (scores / lengths.clamp_min(1) ** length_penalty).argsort(dim=-1, descending=True, stable=True)
    return BeamResult(chosen(symbols, order), scores.gather(1, order), lengths.gather(1, order))


def gold_places(decoder: StepDecoder, gold: Tensor, beam: int) -> Iterator[tuple[BeamStep, Tensor]]:
    """Each step of the search, and where on its beam the gold prefix is: (B, K) bool, nowhere once it fell off."""
    gold = gold.masked_fill(~written(decoder, gold), PADDING)
    on_beam = torch.ones(len(gold), 1, dtype=torch.bool, device=gold.device)
    for position, step in enumerate(beam_steps(decoder, beam)):
        symbol = gold[:, position] if position < gold.shape[1] else torch.full_like(gold[:, 0], PADDING)
        on_beam = on_beam.gather(1, step.parents) & (step.symbols == symbol.unsqueeze(-1)) & step.scores.isfinite()
        yield step, on_beam


def gold_survival(decoder: StepDecoder, gold: Tensor, beam: int) -> Tensor:  # (B, T) -> (B,)
    """The step at which the gold prefix falls off the beam; `decoder.lengths` where it never does."""
    survival = decoder.lengths.clone()
    with torch.no_grad():
        for position, (_, on_beam) in enumerate(gold_places(decoder, gold, beam)):
            survival = torch.where(on_beam.any(-1), survival, survival.clamp_max(position))
    return survival


def all_sequences_scored(decoder: StepDecoder) -> BeamResult:
    """All V^T sequences of each sentence and their scores, in no order: small spaces only.

    Sequences that differ only after their end are the same: all but the first have score -inf.
    """
    vocab_size, steps = len(decoder.embeddings), int(decoder.lengths.max())
    if vocab_size**steps > _MOST_SEQUENCES:
        raise LexergyError(
            f"{vocab_size} symbols and {steps} steps make {vocab_size}^{steps} sequences; expected at most "
            f"{_MOST_SEQUENCES}; use `beam_search`."
        )
    states, inputs = decoder.start()
    batch = len(inputs)
    scores = inputs.new_zeros(batch, 1)
    symbols = torch.empty(batch, 1, 0, dtype=torch.long, device=inputs.device)
    every = torch.arange(vocab_size, device=inputs.device)
    for position in range(steps):
        step_scores, states = decoder.step(position, states, inputs)  # (B, N, V)
        over = (position >= decoder.lengths).view(-1, 1).expand(-1, scores.shape[1])
        if decoder.end is not None:
            over = over | (symbols == decoder.end).any(-1)
        once = torch.where(every == 0, 0.0, -torch.inf).to(scores)
        scores = (scores.unsqueeze(-1) + torch.where(over.unsqueeze(-1), once, step_scores)).flatten(1)
        added = torch.where(over.unsqueeze(-1), PADDING, every)  # (B, N, V)
        symbols = torch.cat([symbols.repeat_interleave(vocab_size, 1), added.view(batch, -1, 1)], -1)
        states = tuple(state.repeat_interleave(vocab_size, 1) for state in states)
        inputs = decoder.embeddings[added.clamp_min(0)].flatten(1, 2)
    return BeamResult(symbols, scores, (symbols != PADDING).sum(-1))


def exact_search(decoder: StepDecoder, num_best: int = 1) -> BeamResult:
    """The `num_best` best of all sequences, by enumeration: the oracle that beam search is measured by."""
    with torch.no_grad():
        every = all_sequences_scored(decoder)
    best = every.scores.topk(min(num_best, every.scores.shape[1]), -1)
    return ranked(chosen(every.symbols, best.indices), best.values)
