from functools import partial

import pytest
import torch

from lexergy.core.decoding import Decoding
from lexergy.core.enumeration import all_sequences, exact_conditionals
from lexergy.core.mcmc import metropolis
from lexergy.core.mcmc.metropolis import (
    ChainState,
    Proposal,
    degenerate_gibbs_step,
    initial_state,
    mask_predict,
    metropolis_step,
)
from lexergy.testing import TableEnergy
from toys.chains import (
    LENGTH,
    STATES,
    VOCAB_SIZE,
    TableConditionals,
    same_block,
    stationarity_gap,
    stationary_law,
    transition_matrix,
)

EXACT = 1e-10
ENERGY = TableEnergy(VOCAB_SIZE, LENGTH, scale=1.5, seed=3)
CONDITIONALS = TableConditionals()
BLOCKS = {"first": [0], "last": [2], "pair": [0, 2], "whole": [0, 1, 2]}
DECODINGS = {
    "plain": Decoding(),
    "hot": Decoding(temperature=2.0),
    "cold": Decoding(temperature=0.5),
    "nucleus": Decoding(top_p=0.6),
}


def metropolis_of(decoding=None, temperature=1.0):
    return partial(
        metropolis_step,
        energy=ENERGY,
        conditionals=CONDITIONALS,
        decoding=decoding or Decoding(),
        temperature=temperature,
    )


def target(temperature=1.0):
    return (-ENERGY(STATES) / temperature).softmax(0)


@pytest.mark.parametrize("decoding", DECODINGS)
@pytest.mark.parametrize("block", BLOCKS)
def test_the_target_is_stationary(block, decoding):
    distribution = DECODINGS[decoding]
    matrix = transition_matrix(
        metropolis_of(distribution), CONDITIONALS, ENERGY, same_block(BLOCKS[block]), distribution
    )
    torch.testing.assert_close(matrix.sum(1), torch.ones(len(STATES), dtype=torch.double), rtol=0, atol=EXACT)
    assert stationarity_gap(matrix, target()) < EXACT


@pytest.mark.parametrize("temperature", [0.3, 2.0])
def test_an_annealed_target_is_stationary(temperature):
    matrix = transition_matrix(metropolis_of(temperature=temperature), CONDITIONALS, ENERGY, same_block([1]))
    assert stationarity_gap(matrix, target(temperature)) < EXACT
    assert stationarity_gap(matrix, target()) > 1e-3


@pytest.mark.parametrize("orders", [[[0, 1, 2]], [[0, 1, 2], [2, 0, 1], [1, 2, 0]]], ids=["sequential", "random"])
def test_sweeps_leave_the_target_stationary_and_reach_it(orders):
    singles = [transition_matrix(metropolis_of(), CONDITIONALS, ENERGY, same_block([i])) for i in range(LENGTH)]
    sweep = torch.stack([torch.linalg.multi_dot([singles[i] for i in order]) for order in orders]).mean(0)
    assert stationarity_gap(sweep, target()) < EXACT
    torch.testing.assert_close(stationary_law(sweep), target(), rtol=0, atol=1e-9)


def test_without_the_hastings_term_it_is_not(monkeypatch):
    def one_way(*arguments):
        proposal = propose(*arguments)
        return Proposal(proposal.tokens, proposal.log_forward, proposal.log_forward)

    propose = metropolis.propose
    monkeypatch.setattr(metropolis, "propose", one_way)
    matrix = transition_matrix(metropolis_of(), CONDITIONALS, ENERGY, same_block([0]))
    assert stationarity_gap(matrix, target()) > 1e-3


def test_blocks_chosen_by_the_current_state_are_wrong():
    chosen = torch.nn.functional.one_hot(STATES.sum(1) % LENGTH, LENGTH).bool()
    matrix = transition_matrix(metropolis_of(), CONDITIONALS, ENERGY, chosen)
    assert stationarity_gap(matrix, target()) > 1e-3


