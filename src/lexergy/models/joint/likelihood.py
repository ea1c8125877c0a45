"""Log-likelihoods of given continuations by the joint model, log P_LM(x) - E(x) - log Z, and bounds for whole texts.

log Z belongs to a prefix and a length (a `Space`): it cancels between continuations of one space and nowhere else.
"""

import hashlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from lexergy.core.estimation import importance, partition
from lexergy.errors import LexergyError
from lexergy.models.joint.model import ResidualEBM
from lexergy.models.joint.reranking import measure
from lexergy.models.joint.weights import ROWS_PER_BATCH, WeighedLM
from lexergy.progress import progress_bar

Item = TypeVar("Item")
CONTINUATIONS_AT_ONCE = 32


class Space(NamedTuple):
    """All continuations of one length after one prefix: what log Z sums over."""

    prefix: tuple[int, ...]
    length: int

    @property
    def stream(self) -> int:
        """Of the random numbers of its samples, so that neither order nor company change its log Z."""
        return int.from_bytes(hashlib.sha256(repr(tuple(self)).encode()).digest()[:8])


class Given(NamedTuple):
    """A continuation to score after its prefix, in tokens."""

    prefix: tuple[int, ...]
    continuation: tuple[int, ...]

    @property
    def space(self) -> Space:
        return Space(self.prefix, len(self.continuation))


class Scored(NamedTuple):
    """What the joint model knows of a continuation without any sample."""

    log_prob: float  # the LM's
    energy: float

    @property
    def log_score(self) -> float:
        """log p~(x) = log P_LM(x) - E(x), unnormalised."""
        return self.log_prob - self.energy


class SpaceLogZ(NamedTuple):
    """The estimate of log Z of a space, and how far its weights can be trusted."""

    value: float  # T_n, below log Z in expectation
    upper: float  # Theorem 2's upper end
    ess: float
    pareto_k: float
    num_samples: int

    @property
    def is_doubtful(self) -> bool:
        """Whether the samples are too few for weights of this tail."""
        return is_doubtful(self.ess, self.pareto_k, self.num_samples)


class TextBound(NamedTuple):
    """Of one chunk of a text: what the LM gives to it, and what it has at least from the joint model's sampler."""

    log_prob: float
    bound: float  # log P_LM - E - log Z^
    ess: float


def is_doubtful(ess: float, pareto_k: float, num_samples: int) -> bool:
    """Whether n weights of this effective sample size and tail decide nothing."""
    too_few = num_samples < importance.FEWEST_FOR_PARETO_K
    return too_few or ess < importance.LEAST_ESS or pareto_k > importance.pareto_k_threshold(num_samples)


def score_given(joint: WeighedLM, given: Sequence[Given], *, progress: bool = False) -> list[Scored]:
    """log P_LM and E of each continuation; those of one prefix are read together."""
    scored: list[Scored] = [Scored(0.0, 0.0)] * len(given)
    with progress_bar("continuations", len(given), progress) as bar:
        for places in _of_one_prefix(given):
            prefix = torch.tensor([given[places[0]].prefix], dtype=torch.long)  # (1, P)
            measured = measure(joint, prefix, [torch.tensor(given[place].continuation) for place in places])
            pairs = zip(measured.log_prob.tolist(), measured.energy.tolist(), strict=True)
            for place, pair in zip(places, pairs, strict=True):
                scored[place] = Scored(*pair)
            bar.advance(len(places))
    return scored


