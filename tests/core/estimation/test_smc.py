"""Sequential Monte Carlo against every random path of it, on texts of three tokens."""

import pytest
import torch
from torch import Tensor

from lexergy.core.enumeration import all_sequences
from lexergy.core.estimation.smc import (
    Population,
    Resampling,
    Twist,
    fit_twist,
    proportional_twist,
    resample,
    systematic,
)
from lexergy.errors import LexergyError

LENGTH, PARTICLES = 3, 3


def random(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.double)


class Toy:
    """A law over three tokens and a twist for each beginning: both are tables of all texts of each length.

    Tokens are bits; with `ends`, there is a third one that ends a text, and more of it follow as padding.
    """

    def __init__(self, seed: int = 0, ends: bool = False) -> None:
        self.vocab = 3 if ends else 2
        self.next, self.twist, self.alive = [], [], []
        alive = torch.ones(1, dtype=torch.bool)
        for step in range(LENGTH):
            law = random(self.vocab**step, self.vocab, seed=seed + step).log_softmax(-1)
            law[~alive] = torch.tensor([-torch.inf, -torch.inf, 0.0], dtype=torch.double)[: self.vocab]
            self.next.append(law)
            alive = (alive[:, None] & (torch.arange(self.vocab) < 2)).flatten()
            self.alive.append(alive)
            self.twist.append(1.5 * random(self.vocab ** (step + 1), seed=seed + 10 + step))
        self.log_prob = torch.zeros(1, dtype=torch.double)
        for table in self.next:
            self.log_prob = (self.log_prob[:, None] + table).flatten()  # (V^3,)
        self.log_score = self.log_prob + self.twist[-1]