def test_the_ratio_as_algorithm_4_prints_it_is_wrong():
    """E_new q(y; y') / (E_old q(y'; y)), with energies above 0 so that it is a ratio at all."""
    positive = TableEnergy(VOCAB_SIZE, LENGTH)
    positive.table = ENERGY.table - ENERGY.table.min() + 1

    def printed(tokens):
        return -positive(tokens).log()  # so that exp(-(E' - E)) is E_new / E_old

    step = partial(metropolis_step, energy=printed, conditionals=CONDITIONALS)
    matrix = transition_matrix(step, CONDITIONALS, printed, same_block([0]))
    assert stationarity_gap(matrix, (-positive(STATES)).softmax(0)) > 1e-3


def test_degenerate_gibbs_has_another_law_for_each_order():
    step = partial(degenerate_gibbs_step, conditionals=CONDITIONALS)
    singles = [transition_matrix(step, CONDITIONALS, ENERGY, same_block([i])) for i in range(LENGTH)]
    assert max(stationarity_gap(matrix, target()) for matrix in singles) > 1e-2
    forth, back = (
        stationary_law(torch.linalg.multi_dot([singles[i] for i in order])) for order in ([0, 1, 2], [2, 1, 0])
    )
    assert float((forth - back).abs().max()) > 1e-2


class ThesisConditionals:
    """Section 6.2.1: y_2 tells y_1 almost surely, y_1 tells nothing of y_2."""

    first = torch.tensor([[0.99, 0.01], [0.01, 0.99]], dtype=torch.double)  # p(y_1 | y_2), a row per y_2
    second = torch.tensor([[0.5, 0.5], [0.5, 0.5]], dtype=torch.double)  # p(y_2 | y_1)

    def __call__(self, tokens, block):
        distributions = torch.stack([self.first[tokens[:, 1]], self.second[tokens[:, 0]]], dim=1)  # (N, 2, 2)
        return distributions.log()[block]


def test_the_inconsistent_conditionals_of_the_thesis():
    """Bayes' rule gives the same odds ratio from either side of a joint; here it is 99^2 and 1."""
    conditionals = ThesisConditionals()
    odds = [
        distribution[0, 0] * distribution[1, 1] / (distribution[0, 1] * distribution[1, 0])
        for distribution in (conditionals.first, conditionals.second)
    ]
    assert [float(ratio) for ratio in odds] == pytest.approx([99.0**2, 1.0])

    states, energy = all_sequences(2, 2), TableEnergy(2, 2, seed=5)
    both = {
        "gibbs": partial(degenerate_gibbs_step, conditionals=conditionals),
        "metropolis": partial(metropolis_step, energy=energy, conditionals=conditionals),
    }
    settled = {}
    for name, step in both.items():
        one, two = (
            transition_matrix(step, conditionals, energy, same_block([i], 4, 2), states=states) for i in range(2)
        )
        settled[name] = stationary_law(one @ two), stationary_law(two @ one)
    # Ending with y_2 the pair is independent, ending with y_1 it nearly always agrees: no distribution is sampled.
    torch.testing.assert_close(settled["gibbs"][0], torch.full((4,), 0.25, dtype=torch.double))
    agree = torch.tensor([0.495, 0.005, 0.005, 0.495], dtype=torch.double)
    torch.testing.assert_close(settled["gibbs"][1], agree)
    for distribution in settled["metropolis"]:
        torch.testing.assert_close(distribution, (-energy(states)).softmax(0))


