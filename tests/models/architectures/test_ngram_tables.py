"""Hashed n-grams: what a position's bucket depends on, and how evenly the buckets fill."""

import pytest
import torch

from lexergy.errors import LexergyError
from lexergy.models.architectures.ngram_tables import _MULTIPLIERS, NgramEmbedding, NgramTables
from toys.language_models import random_tokens


def test_bucket_depends_on_exactly_the_n_tokens_that_end_there() -> None:
    embedding = NgramEmbedding(NgramTables(orders=(1, 3), buckets=2**20, width=1))
    tokens = random_tokens(1, 9)
    before = embedding.buckets(tokens)
    tokens[0, 4] += 1
    after = embedding.buckets(tokens)
    changed = [(one != other)[0].nonzero().flatten().tolist() for one, other in zip(before, after, strict=True)]
    assert changed == [[4], [4, 5, 6]]


def test_order_of_tokens_and_start_of_sequence_matter() -> None:
    embedding = NgramEmbedding(NgramTables(orders=(2,), buckets=2**20, width=1))
    (buckets,) = embedding.buckets(torch.tensor([[3, 5], [5, 3], [0, 5]]))
    assert buckets[0, 1] != buckets[1, 1]
    # Before the start there is padding, which is no token: not even token 0.
    assert embedding.buckets(torch.tensor([[5]]))[0][0, 0] != buckets[2, 1]


def test_vectors_are_the_tables_rows_in_order() -> None:
    embedding = NgramEmbedding(NgramTables(orders=(2, 3), buckets=16, width=2))
    tokens = random_tokens(2, 5)
    second, third = embedding.buckets(tokens)
    vectors = embedding(tokens)
    assert vectors.shape == (2, 5, 4)
    assert torch.equal(vectors[..., :2], embedding.tables[0].weight[second])
    assert torch.equal(vectors[..., 2:], embedding.tables[1].weight[third])


def test_buckets_fill_evenly() -> None:
    embedding = NgramEmbedding(NgramTables(orders=(2,), buckets=1024, width=1))
    first, second = torch.meshgrid(torch.arange(256), torch.arange(256), indexing="ij")
    (buckets,) = embedding.buckets(torch.stack((first, second), -1).view(-1, 2))
    counts = buckets[:, 1].bincount(minlength=1024)  # 64 expected in each, with a deviation of 8
    assert counts.max() < 64 + 6 * 8
    assert counts.min() > 0


def test_multipliers_are_odd_and_fit_in_64_bits() -> None:
    assert all(number % 2 == 1 and -(2**63) <= number < 2**63 for number in _MULTIPLIERS)


def test_tables_start_small() -> None:
    embedding = NgramEmbedding(NgramTables(orders=(2,), buckets=1024, width=16))
    torch.testing.assert_close(embedding.tables[0].weight.std(), torch.tensor(0.02), rtol=0.05, atol=0)


@pytest.mark.parametrize("orders", [(), (0,), (2, 9)])
def test_wrong_orders_are_explained(orders: tuple[int, ...]) -> None:
    with pytest.raises(LexergyError, match="n-gram `orders`"):
        NgramTables(orders=orders)
