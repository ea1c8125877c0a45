from lexergy.core.batches import batches_by_length


def test_batches_hold_rows_of_similar_length():
    lengths = [3, 50, 4, 48, 1, 49, 20]
    batches = list(batches_by_length(lengths, 100))
    assert sorted(place for batch in batches for place in batch) == list(range(7))
    assert batches == [[4, 0], [2], [6], [3, 5], [1]]  # 3 is not much longer than 1; 49 fits beside 48 and 50 does not
    assert list(batches_by_length([200], 100)) == [[0]]
    assert list(batches_by_length([], 100)) == []


def test_batches_of_equal_length_need_no_padding():
    assert list(batches_by_length([4, 3, 4, 3, 4], 8, equal=True)) == [[1, 3], [0, 2], [4]]
