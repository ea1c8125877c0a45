"""Random numbers addressed by what they are for, so that batching never changes a result."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from lexergy.errors import LexergyError

_NUMBERS_PER_BLOCK = 4  # Philox4x64 makes four numbers for each value of its counter
_STREAM_BITS = 64


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


def check_seed(seed: int) -> None:
    """Refuse what would be taken for another seed: a negative number or one that is not whole."""
    if not isinstance(seed, int | np.integer) or isinstance(seed, bool) or not 0 <= seed < 2**_STREAM_BITS:
        raise LexergyError(f"`seed` is {seed!r}; expected a whole number from 0 to 2**64 - 1.")


def stream_of(seed: int, number: int) -> int:
    """A stream with its own seed, so that texts of different seeds may share a batch.

    The numbers of `uniforms(0, [stream_of(seed, number)])` are those of `uniforms(seed, [number])`.
    """
    return (seed % 2**64) << _STREAM_BITS | number
