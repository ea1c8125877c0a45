import pytest
import torch

from lexergy.core.random import stream_of, successors, uniforms
from lexergy.errors import LexergyError


def test_a_number_depends_on_its_address_alone():
    whole = uniforms(7, [3, 9], step=5, first=0, count=23)
    for first in range(23):
        part = uniforms(7, [9], step=5, first=first, count=23 - first)
        assert torch.equal(part[0], whole[1, first:])


def test_seed_stream_and_step_change_the_numbers():
    reference = uniforms(1, [0], step=0, first=0, count=8)
    for other in (uniforms(2, [0], 0, 0, 8), uniforms(1, [1], 0, 0, 8), uniforms(1, [0], 1, 0, 8)):
        assert not torch.isin(other, reference).any()


def test_numbers_are_uniform():
    numbers = uniforms(0, range(50), step=1, first=3, count=1000).flatten()
    observed = torch.histc(numbers.float(), bins=20, min=0, max=1)
    chi_square = ((observed - 2500) ** 2 / 2500).sum()
    assert chi_square < 43.8  # 19 degrees of freedom, p = .001


def test_successors_are_those_of_splitmix64():
    """The generator's published first outputs for the seed 1234567, of which 53 bits are kept."""
    first = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    numbers = successors(torch.tensor([1234567 * 2.0**-53], dtype=torch.double), 3)[0]
    assert numbers.tolist() == [(value >> 11) * 2.0**-53 for value in first]


def test_streams_may_bring_their_own_seeds():
    together = uniforms(0, [stream_of(5, 3), stream_of(-1, 2**33), 7], step=2, first=1, count=6)
    for row, (seed, number) in enumerate([(5, 3), (2**64 - 1, 2**33), (0, 7)]):
        assert torch.equal(together[row], uniforms(seed, [number], step=2, first=1, count=6)[0])


@pytest.mark.parametrize("seed", [-1, 2**64, 0.5, True, "0", None])
def test_what_is_no_seed_is_refused(seed):
    with pytest.raises(LexergyError, match=r"`seed` is .*expected a whole number from 0"):
        uniforms(seed, [0], step=0, first=0, count=1)