def estimate_log_z(
    joint: ResidualEBM, spaces: Iterable[Space], *, num_samples: int, seed: int = 0, progress: bool = False
) -> dict[Space, SpaceLogZ]:
    """T_n = log 1/n sum_i exp(-E(x_i)) of each space, from n samples of the LM (Theorem 2, Deng et al. 2020)."""
    estimates: dict[Space, SpaceLogZ] = {}
    different = list(dict.fromkeys(spaces))
    with progress_bar("log Z", len(different), progress and bool(different)) as bar:
        for group in _of_one_shape(different, num_samples):
            log_z = joint.log_z(
                torch.tensor([space.prefix for space in group], dtype=torch.long),
                length=group[0].length,
                num_samples=num_samples,
                seed=seed,
                prefix_ids=[space.stream for space in group],
            )
            for row, space in enumerate(group):
                columns = (log_z.lower, log_z.upper, log_z.ess, log_z.pareto_k)
                lower, upper, ess, pareto_k = (float(column[row]) for column in columns)
                estimates[space] = SpaceLogZ(lower, upper, ess, pareto_k, num_samples)
            bar.advance(len(group))
    return estimates


def chunked(tokens: Sequence[int], start: Sequence[int], *, chunk_tokens: int, context_tokens: int) -> list[Given]:
    """A text after its start cut into chunks of C tokens, each with at most `context_tokens` tokens before it.

    Each token of the text stands in one chunk; the last chunk may be shorter.
    """
    whole = (*start, *tokens)
    places = range(len(start), len(whole), chunk_tokens)
    return [
        Given(whole[max(0, place - context_tokens) : place], whole[place : place + chunk_tokens]) for place in places
    ]


def text_bounds(
    joint: WeighedLM, chunks: Sequence[Given], *, num_samples: int, seed: int = 0, progress: bool = False
) -> list[TextBound]:
    """log P_LM(x) - E(x) - log Z^ of each chunk, log Z^ from its own weight and those of n - 1 samples of the LM.

    In expectation no more than log q_n(x), what Algorithm 1 draws from n candidates (`partition.sampler_log_z`). Summed
    over the chunks of a text it bounds the log-probability of that text when it is written chunk by chunk.
    """
    if num_samples < 2:
        raise LexergyError(f"`num_samples` is {num_samples}; expected at least 2; one candidate is the LM itself.")
    scored = dict(zip(chunks, score_given(joint, chunks), strict=True))
    different = list(dict.fromkeys(given.space for given in chunks))
    weights: dict[Space, Tensor] = {}
    with progress_bar("chunks", len(different), progress) as bar:
        for group in _of_one_shape(different, num_samples):
            rest = joint.log_weights(
                torch.tensor([space.prefix for space in group], dtype=torch.long),
                length=group[0].length,
                num_samples=num_samples - 1,
                seed=seed,
                prefix_ids=[space.stream for space in group],
            )  # (b, n - 1)
            weights.update(zip(group, rest, strict=True))
            bar.advance(len(group))
    return [_text_bound(scored[given], weights[given.space]) for given in chunks]


def _text_bound(scored: Scored, rest: Tensor) -> TextBound:  # (n - 1,)
    own = torch.tensor(-scored.energy, dtype=torch.double)
    log_z = float(partition.sampler_log_z(own, rest))
    ess = importance.effective_sample_size(torch.cat([own[None], rest]))
    return TextBound(scored.log_prob, scored.log_score - log_z, float(ess))


def _of_one_prefix(given: Sequence[Given]) -> Iterator[list[int]]:
    """Which are read together: of one prefix, and of similar lengths, so that little is padded."""
    by_length = sorted(range(len(given)), key=lambda place: len(given[place].continuation))
    for group in _grouped(by_length, lambda place: given[place].prefix):
        for start in range(0, len(group), CONTINUATIONS_AT_ONCE):
            yield group[start : start + CONTINUATIONS_AT_ONCE]


def _of_one_shape(spaces: Sequence[Space], num_samples: int) -> Iterator[list[Space]]:
    """Spaces whose samples fit into one batch."""
    at_once = max(1, ROWS_PER_BATCH // num_samples)
    for group in _grouped(spaces, lambda space: (len(space.prefix), space.length)):
        for start in range(0, len(group), at_once):
            yield group[start : start + at_once]


def _grouped(items: Iterable[Item], key: Callable[[Item], Hashable]) -> Iterator[list[Item]]:
    groups: dict[Hashable, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    yield from groups.values()
