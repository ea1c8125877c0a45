"""Electric's losses against exact enumeration: every sequence, every choice of positions, every noise token."""

import math
from collections.abc import Callable, Iterator
from itertools import combinations, product

import pytest
import torch
import torch.nn.functional as functional
from torch import Tensor

from lexergy.core import cloze_nce

VOCAB, LENGTH, NUM_NOISE = 3, 3, 2

SEQUENCES = torch.tensor(list(product(range(VOCAB), repeat=LENGTH)))  # (V^n, n)
STRIDES = torch.tensor([VOCAB ** (LENGTH - 1 - position) for position in range(LENGTH)])


def index_of(tokens: Tensor) -> int:  # (n,)
    return int((tokens * STRIDES).sum())


@pytest.fixture
def data_law() -> Tensor:
    """log P of every sequence, skewed: (V^n,)."""
    return torch.randn(len(SEQUENCES), generator=torch.Generator().manual_seed(0)).double().log_softmax(0)


def conditionals(log_prob: Tensor) -> Tensor:
    """log p(x_t | x_\\t) of the token of each sequence at each position: (V^n,) -> (V^n, n)."""
    table = log_prob.view((VOCAB,) * LENGTH)
    return torch.stack([table.log_softmax(dim=position).flatten() for position in range(LENGTH)], dim=-1)


def some_noise(seed: int) -> Tensor:
    """log q(x_t | x_\\t) as a table (V^n, n): conditionals of some other distribution."""
    return conditionals(torch.randn(len(SEQUENCES), generator=torch.Generator().manual_seed(seed)).double())


def exact_loss(energies: Tensor, noise: Tensor, data: Tensor, num_noise: int, num_data: int) -> Tensor:
    """L of Sec. 2.2 by enumeration, `num_data` data points for `num_noise` negatives; t is uniform."""
    p, q = (-energies).exp(), noise.exp()
    total = num_data * p + num_noise * q
    of_data = -(num_data * p / total).log()  # (V^n, n)
    of_noise = -(num_noise * q / total).log()
    loss = torch.zeros((), dtype=torch.double)
    for sequence, log_prob in zip(SEQUENCES, data, strict=True):
        for position in range(LENGTH):
            row = index_of(sequence)
            loss = loss + log_prob.exp() * num_data / LENGTH * of_data[row, position]
            for token in range(VOCAB):
                replaced = index_of(replace(sequence, {position: token}))
                loss = loss + log_prob.exp() * num_noise / LENGTH * q[replaced, position] * of_noise[replaced, position]
    return loss


def replace(sequence: Tensor, tokens: dict[int, int]) -> Tensor:
    sequence = sequence.clone()
    for position, token in tokens.items():
        sequence[position] = token
    return sequence


def noised(sequence: Tensor, noise: Tensor) -> Iterator[tuple[float, tuple[int, ...], dict[int, int]]]:
    """Every choice of k positions and of tokens there, with its probability."""
    choices = list(combinations(range(LENGTH), NUM_NOISE))
    for positions in choices:
        for tokens in product(range(VOCAB), repeat=NUM_NOISE):
            drawn = dict(zip(positions, tokens, strict=True))
            log_prob = sum(noise[index_of(replace(sequence, {t: v})), t] for t, v in drawn.items())
            yield float(log_prob.exp()) / len(choices), positions, drawn


def expected_one_pass(energy_of: Callable[[Tensor], Tensor], noise: Tensor, data: Tensor) -> Tensor:
    """The expectation of Algorithm 2's loss; `energy_of` maps a (noised) sequence to its energies (n,)."""
    loss = torch.zeros((), dtype=torch.double)
    for sequence, log_prob in zip(SEQUENCES, data, strict=True):
        for probability, positions, drawn in noised(sequence, noise):
            after = replace(sequence, drawn)
            is_noise = torch.tensor([position in positions for position in range(LENGTH)])
            # q is conditioned on the original sequence, at replaced positions too.
            log_q = torch.stack([noise[index_of(replace(sequence, {t: int(after[t])})), t] for t in range(LENGTH)])
            logits = cloze_nce.one_pass_logits(energy_of(after), log_q, NUM_NOISE)
            losses = cloze_nce.classifier_losses(logits, is_noise)
            loss = loss + log_prob.exp() * probability * losses.sum()
    return loss