def test_exact_conditionals_are_always_accepted():
    """Gibbs sampling is the case of Metropolis-Hastings whose ratio is 1."""

    def conditionals(tokens, block):
        return exact_conditionals(ENERGY, tokens, block.int().argmax(dim=1), VOCAB_SIZE)

    numbers = torch.rand(len(STATES), 1 + LENGTH, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    start = initial_state(STATES, ENERGY)
    for position in range(LENGTH):
        _, info = metropolis_step(start, same_block([position]), numbers, energy=ENERGY, conditionals=conditionals)
        torch.testing.assert_close(info.log_ratio, torch.zeros_like(info.log_ratio), rtol=0, atol=1e-12)


def test_a_nucleus_without_a_way_back_stays_and_asks_for_no_energy():
    distribution = Decoding(top_p=0.5)
    logits = torch.tensor([[3.0, 0.0, -1.0]])  # the nucleus is token 0 alone
    asked = []

    def energy(tokens):
        asked.append(len(tokens))
        return torch.zeros(len(tokens))

    start = ChainState(torch.tensor([[1], [0]]), torch.zeros(2, dtype=torch.double))
    state, info = metropolis_step(
        start,
        torch.ones(2, 1, dtype=torch.bool),
        torch.zeros(2, 2, dtype=torch.double),
        energy=energy,
        conditionals=lambda tokens, block: logits.expand(2, -1),
        decoding=distribution,
    )
    assert state.tokens.tolist() == [[1], [0]]
    assert info.accepted.tolist() == [False, True]
    assert info.novel.tolist() == [False, False]
    assert info.log_ratio.tolist() == [-torch.inf, 0.0]
    assert asked == []


def test_the_energy_that_is_carried_is_that_of_the_tokens():
    asked = []

    def energy(tokens):
        asked.append(len(tokens))
        return ENERGY(tokens)

    state = initial_state(STATES, energy)
    generator = torch.Generator().manual_seed(2)
    for position in [0, 2, 1, 0]:
        numbers = torch.rand(len(STATES), 1 + LENGTH, generator=generator, dtype=torch.double)
        before = state
        state, info = metropolis_step(state, same_block([position]), numbers, energy=energy, conditionals=CONDITIONALS)
        torch.testing.assert_close(state.energy, ENERGY(state.tokens))
        assert torch.equal(info.novel, (state.tokens != before.tokens).any(dim=1))
    assert asked[0] == len(STATES)
    assert len(asked) == 5  # once per step, and of the proposals alone
    assert max(asked[1:]) < len(STATES)  # not for those that propose what is there


def test_chains_without_a_block_rest():
    block = same_block([1])
    block[::2] = False
    state, info = metropolis_of()(initial_state(STATES, ENERGY), block, torch.zeros(len(STATES), 4).double())
    assert torch.equal(state.tokens[::2], STATES[::2])
    assert not info.proposed[::2].any()
    assert not info.accepted[::2].any()
    assert info.proposed[1::2].all()


def test_degenerate_gibbs_forgets_the_energy_where_it_moves():
    start = initial_state(STATES, ENERGY)
    step = partial(degenerate_gibbs_step, conditionals=CONDITIONALS)
    state, info = step(start, same_block([0]), torch.full((len(STATES), 4), 0.5).double())
    assert torch.equal(state.energy.isnan(), info.novel)
    assert info.novel.any()
    assert info.accepted.all()


def test_mask_predict_by_hand():
    """Three tokens, three iterations: all are predicted, then the two least sure, then the least sure one."""
    confidence = [(0, 0.9), (1, 0.6), (1, 0.7)], [(0, 0.8), (0, 0.75)], [(1, 0.99)]
    masked = []

    def conditionals(tokens, block):
        masked.append(block[0].tolist())
        distributions = [[p, 1 - p] if token == 0 else [1 - p, p] for token, p in confidence[len(masked) - 1]]
        return torch.tensor(distributions, dtype=torch.double).log()

    free = torch.tensor([[True, True, False, True]])
    tokens = mask_predict(torch.tensor([[9, 9, 7, 9]]), free, conditionals, iterations=3)
    assert masked == [[True, True, False, True], [False, True, False, True], [False, False, False, True]]
    assert tokens.tolist() == [[0, 0, 7, 1]]


def test_one_iteration_of_mask_predict_is_the_warm_start():
    free = torch.tensor([[True, True, True], [True, False, False]])
    tokens = mask_predict(torch.zeros(2, 3, dtype=torch.long), free, CONDITIONALS, iterations=1)
    expected = CONDITIONALS(torch.zeros(2, 3, dtype=torch.long), free).argmax(dim=1)
    assert torch.equal(tokens[free], expected)
    assert torch.equal(tokens[~free], torch.zeros(2, dtype=torch.long))
