"""Random numbers addressed by what they are for, so that batching never changes a result."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from lexergy.errors import LexergyError

_NUMBERS_PER_BLOCK = 4  # Philox4x64 makes four numbers for each value of its counter
_STREAM_BITS = 64
_MANTISSA = 53  # bits of a number in [0, 1)
_GOLDEN, _FIRST_MIX, _SECOND_MIX = (  # SplitMix64's constants as signed numbers
    constant - 2**64 for constant in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


def uniforms(seed: int, streams: Sequence[int], step: int, first: int, count: int) -> Tensor:
    """Uniform numbers in [0, 1) of samples `first .. first + count` at one step of each stream.

    A number depends on (seed, stream, step, sample) alone: it is the Philox counter-based generator keyed by
    the seed and the stream, at the counter (sample, step) (Salmon et al. 2011). Streams of `stream_of` bring a seed of
    their own, added to `seed`. Returns float64 (len(streams), count).
    """
    check_seed(seed)
    skipped = first % _NUMBERS_PER_BLOCK
    counter = np.array([first // _NUMBERS_PER_BLOCK, step, 0, 0], dtype=np.uint64)
    rows = np.empty((len(streams), count))
    for row, stream in enumerate(streams):
        key = np.array([(seed + (stream >> _STREAM_BITS)) % 2**64, stream % 2**_STREAM_BITS], dtype=np.uint64)
        generator = np.random.Generator(np.random.Philox(key=key, counter=counter))
        rows[row] = generator.random(skipped + count)[skipped:]
    return torch.from_numpy(rows)


def successors(numbers: Tensor, count: int) -> Tensor:  # (N,) -> (N, count)
    """Uniform numbers in [0, 1) that follow from each one's 53 bits: SplitMix64 begun there (Steele et al. 2014)."""
    state = (numbers.double() * (1 << _MANTISSA)).long().unsqueeze(-1)
    state = state + _GOLDEN * torch.arange(1, count + 1, device=numbers.device)
    for shift, factor in ((30, _FIRST_MIX), (27, _SECOND_MIX)):
        state = (state ^ _shifted(state, shift)) * factor
    bits = _shifted(state ^ _shifted(state, 31), 64 - _MANTISSA)
    return bits.double() / (1 << _MANTISSA)


def _shifted(bits: Tensor, places: int) -> Tensor:
    """Bits to the right, zeros from the left: torch has only signed numbers of 64 bits, and shifts their sign in."""
    return (bits >> places) & ((1 << (64 - places)) - 1)


def check_seed(seed: int) -> None:
    """Refuse what would be taken for another seed: a negative number or one that is not whole."""
    if not isinstance(seed, int | np.integer) or isinstance(seed, bool) or not 0 <= seed < 2**_STREAM_BITS:
        raise LexergyError(f"`seed` is {seed!r}; expected a whole number from 0 to 2**64 - 1.")


def stream_of(seed: int, number: int) -> int:
    """A stream with its own seed, so that texts of different seeds may share a batch.

    The numbers of `uniforms(0, [stream_of(seed, number)])` are those of `uniforms(seed, [number])`.
    """
    return (seed % 2**64) << _STREAM_BITS | number
