import numpy as np
import pytest
import torch
from scipy.stats import energy_distance as scipy_distance

from lexergy.core.text_measures.two_sample import energy_distance, paired_energy_distance, two_sample_p_value


def drawn(count, seed, shift=0.0):
    return torch.randn(count, 3, generator=torch.Generator().manual_seed(seed)) * torch.tensor([1.0, 50, 0.01]) + shift


def test_the_distance_is_scipys():
    first, second = drawn(17, 0)[:, :1], drawn(9, 1)[:, :1]
    expected = scipy_distance(first[:, 0].numpy(), second[:, 0].numpy()) ** 2
    assert energy_distance(first, second) == pytest.approx(expected)


def test_the_p_value_by_every_split():
    """Of 2 + 3 rows in one column there are 10 splits; the given one is the farthest apart, with none as far."""
    first, second = torch.tensor([[0.0], [1.0]]), torch.tensor([[5.0], [6.0], [8.0]])
    assert two_sample_p_value(first, second, num_permutations=4000) == pytest.approx(0.1, abs=0.02)


def test_alike_sets_have_p_values_that_are_uniform():
    p_values = [two_sample_p_value(drawn(20, 2 * n), drawn(8, 2 * n + 1), num_permutations=99) for n in range(200)]
    assert np.mean(np.array(p_values) <= 0.1) == pytest.approx(0.1, abs=0.06)
    assert np.mean(p_values) == pytest.approx(0.5, abs=0.07)


@pytest.mark.parametrize("column", [0, 1, 2])
def test_a_shift_is_seen_on_any_scale(column):
    shift = torch.zeros(3)
    shift[column] = (3.0, 150.0, 0.03)[column]
    assert two_sample_p_value(drawn(40, 0), drawn(15, 1, shift)) <= 0.005


def test_a_column_that_never_changes_says_nothing():
    first, second = (torch.cat((drawn(20, seed), torch.ones(20, 1)), 1) for seed in (0, 1))
    assert two_sample_p_value(first, second) == two_sample_p_value(first[:, :3], second[:, :3])


def test_pairs_of_a_group_are_left_out():
    """Every pair of texts in turn, each document as often as its weight says."""
    first, second = drawn(7, 0), drawn(7, 1, shift=0.5)
    documents = ["a", "b", "a", "c", "c", "c", "b"]
    pairs = paired_energy_distance(first, second, documents)
    for weights in ({"a": 1, "b": 1, "c": 1}, {"a": 2, "b": 1, "c": 3}, {"a": 0, "b": 3, "c": 1}):
        total = count = 0.0
        for i, mine in enumerate(documents):
            for j, yours in enumerate(documents):
                if mine != yours:
                    x, y, u, v = first[i], first[j], second[i], second[j]
                    parts = ((x - v).norm(), (u - y).norm(), -(x - y).norm(), -(u - v).norm())
                    total += weights[mine] * weights[yours] * float(sum(parts))
                    count += weights[mine] * weights[yours]
        assert float(pairs.mean(torch.tensor(list(weights.values())))) == pytest.approx(total / count, rel=1e-5)
    assert pairs.mean(torch.tensor([[3, 0, 0], [1, 1, 1]])).isnan().tolist() == [True, False]


def test_the_paired_distance_has_no_bias():
    """Texts of a prompt depend on each other: over all that two documents could be, it is the distance of the laws."""
    law = {(0.0, 1.0): 0.2, (0.0, 0.0): 0.1, (3.0, 4.0): 0.4, (7.0, 3.0): 0.3}  # of a text of either writer
    expected = 0.0
    for (x, y), chance in law.items():
        for (u, v), chance_too in law.items():
            value = paired_energy_distance(torch.tensor([[x], [u]]), torch.tensor([[y], [v]]), [0, 1])
            expected += chance * chance_too * float(value.mean(torch.ones(2)))
    xs, ys = (np.array([pair[side] for pair in law]) for side in (0, 1))
    chances = list(law.values())
    assert expected == pytest.approx(scipy_distance(xs, ys, chances, chances) ** 2)


def test_a_writer_is_no_way_from_itself():
    texts = drawn(9, 0)
    assert float(paired_energy_distance(texts, texts, range(9)).mean(torch.ones(9))) == pytest.approx(0, abs=1e-12)
