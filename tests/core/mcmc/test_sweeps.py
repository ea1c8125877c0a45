from functools import partial

import pytest
import torch

from lexergy.core.mcmc.metropolis import degenerate_gibbs_step, initial_state, metropolis_step
from lexergy.core.mcmc.sweeps import Schedule, run_chains, sweep_blocks
from lexergy.errors import LexergyError
from lexergy.testing import TableEnergy, chi_square_p_value
from toys.chains import LENGTH, STATES, VOCAB_SIZE, TableConditionals

ENERGY = TableEnergy(VOCAB_SIZE, LENGTH, seed=3)
CONDITIONALS = TableConditionals(scale=0.5)


def step(state, block, numbers, temperature):
    kernel = partial(metropolis_step, energy=ENERGY, conditionals=CONDITIONALS)
    return kernel(state, block, numbers, temperature=temperature)


def test_a_sweep_visits_each_free_position_once():
    free = torch.tensor([[True, True, False, True, True], [False, True, False, False, False]])
    keys = torch.tensor([[0.9, 0.1, 0.0, 0.5, 0.2], [0.3, 0.2, 0.1, 0.0, 0.5]])
    blocks = list(sweep_blocks(free, keys, block_size=3))
    assert [block[0].nonzero().flatten().tolist() for block in blocks] == [[1, 3, 4], [0]]
    assert [block[1].nonzero().flatten().tolist() for block in blocks] == [[1], []]


def test_the_block_size_falls_linearly():
    schedule = Schedule(sweeps=5, block_size=9, last_block_size=1)
    assert [schedule.block_size_at(sweep) for sweep in range(5)] == [9, 7, 5, 3, 1]
    assert Schedule(sweeps=3, block_size=2).block_size_at(2) == 2


def test_the_target_is_cooled_linearly_and_never_to_zero():
    temperatures = [Schedule(sweeps=33, cooling=0.04).temperature_at(sweep) for sweep in (0, 1, 10, 32)]
    assert temperatures == pytest.approx([1.0, 0.96, 0.6, 0.02])
    assert Schedule(sweeps=2).temperature_at(1) == 1


@pytest.mark.parametrize("order", ["random", "sequential"])
def test_chains_arrive_at_the_target(order):
    """400 chains from one state; a right sampler fails once in ten thousand."""
    start = torch.zeros(400, LENGTH, dtype=torch.long)
    free = torch.ones_like(start, dtype=torch.bool)
    *_, last = run_chains(initial_state(start, ENERGY), free, Schedule(sweeps=12, order=order), step, seed=0)
    place = VOCAB_SIZE ** torch.arange(LENGTH - 1, -1, -1)
    counts = (last.state.tokens * place).sum(1).bincount(minlength=len(STATES))
    assert chi_square_p_value(counts, (-ENERGY(STATES)).softmax(0)) > 1e-4


def test_a_chain_alone_walks_as_among_others():
    free = torch.ones(27, LENGTH, dtype=torch.bool)
    free[4:8, 2] = False
    schedule = Schedule(sweeps=3, block_size=2, last_block_size=1)
    together = list(run_chains(initial_state(STATES, ENERGY), free, schedule, step, seed=7))
    some = [5, 20]
    state = initial_state(STATES[some], ENERGY)
    alone = list(run_chains(state, free[some], schedule, step, seed=7, chain_ids=some))
    for among, single in zip(together, alone, strict=True):
        assert torch.equal(among.state.tokens[some], single.state.tokens)
        assert torch.equal(among.novel[some], single.novel)
    other = list(run_chains(initial_state(STATES, ENERGY), free, schedule, step, seed=8))
    assert not torch.equal(other[-1].state.tokens, together[-1].state.tokens)


def test_what_is_fixed_stays_and_proposals_are_counted():
    free = torch.ones(27, LENGTH, dtype=torch.bool)
    free[:, 1] = False
    gibbs = partial(degenerate_gibbs_step, conditionals=CONDITIONALS)
    (sweep,) = run_chains(
        initial_state(STATES, ENERGY), free, Schedule(sweeps=1), lambda *args: gibbs(*args[:3]), seed=0
    )
    assert torch.equal(sweep.state.tokens[:, 1], STATES[:, 1])
    assert sweep.proposed.tolist() == sweep.accepted.tolist() == [2] * 27
    assert 0 < int(sweep.novel.sum()) < 54


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sweeps": 0}, "`sweeps` is 0"),
        ({"block_size": 0}, "`block_size` is 0"),
        ({"cooling": 1.5}, "`cooling` is 1.5"),
    ],
)
def test_impossible_schedules(settings, message):
    with pytest.raises(LexergyError, match=message):
        Schedule(**{"sweeps": 1, **settings})
