"""Descent to a mode, where all sequences can be enumerated."""

import pytest
import torch

from lexergy.core.enumeration import all_sequences
from lexergy.core.mcmc.descent import descend
from toys.chains import TableConditionals

VOCAB_SIZE, LENGTH = 6, 4
STATES = all_sequences(VOCAB_SIZE, LENGTH)
FREE = torch.ones_like(STATES, dtype=torch.bool)


@pytest.fixture(scope="module")
def conditionals():
    return TableConditionals(VOCAB_SIZE, LENGTH, scale=2.0)


def energies(conditionals, tokens, normalised):
    total = torch.zeros(len(tokens), dtype=torch.double)
    for place in range(LENGTH):
        block = torch.zeros_like(tokens, dtype=torch.bool)
        block[:, place] = True
        logits = conditionals(tokens, block)
        scores = logits.log_softmax(-1) if normalised else logits
        total -= scores.gather(1, tokens[:, place, None]).squeeze(1)
    return total


def lowest_neighbour(conditionals, tokens, normalised):
    """The lowest energy after any single replacement."""
    replaced = [
        tokens.index_put((torch.arange(len(tokens)), torch.tensor(place)), torch.tensor(token))
        for place in range(LENGTH)
        for token in range(VOCAB_SIZE)
    ]
    return torch.stack([energies(conditionals, rows, normalised) for rows in replaced]).amin(0)


def run(conditionals, *, normalised=True, most=VOCAB_SIZE, free=FREE):
    return descend(
        STATES,
        free,
        energy=lambda tokens: energies(conditionals, tokens, normalised),
        local_energy=lambda tokens: energies(conditionals, tokens, True),
        conditionals=conditionals,
        most=most,
    )


def test_the_end_is_a_mode(conditionals):
    """From each of 1,296 states; it differs from the start nearly always, and there are several modes."""
    end = run(conditionals)
    assert end.proven.all()
    torch.testing.assert_close(end.energy, energies(conditionals, end.tokens, True))
    assert (lowest_neighbour(conditionals, end.tokens, True) >= end.energy - 1e-3).all()
    assert 1 < len(end.tokens.unique(dim=0)) < 100
    assert (end.energy <= energies(conditionals, STATES, True)).all()


def test_of_the_raw_energy_it_is_one_among_the_replacements_tried(conditionals):
    end = run(conditionals, normalised=False)
    torch.testing.assert_close(end.energy, energies(conditionals, end.tokens, False))
    assert (end.energy <= energies(conditionals, STATES, False)).all()


def test_a_mode_is_proven_only_where_nothing_was_cut_off(conditionals):
    end = run(conditionals, most=1)
    is_mode = lowest_neighbour(conditionals, end.tokens, True) >= end.energy - 1e-3
    assert not is_mode.all()
    assert is_mode[end.proven].all()


def test_what_is_not_free_stays(conditionals):
    free = FREE.clone()
    free[:, 2] = False
    free[::2, 1:] = False
    end = run(conditionals, free=free)
    assert torch.equal(end.tokens[~free], STATES[~free])
    assert not torch.equal(end.tokens, STATES)
