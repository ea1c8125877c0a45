import pytest
import torch

from lexergy.core.enumeration import all_sequences
from lexergy.models.causal.lm import CausalLM
from lexergy.testing import (
    EnumerableLM,
    TableEnergy,
    assert_energy_contract,
    assert_sampler_contract,
    chi_square_p_value,
    exact_log_prob,
    joint_log_prob,
    log_partition,
)

PREFIX = torch.tensor([3])


@pytest.fixture(scope="module")
def lm() -> EnumerableLM:
    return EnumerableLM()


def test_enumeration_is_lexicographic():
    assert all_sequences(3, 2).tolist() == [[a, b] for a in range(3) for b in range(3)]
    assert all_sequences(3, 1).tolist() == [[0], [1], [2]]


@pytest.mark.parametrize("architecture", ["gpt2", "llama"])
def test_toy_is_a_skewed_law_and_reproducible(architecture):
    before = torch.random.get_rng_state()
    law = exact_log_prob(EnumerableLM(architecture=architecture), PREFIX, 2).exp()
    assert torch.equal(torch.random.get_rng_state(), before)
    assert float(law.sum()) == pytest.approx(1)
    assert law.max() > 5 / 49
    assert torch.equal(law, exact_log_prob(EnumerableLM(architecture=architecture), PREFIX, 2).exp())
    assert not torch.allclose(law, exact_log_prob(EnumerableLM(architecture=architecture, seed=1), PREFIX, 2).exp())


def test_exact_law_agrees_with_the_model_scored_elsewhere(lm):
    whole = torch.cat([PREFIX.expand(343, -1), all_sequences(7, 3)], dim=1)
    torch.testing.assert_close(exact_log_prob(lm, PREFIX, 3), lm.log_prob(whole, prefix_length=1), atol=1e-5, rtol=0)


def test_truncated_law_by_hand(lm):
    law = lm.next_log_prob(PREFIX[None])[0].exp()
    order = law.argsort(descending=True)
    top = exact_log_prob(lm, PREFIX, 1, top_k=2).exp()
    assert top.nonzero().squeeze(-1).tolist() == sorted(order[:2].tolist())
    assert float(top[order[0]]) == pytest.approx(float(law[order[0]] / law[order[:2]].sum()), rel=1e-5)
    just_three = float(law[order[:3]].sum()) - 1e-6
    nucleus = exact_log_prob(lm, PREFIX, 1, top_p=just_three).exp()
    assert nucleus.nonzero().squeeze(-1).tolist() == sorted(order[:3].tolist())
    flat = exact_log_prob(lm, PREFIX, 1, temperature=2.0).exp()
    torch.testing.assert_close(flat, law.sqrt() / law.sqrt().sum(), rtol=1e-4, atol=0)


def test_forbidden_tokens_have_no_mass():
    law = exact_log_prob(EnumerableLM(forbidden_tokens=(2,)), PREFIX, 2).exp().reshape(7, 7)
    assert float(law.sum()) == pytest.approx(1)
    assert float(law[2].sum() + law[:, 2].sum()) == 0


def test_joint_law(lm):
    energy = TableEnergy(length=3)
    log_prob, continuations = exact_log_prob(lm, PREFIX, 2), all_sequences(7, 2)
    weights = [
        float(log_prob[i].exp() * (-energy(torch.cat([PREFIX, row])[None])[0]).exp())
        for i, row in enumerate(continuations)
    ]
    assert float(log_partition(lm, energy, PREFIX, 2).exp()) == pytest.approx(sum(weights))
    expected = torch.tensor(weights, dtype=torch.double) / sum(weights)
    torch.testing.assert_close(joint_log_prob(lm, energy, PREFIX, 2).exp(), expected)


def test_table_energy_reads_every_position():
    energy = TableEnergy()
    rows = torch.tensor([[1, 2, 3, 4]]) + torch.cat([torch.zeros(1, 4, dtype=torch.long), torch.eye(4).long()])
    assert len(set(energy(rows).tolist())) == 5


def test_chi_square_p_value():
    fair = torch.full((4,), 0.25)
    # Statistic 2 on 3 degrees of freedom: P = 0.5724.
    assert chi_square_p_value(torch.tensor([30, 20, 25, 25]), fair) == pytest.approx(0.5724, abs=1e-4)
    assert chi_square_p_value(torch.tensor([100, 0, 0, 0]), fair) < 1e-30
    assert chi_square_p_value(torch.tensor([5, 1]), torch.tensor([1.0, 0.0])) == 0
    generator = torch.Generator().manual_seed(0)
    law = torch.rand(20, generator=generator).softmax(0)
    values = [
        chi_square_p_value(torch.multinomial(law, 500, True, generator=generator).bincount(minlength=20), law)
        for _ in range(400)
    ]
    # p-values of a right law are uniform: 40 of 400 below 0.1, give or take 4 standard deviations of 6.
    assert 16 <= sum(value < 0.1 for value in values) <= 64


class Energy:
    """Right, or broken in one of the ways the contract forbids."""

    features = None

    def __init__(self, fault: str = "") -> None:
        self.fault = fault

    def score(self, prefix, continuations, features=None):
        energies = (prefix.sum(1)[:, None] + continuations.sum(2)).double()
        if self.fault == "batch":
            energies = energies + energies.mean()
        if self.fault == "nan":
            energies[-1, -1] = torch.nan
        return energies[:, :1] if self.fault == "shape" else energies


def test_energy_contract():
    prefix, continuations = torch.arange(6).view(2, 3), torch.arange(16).view(2, 4, 2)
    assert_energy_contract(Energy(), prefix, continuations)
    for fault, message in (("batch", "scored alone"), ("nan", "not finite"), ("shape", "shape")):
        with pytest.raises(AssertionError, match=message):
            assert_energy_contract(Energy(fault), prefix, continuations)


@pytest.mark.parametrize("truncation", [{}, {"top_k": 3}, {"top_p": 0.8, "temperature": 1.3}])
def test_sampler_contract(lm, truncation):
    # Failure rate of a right sampler: 1e-4 for each of the two prefixes.
    assert_sampler_contract(lm, torch.tensor([[1], [4]]), 2, **truncation)


class BrokenLM(EnumerableLM):
    fault = ""

    def sample(self, prefix_tokens, **options):
        if self.fault == "law":
            samples = super().sample(prefix_tokens, **{**options, "temperature": 1.1})
            whole = torch.cat([prefix_tokens[:, None].expand(-1, samples.tokens.shape[1], -1), samples.tokens], -1)
            log_prob = self.log_prob(whole.flatten(0, 1), prefix_length=prefix_tokens.shape[1])
            return samples._replace(log_prob=log_prob.view(samples.log_prob.shape))
        if self.fault == "chunks":
            options["first_sample"] = 0
        samples = super().sample(prefix_tokens, **options)
        return samples._replace(log_prob=samples.log_prob * 0.99) if self.fault == "log_prob" else samples


@pytest.mark.parametrize(
    ("fault", "message"),
    [("law", "do not follow"), ("log_prob", "from its exact one"), ("chunks", "chunks changed")],
)
def test_sampler_contract_finds_faults(fault, message):
    broken: CausalLM = BrokenLM()
    broken.fault = fault
    with pytest.raises(AssertionError, match=message):
        assert_sampler_contract(broken, torch.tensor([[1], [4]]), 2, num_samples=4000)
