"""Drawing many continuations of each prefix, each with its log-probability under the distribution it was drawn from."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from lexergy.core.decoding import FORKS, Decoding, Draw, draw, pick, truncated_log_probs
from lexergy.core.random import successors, uniforms
from lexergy.core.vocabulary import VocabularySummary, summarise
from lexergy.models.causal.batches import in_batches
from lexergy.models.causal.branches import Branches
from lexergy.models.causal.frozen import FrozenModel
from lexergy.models.causal.runtimes.choice import Rows
from lexergy.models.causal.samples import Samples
from lexergy.models.causal.state_features import StateFeatures
from lexergy.models.causal.states import PooledStates, pooled_given
from lexergy.models.causal.stopping import StopStrings
from lexergy.progress import count

FEW_ROWS = 128
STEPS_AT_ONCE = 32  # of random numbers
PLAIN = Decoding()


class Resampler(Protocol):
    """Whoever decides, while texts are drawn, by what, and which of them go on."""

    def proposal(self, step: int, logits: Tensor, summary: VocabularySummary) -> Tensor | None:
        """The logits (R, V) that the token after `step` others is drawn by; None: those of the LM."""

    def after(self, length: int, written: "Written", pool: PooledStates | None) -> Tensor | None:
        """After so many tokens: row r goes on from row `index[r]` (R,), of the same prefix; None: all as they are."""


@dataclass(frozen=True)
class Sampling:
    """What decides a sample, but for its prefix and its number."""

    max_new_tokens: int
    decoding: Decoding
    seed: int
    stop: StopStrings | None
    features: StateFeatures | None
    given_length: int
    resampler: Resampler | None = None
    kept: Tensor | None = None  # (B, C), the tokens of the first sample of each prefix, which are not drawn
    begun: Tensor | None = None  # (B, K), the first token of each sample, which is not drawn

    def part(self, group: slice, first: int, count: int) -> "Sampling":
        """For so many samples of some of the prefixes."""
        return self if self.begun is None else replace(self, begun=self.begun[group, first : first + count])


def sample_in_batches(
    lm: FrozenModel,
    prefix: Tensor,  # (B, P)
    streams: Sequence[int],
    first_sample: int,
    num_samples: int,
    rows_per_batch: int,
    sampling: Sampling,
) -> Samples:
    """K samples of each prefix, at most `rows_per_batch` rows at a time."""

    def compute(group: slice, first: int, count: int) -> Samples:
        part = sampling.part(group, first, count)
        return sample_batch(lm, prefix[group], streams[group], first_sample + first, count, part)

    return in_batches(compute, len(prefix), num_samples, rows_per_batch)


def sample_batch(
    lm: FrozenModel,
    prefix: Tensor,  # (B, P)
    streams: Sequence[int],
    first_sample: int,
    num_samples: int,
    sampling: Sampling,
) -> Samples:
    """All K samples of all B prefixes as one batch of R = B * K rows."""
    features, length = sampling.features, sampling.max_new_tokens
    pool = None
    if features is not None:
        pool = pooled_given(lm, prefix, sampling.given_length, features).continued(num_samples, length)
    layers = () if features is None else features.layers
    first_logits, rows = lm.continuations(prefix, num_samples, length, layers)
    logits = first_logits.repeat_interleave(num_samples, 0)  # (R, V)
    written = Written(len(prefix) * num_samples, length, lm.end_token, sampling.stop, prefix.device)
    branches = Branches(len(prefix), num_samples, prefix.device)
    given = lm.contexts(prefix)[:, -1].repeat_interleave(num_samples, 0)  # (R, n)
    with _threads_beside(rows, len(logits)):
        for step, numbers in enumerate(_numbers(sampling, streams, first_sample, num_samples, logits.device)):
            logits = lm.correct(logits, written.before(step, given))
            summary = None if pool is None else summarise(logits)  # read once for the draw and the statistics
            counted = written.alive
            count(len(logits))
            chosen = written.add(step, _drawn(step, logits, summary, numbers, sampling, written))
            if pool is not None and summary is not None:
                pool.add_statistics(step, logits, chosen, summary)
            last = step == length - 1 or written.has_ended()
            if last and not layers:
                break
            parents, fed = branches.grow(chosen, counted if layers else written.alive)
            if parents is not None:
                rows.fork(parents)
            del logits  # as much memory as the next ones take
            output: Any = rows.feed(
                fed.unsqueeze(-1),
                model=lm.model.base_model if last else None,  # nothing follows the last token: no LM head
                output_hidden_states=bool(layers),
            )
            if pool is not None and layers:
                states = {layer: branches.of_samples(output.hidden_states[layer]) for layer in layers}
                pool.add_states(states, counted.unsqueeze(-1))
            if last:
                break
            logits = output.logits[:, -1].float()
            index = None if sampling.resampler is None else sampling.resampler.after(step + 1, written, pool)
            if index is not None:
                branches.reorder(index)
                written.reorder(index)
                if pool is not None:
                    pool.reorder(index)
                if written.has_ended():
                    break
            logits = branches.of_samples(logits)  # once for all that moves: it is as large as anything here
    shape = (len(prefix), num_samples)
    return Samples(
        written.tokens.view(*shape, -1).cpu(),
        written.log_prob.view(shape).cpu(),
        written.lengths.view(shape).cpu(),
        None if pool is None else pool.pooled(written.lengths).view(*shape, -1).cpu(),
        None if sampling.resampler is None else written.log_ratio.view(shape).cpu(),
    )


def _numbers(
    sampling: Sampling, streams: Sequence[int], first_sample: int, num_samples: int, device: torch.device
) -> Iterator[Tensor]:
    """What decides the tokens of each step in turn, (R, F): of many steps at once, hardly dearer than of one."""
    length = sampling.max_new_tokens
    for start in range(0, length, STEPS_AT_ONCE):
        steps = range(start, min(start + STEPS_AT_ONCE, length))
        decided = [uniforms(sampling.seed, streams, step, first_sample, num_samples).flatten() for step in steps]
        yield from successors(torch.cat(decided).to(device), FORKS).unflatten(0, (len(steps), -1))


@contextmanager
def _threads_beside(rows: Rows, num_rows: int) -> Iterator[None]:
    """One thread of torch's where a runtime has threads of its own and rows are few.

    What torch computes is then over before a second thread has come, and that one would spin where the runtime's works.
    """
    threads = torch.get_num_threads()
    if rows.has_own_threads and num_rows < FEW_ROWS:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _drawn(
    step: int,
    logits: Tensor,  # (R, V)
    summary: VocabularySummary | None,
    numbers: Tensor,  # (R, F)
    sampling: Sampling,
    written: "Written",
) -> Draw:
    """The next token of each row, by the LM or by what is proposed in its place."""
    proposed = None
    if sampling.resampler is not None and summary is not None:
        proposed = sampling.resampler.proposal(step, logits, summary)
    source, decoding = (logits, sampling.decoding) if proposed is None else (proposed, PLAIN)
    drawn = draw(source, numbers, decoding, summary if proposed is None else None)
    if sampling.kept is not None:
        drawn = _keeping(drawn, source, sampling.kept[:, step], decoding)
    if sampling.begun is not None and step == 0:
        tokens = sampling.begun.flatten()
        drawn = Draw(tokens, pick(truncated_log_probs(source.double(), decoding), tokens))
    return drawn if proposed is None or summary is None else _by_the_lm(drawn, logits, summary, written)


def _by_the_lm(drawn: Draw, logits: Tensor, summary: VocabularySummary, written: "Written") -> Draw:
    """What was drawn from a proposal, with its log-probability by the LM; how much that is more is noted."""
    log_prob = pick(logits, drawn.tokens).double() - summary.log_mass().logsumexp(-1)
    written.log_ratio = written.log_ratio + (log_prob - drawn.log_prob).masked_fill(~written.alive, 0)
    return Draw(drawn.tokens, log_prob)


def _keeping(drawn: Draw, logits: Tensor, kept: Tensor, decoding: Decoding) -> Draw:  # (R, V), (B,)
    """The first sample of each prefix has this token, whatever was drawn."""
    first = slice(None, None, len(logits) // len(kept))
    tokens, log_prob = drawn.tokens.clone(), drawn.log_prob.clone()
    tokens[first] = kept
    log_prob[first] = pick(truncated_log_probs(logits[first].double(), decoding), kept)
    return Draw(tokens, log_prob)


class Written:
    """What R rows have drawn so far; a row is alive until its end token or a stop string."""

    def __init__(
        self, num_rows: int, length: int, end_token: int | None, stop: StopStrings | None, device: torch.device
    ) -> None:
        self.end_token = end_token
        self.stop = stop
        self.tokens = torch.full((num_rows, length), end_token or 0, device=device)
        self.log_prob = torch.zeros(num_rows, dtype=torch.float64, device=device)
        self.log_ratio = torch.zeros(num_rows, dtype=torch.float64, device=device)  # log P_LM - log q
        self.lengths = torch.full((num_rows,), length, device=device)
        self.alive = torch.ones(num_rows, dtype=torch.bool, device=device)

    def add(self, step: int, drawn: Draw) -> Tensor:
        """The tokens (R,) of this step, padding where a row has ended."""
        if self.end_token is None and self.stop is None:  # nothing ends
            self.tokens[:, step] = drawn.tokens
            self.log_prob += drawn.log_prob
            return drawn.tokens
        chosen = torch.where(self.alive, drawn.tokens, self.end_token or 0)
        self.tokens[:, step] = chosen
        self.log_prob += drawn.log_prob.masked_fill(~self.alive, 0)
        ended = self.alive & (chosen == (-1 if self.end_token is None else self.end_token))
        if self.stop is not None:
            ended[self.alive] |= self.stop.are_in(self.tokens[self.alive, : step + 1])
        self.lengths[ended] = step + 1
        self.alive = self.alive & ~ended
        return chosen

    def before(self, step: int, given: Tensor) -> Tensor:  # (R, n) -> (R, n)
        """The last tokens before this step, of which the `given` ones stand before all that was written."""
        return torch.cat((given, self.tokens[:, :step]), 1)[:, step:] if given.shape[1] else given

    def reorder(self, index: Tensor) -> None:  # (R,)
        """Row r goes on from what row `index[r]` has written."""
        self.tokens, self.log_prob = self.tokens[index], self.log_prob[index]
        self.lengths, self.alive, self.log_ratio = self.lengths[index], self.alive[index], self.log_ratio[index]

    def has_ended(self) -> bool:
        return (self.end_token is not None or self.stop is not None) and not bool(self.alive.any())