def test_algorithm_1_is_the_exact_loss_in_expectation(data_law):
    energies = torch.randn(len(SEQUENCES), LENGTH, generator=torch.Generator().manual_seed(1)).double()
    noise = some_noise(2)
    expected = torch.zeros((), dtype=torch.double)
    for sequence, log_prob in zip(SEQUENCES, data_law, strict=True):
        row = index_of(sequence)
        for positions in product(range(LENGTH), repeat=NUM_NOISE):  # t ~ unif{1, n}, each negative on its own
            for tokens in product(range(VOCAB), repeat=NUM_NOISE):
                rows = [index_of(replace(sequence, {t: v})) for t, v in zip(positions, tokens, strict=True)]
                negative_log_q = noise[rows, list(positions)]
                probability = float(negative_log_q.sum().exp()) / LENGTH**NUM_NOISE
                loss = cloze_nce.naive_nce_loss(
                    energies[None, row], noise[None, row], energies[rows, list(positions)][None], negative_log_q[None]
                )
                expected = expected + log_prob.exp() * probability * loss.squeeze()
    assert expected.item() == pytest.approx(exact_loss(energies, noise, data_law, NUM_NOISE, LENGTH).item(), rel=1e-10)


def test_algorithm_2_is_the_exact_loss_where_other_tokens_do_not_matter(data_law):
    by_token = torch.randn(VOCAB, LENGTH, generator=torch.Generator().manual_seed(1)).double()
    noise = some_noise(2)
    one_pass = expected_one_pass(lambda tokens: by_token[tokens, torch.arange(LENGTH)], noise, data_law)
    table = by_token[SEQUENCES, torch.arange(LENGTH)]  # (V^n, n)
    exact = exact_loss(table, noise, data_law, NUM_NOISE, LENGTH - NUM_NOISE)
    assert one_pass.item() == pytest.approx(exact.item(), rel=1e-10)


def test_algorithm_2_differs_where_they_do(data_law):
    """The paper's assumption is one: with energies that read their context the two losses are not the same."""
    energies = torch.randn(len(SEQUENCES), LENGTH, generator=torch.Generator().manual_seed(1)).double()
    noise = some_noise(2)
    one_pass = expected_one_pass(lambda tokens: energies[index_of(tokens)], noise, data_law)
    exact = exact_loss(energies, noise, data_law, NUM_NOISE, LENGTH - NUM_NOISE)
    assert abs(one_pass.item() - exact.item()) > 1e-2


