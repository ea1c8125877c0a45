import pytest

from lexergy.core.batches import batches_by_length


def test_a_batch_ends_where_padding_would_cost_more_than_a_batch():
    lengths = [3, 50, 4, 48, 1, 49, 20]
    # 3 beside 1 needs 2 tokens of padding, 4 two more; 20 would need 48 more; 50 beside 48 and 49 does not fit.
    assert list(batches_by_length(lengths, 100, batch_cost=4)) == [[4, 0, 2], [6], [3, 5], [1]]
    assert list(batches_by_length(lengths, 100, batch_cost=3)) == [[4, 0], [2], [6], [3, 5], [1]]
    assert list(batches_by_length([200], 100)) == [[0]]
    assert list(batches_by_length([], 100)) == []


def test_batches_of_rows_of_one_length_need_no_padding():
    assert list(batches_by_length([4, 3, 4, 3, 4], 8, batch_cost=0)) == [[1, 3], [0, 2], [4]]


@pytest.mark.parametrize("batch_cost", [0, 7, 32])
def test_every_row_is_in_one_batch_and_padding_is_bounded(batch_cost):
    lengths = [1 + 7919 * place % 53 for place in range(200)]
    batches = list(batches_by_length(lengths, 256, batch_cost=batch_cost))
    assert sorted(place for batch in batches for place in batch) == list(range(200))
    for batch in batches:
        longest = max(lengths[place] for place in batch)
        assert longest * len(batch) <= 256
        assert sum(longest - lengths[place] for place in batch) <= batch_cost
