"""A kernel that meets a source in its rows: exact transitions over all targets of three words."""

from functools import partial

import pytest
import torch

from lexergy.core.mcmc.metropolis import metropolis_step
from toys.chains import STATES, same_block, stationarity_gap, transition_matrix
from toys.translators import EnumerableTranslator

FIRST_WORD = 5
ROUNDING = 1e-6  # logits are float32


class Given:
    """Energy and conditionals over three words, given a source of these words."""

    def __init__(self, lm, source):
        self.lm = lm
        self.before = torch.tensor([*lm.tokenizer.encode(source, add_special_tokens=False), lm.separator])

    def rows(self, states):
        return torch.cat([self.before.expand(len(states), -1), states + FIRST_WORD], dim=1)

    def energy(self, states):
        return self.lm.local_energy(self.rows(states))

    def conditionals(self, states, block):
        inside = torch.nn.functional.pad(block, (len(self.before), 0), value=False)
        return self.lm.conditionals(self.rows(states), inside)[:, FIRST_WORD:].double()

    @property
    def distribution(self):
        return (-self.energy(STATES)).softmax(0)


@pytest.mark.parametrize("block", [[1], [0, 2]], ids=["single", "pair"])
def test_the_energy_given_the_source_is_stationary(block):
    lm = EnumerableTranslator(words=("yes", "no", "so"))
    given, other = Given(lm, "no yes no"), Given(lm, "so so")
    step = partial(metropolis_step, energy=given.energy, conditionals=given.conditionals)
    matrix = transition_matrix(step, given.conditionals, given.energy, same_block(block))
    assert stationarity_gap(matrix, given.distribution) < ROUNDING
    assert stationarity_gap(matrix, other.distribution) > 1e-3