def test_the_optimum_is_the_conditional_of_the_data_and_normalised(data_law):
    """Minimise Algorithm 1's expectation over free energies: exp(-E) = p(x_t | x_\\t), so Z = 1, for any q."""
    noise = some_noise(2)
    weights = data_law.exp()[:, None] / LENGTH  # of (sequence, position) as a data point
    # As noise: every original sequence that differs at most at t leads here.
    context = torch.stack(
        [
            data_law.view((VOCAB,) * LENGTH).logsumexp(t, keepdim=True).expand((VOCAB,) * LENGTH).flatten()
            for t in range(LENGTH)
        ],
        dim=-1,
    ).exp()  # (V^n, n): P(x_\t)
    noise_weights = context * noise.exp() / LENGTH
    energies = torch.zeros(len(SEQUENCES), LENGTH, dtype=torch.double, requires_grad=True)
    optimiser = torch.optim.LBFGS(
        [energies], max_iter=500, tolerance_grad=1e-12, tolerance_change=0, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimiser.zero_grad()
        logits = cloze_nce.noise_logits(energies, noise, NUM_NOISE, LENGTH)
        loss = LENGTH * (weights * functional.softplus(logits)).sum()
        loss = loss + NUM_NOISE * (noise_weights * functional.softplus(-logits)).sum()
        loss.backward()
        return loss

    optimiser.step(closure)
    log_p = -energies.detach()
    torch.testing.assert_close(log_p, conditionals(data_law), atol=1e-5, rtol=0)
    for position in range(LENGTH):
        log_z = log_p[:, position].view((VOCAB,) * LENGTH).logsumexp(position)
        torch.testing.assert_close(log_z, torch.zeros_like(log_z), atol=1e-5, rtol=0)


def test_electric_is_electra_with_the_noise_added():
    """Sec. 2.5: k q / (n exp(-E) + k q) = sigma(E + log(k q / n)), and without the second term it is ELECTRA's."""
    generator = torch.Generator().manual_seed(3)
    energies = torch.randn(50, generator=generator).double()
    log_q = torch.rand(50, generator=generator).double().log()
    direct = 3 * log_q.exp() / (20 * (-energies).exp() + 3 * log_q.exp())
    torch.testing.assert_close(cloze_nce.noise_logits(energies, log_q, 3, 20).sigmoid(), direct)
    balanced = cloze_nce.noise_logits(energies, torch.zeros(50).double(), 20, 20)  # q = 1 and as many of each
    torch.testing.assert_close(balanced, energies)


def test_a_replaced_position_is_noise_even_where_the_token_is_the_same():
    """Two rows of the same tokens: only `is_noise` tells that a position was drawn again."""
    energies, log_q = torch.zeros(1, 4), torch.full((1, 4), math.log(0.5))
    logits = cloze_nce.one_pass_logits(energies, log_q, num_noise=1)  # log(.5 / 3) everywhere
    kept = cloze_nce.classifier_losses(logits, torch.tensor([[False] * 4]))
    redrawn = cloze_nce.classifier_losses(logits, torch.tensor([[True, False, False, False]]))
    assert kept[0, 0].item() == pytest.approx(math.log(1 + 0.5 / 3))
    assert redrawn[0, 0].item() == pytest.approx(math.log(1 + 3 / 0.5))
    torch.testing.assert_close(kept[0, 1:], redrawn[0, 1:])


def test_the_classifier_of_electra_and_its_generator_imply_the_data():
    """p is got back from the optimal classifier of "differs from the original", by Bayes' rule."""
    generator = torch.Generator().manual_seed(4)
    p, q = torch.rand(2, 7, generator=generator).double().softmax(-1)
    share = 0.15
    differs = share * q * (1 - p)  # drawn again, and not what was there
    same = (1 - share) * p + share * q * p
    energies = (differs / same).log()  # sigma(E) = P(differs | token)
    torch.testing.assert_close(cloze_nce.electra_log_prob(energies, q.log(), share), p.log())


def test_metrics_of_a_perfect_model():
    """Where exp(-E) = q = p, log Z is 0; and the classifier then answers "data" everywhere: half is right."""
    log_q = torch.rand(5, 20, generator=torch.Generator().manual_seed(5)).log()
    is_noise = torch.zeros(5, 20, dtype=torch.bool)
    is_noise[:, :3] = True
    logits = cloze_nce.one_pass_logits(-log_q, log_q, num_noise=3)
    assert cloze_nce.classifier_accuracy(logits, is_noise) == 0.5
    assert cloze_nce.log_mean_partition(-log_q[is_noise], log_q[is_noise]) == pytest.approx(0, abs=1e-6)
    scaled = cloze_nce.log_mean_partition(-log_q[is_noise] - 2, log_q[is_noise])  # p^ = e^2 p
    assert scaled == pytest.approx(2, abs=1e-6)


def test_positions_are_different_and_all_equally_likely():
    uniforms = torch.rand(6000, 10, generator=torch.Generator().manual_seed(6))
    positions = cloze_nce.choose_positions(uniforms, cloze_nce.num_noise_positions(10))
    assert positions.shape == (6000, 2)
    assert (positions[:, 0] != positions[:, 1]).all()
    counts = torch.bincount(positions.flatten(), minlength=10)
    chi_square = float(((counts - 1200) ** 2 / 1200).sum())
    assert chi_square < 30  # 9 degrees of freedom: p < 5e-4


def test_a_weakened_noise_lies_between_the_frequencies_and_the_noise():
    noise, frequencies = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]]).log(), torch.tensor([0.1, 0.4, 0.5]).log()
    weakened = {
        strength: cloze_nce.weakened_noise(noise + 3.0, frequencies, strength).softmax(-1) for strength in (0, 0.5, 1)
    }
    torch.testing.assert_close(weakened[0], frequencies.exp().expand(2, -1))
    torch.testing.assert_close(weakened[1], noise.exp())
    between = (noise.exp() * frequencies.exp()).sqrt()
    torch.testing.assert_close(weakened[0.5], between / between.sum(-1, keepdim=True))