class Paths:
    """All random paths of SMC with their probabilities: tokens one by one, resampling by the pieces of its v."""

    def __init__(self, toy: Toy, kept: int | None, below: float) -> None:
        self.log_prob = torch.zeros(1, dtype=torch.double)  # (N,) of each path
        self.population = Population.start(1, PARTICLES)
        self.texts = torch.zeros(1, PARTICLES, dtype=torch.long)
        for step in range(LENGTH):
            token = None if kept is None else kept // toy.vocab ** (LENGTH - 1 - step) % toy.vocab
            self._write(toy.next[step], token)
            self.population = self.population.weighed(toy.twist[step][self.texts])
            if step < LENGTH - 1:
                self._resample(below, kept is not None, toy.alive[step][self.texts])

    def _write(self, table: Tensor, kept: int | None) -> None:
        vocab = table.shape[1]
        tokens = all_sequences(vocab, PARTICLES)  # (V^K, K)
        if kept is not None:
            tokens = tokens[tokens[:, 0] == kept]
        many = len(tokens)
        self._repeat(many)
        tokens = tokens.repeat(len(self.texts) // many, 1)
        log_prob = table[self.texts].gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
        self.log_prob = self.log_prob + log_prob[:, (0 if kept is None else 1) :].sum(-1)
        self.texts = vocab * self.texts + tokens
        self._select(self.log_prob > -torch.inf)

    def _resample(self, below: float, keep_first: bool, alive: Tensor) -> None:  # (N, K)
        """v is uniform; who goes on changes where v + m/n meets the end of a particle's share."""
        shares = self.population.log_weights.masked_fill(~alive, -torch.inf).softmax(-1).nan_to_num()
        places = torch.arange(PARTICLES, dtype=torch.double) / alive.sum(-1, keepdim=True).clamp(min=1)  # (N, K)
        ends = (shares.cumsum(-1)[:, :, None] - places[:, None]).flatten(1) % 1.0
        if keep_first:
            ends = (ends / torch.where(alive[:, :1], shares[:, :1], 1.0)).clamp(max=1)
        ends = torch.nn.functional.pad(ends, (1, 0))
        ends = torch.nn.functional.pad(ends, (0, 1), value=1.0).sort(-1).values  # (N, K K + 2)
        widths, middles = ends.diff(dim=-1), (ends[:, 1:] + ends[:, :-1]) / 2
        self._repeat(widths.shape[1])
        self.log_prob = self.log_prob + widths.flatten().log()
        alive = alive.repeat_interleave(widths.shape[1], 0)
        self.population, ancestors = resample(
            self.population, middles.flatten(), below=below, keep_first=keep_first, alive=alive
        )
        assert bool((ancestors == torch.arange(PARTICLES))[~alive].all())  # what has ended stays
        self.texts = self.texts.gather(-1, ancestors)
        self._select(self.log_prob > -torch.inf)

    def _repeat(self, times: int) -> None:
        self._select(torch.arange(len(self.log_prob)).repeat_interleave(times))

    def _select(self, index: Tensor) -> None:
        self.log_prob, self.texts = self.log_prob[index], self.texts[index]
        self.population = Population(*(part[index] for part in self.population))

    def mean(self, values: Tensor) -> Tensor:
        return (self.log_prob.exp() * values).sum()


@pytest.fixture(scope="module", params=[0.0, 0.8, 1.0], ids=["never", "sometimes", "always"])
def below(request) -> float:
    return request.param


@pytest.fixture(scope="module", params=[False, True], ids=["endless", "ending"])
def ends(request) -> bool:
    return request.param


def test_every_path_is_counted(below, ends):
    paths = Paths(Toy(ends=ends), None, below)
    assert float(paths.log_prob.exp().sum()) == pytest.approx(1, abs=1e-12)
    often = paths.mean(paths.population.num_resamplings)
    assert {0.0: often == 0, 0.8: 0.2 < often < 1.8, 1.0: often > (0.5 if ends else 1.2)}[below]


@pytest.mark.parametrize("seed", [0, 1])
def test_z_is_unbiased_over_every_path(below, ends, seed):
    """E[Z^] = Z over every random path, to rounding."""
    toy = Toy(seed, ends)
    paths = Paths(toy, None, below)
    exact = toy.log_score.logsumexp(0).exp()
    assert float(paths.mean(paths.population.log_z_estimate.exp())) == pytest.approx(float(exact), rel=1e-12)
    # So is what each text has of it: E[Z^ sum_k W_k 1(x_k = x)] = P_LM(x) exp(-E(x)).
    estimate = paths.population.log_z_estimate.exp()[:, None] * paths.population.log_weights.softmax(-1)
    possible = (toy.log_prob > -torch.inf).nonzero().flatten().tolist()
    for text, expected in zip(possible, toy.log_score[possible].exp().tolist(), strict=True):
        own = (estimate * (paths.texts == text)).sum(-1)
        assert float(paths.mean(own)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_sampler_has_the_density_of_conditional_runs(below, ends, seed):
    """q(x) of SMC is E[P_LM(x) exp(-E(x)) / Z^] over conditional runs, and the bound by Jensen is below log q(x)."""
    toy = Toy(seed, ends)
    paths = Paths(toy, None, below)
    shares = paths.population.log_weights.softmax(-1)
    bounds, densities = [], []
    for text in (toy.log_prob > -torch.inf).nonzero().flatten().tolist():
        drawn = paths.mean((shares * (paths.texts == text)).sum(-1))
        kept = Paths(toy, text, below)
        assert float(kept.log_prob.exp().sum()) == pytest.approx(1, abs=1e-12)
        assert bool((kept.texts[:, 0] == text).all())
        log_ratio = toy.log_score[text] - kept.population.log_z_estimate  # (N,)
        assert float(kept.mean(log_ratio.exp())) == pytest.approx(float(drawn), rel=1e-11)
        bounds.append(kept.mean(log_ratio))
        densities.append(drawn)
    bound, density = torch.stack(bounds), torch.stack(densities)
    assert float(density.sum()) == pytest.approx(1, abs=1e-12)
    assert bool((bound < density.log()).all())
    exact = toy.log_score[toy.log_prob > -torch.inf].log_softmax(0)
    # For texts of the joint model the bound is below log P too, on average (Gibbs).
    assert float((exact.exp() * bound).sum()) < float((exact.exp() * exact).sum())


def test_twists_change_the_noise_and_not_the_expectation():
    """E[exp(-E) | x_<=t] as twist leaves less noise than none."""
    toy = Toy()
    exact = toy.log_score.logsumexp(0).exp()
    spreads = []
    for perfect in (False, True):
        values = toy.twist[-1]
        for step in reversed(range(LENGTH - 1)):
            values = (toy.next[step + 1] + values.view(-1, 2)).logsumexp(-1)
            toy.twist[step] = values if perfect else torch.zeros_like(values)
        paths = Paths(toy, None, 1.0)
        estimate = paths.population.log_z_estimate.exp()
        assert float(paths.mean(estimate)) == pytest.approx(float(exact), rel=1e-12)
        spreads.append(float(paths.mean((estimate - exact) ** 2)))
    assert spreads[1] < 0.9 * spreads[0]


def test_each_particle_has_its_share_rounded_up_or_down():
    log_weights = random(500, 16, seed=3)
    uniforms = torch.rand(500, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    ancestors = systematic(log_weights, uniforms)
    counts = torch.nn.functional.one_hot(ancestors, 16).sum(1)
    shares = 16 * log_weights.softmax(-1)
    assert bool(((counts >= shares.floor()) & (counts <= shares.ceil())).all())
    kept = systematic(log_weights, uniforms, keep_first=True)
    assert bool((kept[:, 0] == 0).all())
    counts = torch.nn.functional.one_hot(kept, 16).sum(1)
    assert bool(((counts >= shares.floor()) & (counts <= shares.ceil())).all())
    # Of those that go on, where some have ended.
    alive = torch.arange(16) % 3 > 0
    own = log_weights.masked_fill(~alive, -torch.inf)
    ancestors = systematic(own, uniforms, alive=alive.expand(500, -1))[:, alive]
    counts = torch.nn.functional.one_hot(ancestors, 16).sum(1)
    shares = int(alive.sum()) * own.softmax(-1)
    assert bool(((counts >= shares.floor()) & (counts <= shares.ceil())).all())


def test_every_place_goes_on_from_each_in_proportion():
    log_weights = random(5, seed=4)
    uniforms = (torch.arange(100_000, dtype=torch.double) + 0.5) / 100_000
    ancestors = systematic(log_weights.expand(100_000, -1), uniforms)
    for place in range(5):
        shares = ancestors[:, place].bincount(minlength=5) / 100_000
        torch.testing.assert_close(shares.double(), log_weights.softmax(0), atol=1e-4, rtol=0)


def test_texts_that_must_not_be():
    """Zero weights have no descendants; a run of nothing else has Z^ = 0 and is left alone."""
    population = Population.start(2, 4).weighed(
        torch.tensor([[0.0, -torch.inf, -torch.inf, 1.0], [-torch.inf] * 4], dtype=torch.double)
    )
    assert population.ess.tolist() == [pytest.approx(1.648, abs=1e-3), 0]
    after, ancestors = resample(population, torch.tensor([0.1, 0.1]), below=0.9)
    assert set(ancestors[0].tolist()) <= {0, 3}
    assert ancestors[1].tolist() == [0, 1, 2, 3]
    assert after.num_resamplings.tolist() == [1, 0]
    assert after.num_ancestors.tolist() == [len(set(ancestors[0].tolist())), 4]
    final = after.weighed(torch.where(after.log_carried < after.log_carried.mean(), 1.0, 0.0))
    assert float(final.log_z_estimate[0]) == pytest.approx(float(torch.tensor((1 + torch.e) / 4).log()))


def test_fitted_twist_is_least_squares_within_prefixes():
    partial, noise = random(4, 5000, 2, seed=5), random(4, 5000, seed=6)
    level = torch.tensor([0.0, 50.0, -50.0, 3.0]).double()[:, None]  # what prefixes differ by is nobody's merit
    final = level + 0.3 * (partial[..., 1] - level / 10) + 0.5 * noise
    twist = fit_twist(partial + torch.stack([level, level / 10], -1), final)
    assert twist.slope.tolist() == pytest.approx([0, 0.3], abs=0.02)


def test_what_cannot_be_fitted_is_proportional():
    twist = fit_twist(torch.ones(1, 5, 4), torch.arange(5.0)[None])
    assert twist.slope.tolist() == proportional_twist(4).slope.tolist() == [0.25, 0.5, 0.75, 1]
    alive = torch.tensor([[[1.0, 0], [1, 0], [1, 0], [1, 1]]])
    twist = fit_twist(torch.tensor([[[0.0, 5], [1, 5], [2, 5], [3, 6]]]), torch.tensor([[0.0, 2, 4, 6]]), alive)
    assert twist.slope.tolist() == pytest.approx([2, 1])
    worth = Twist(torch.tensor([2.0, 3.0]), torch.tensor([0.0, 0.5])).log_twist(torch.tensor(5.0), torch.tensor(4.0), 2)
    assert worth == -17


def test_a_twist_knows_what_the_tilt_still_expects():
    partial, log_ratio, noise = random(2, 5000, 1, seed=7), random(2, 5000, 1, seed=8), random(2, 5000, seed=9)
    log_ratio = log_ratio + 0.8 * partial  # what is expected and what is known go together
    final = 0.6 * partial[..., 0] + 0.3 * log_ratio[..., 0] + 0.5 * noise
    twist = fit_twist(partial, final, log_ratio=log_ratio)
    assert twist.slope.tolist() == pytest.approx([0.6], abs=0.03)
    assert twist.owed.tolist() == pytest.approx([0.3], abs=0.03)
    assert fit_twist(partial, final).owed.tolist() == [0]


@pytest.mark.parametrize("settings", [{"every": 0}, {"below": -0.1}, {"below": 1.1}])
def test_settings_that_mean_nothing(settings):
    with pytest.raises(LexergyError, match="expected"):
        Resampling(**settings)


def test_a_twist_is_for_one_length():
    assert Resampling().twist_of(3).slope.tolist() == proportional_twist(3).slope.tolist()
    with pytest.raises(LexergyError, match="texts of 2 tokens, and they have 3"):
        Resampling(twist=proportional_twist(2)).twist_of(3)
