from collections import Counter

import pytest
import torch

from lexergy.core.ends import lengths_until
from lexergy.data.windows import Windows, make_windows
from lexergy.errors import LexergyError


def numbered_documents(lengths):
    """Documents whose tokens are all different: 0, 1, 2, ... and 1000, 1001, ..."""
    return [list(range(1000 * index, 1000 * index + length)) for index, length in enumerate(lengths)]


def windows_of(lengths, **options):
    ids = [f"document {index}" for index in range(len(lengths))]
    return make_windows(numbered_documents(lengths), ids, **options)


def test_windows_are_those_of_the_drawing():
    windows = windows_of([12], prefix_length=4, continuation_length=3)
    assert windows.tokens.tolist() == [[0, 1, 2, 3, 4, 5, 6], [3, 4, 5, 6, 7, 8, 9]]
    assert windows.prefixes.tolist() == [[0, 1, 2, 3], [3, 4, 5, 6]]
    assert windows.continuations.tolist() == [[4, 5, 6], [7, 8, 9]]
    assert (windows.starts, windows.continuation_length, len(windows)) == ([0, 3], 3, 2)
    assert windows.tokens.dtype == torch.long


@pytest.mark.parametrize("prefix_length", [1, 2, 5])
@pytest.mark.parametrize("continuation_length", [1, 3, 4])
def test_each_continuation_token_is_predicted_exactly_once(prefix_length, continuation_length):
    lengths = [17, 3, 9, 30]
    windows = windows_of(lengths, prefix_length=prefix_length, continuation_length=continuation_length)
    predicted = Counter(windows.continuations.reshape(-1).tolist())
    expected = []
    for document in numbered_documents(lengths):
        whole = max(0, len(document) - prefix_length) // continuation_length * continuation_length
        expected += document[prefix_length : prefix_length + whole]
    assert predicted == Counter(expected)


@pytest.mark.parametrize("prefix_length", [1, 2, 5])
@pytest.mark.parametrize("continuation_length", [1, 3, 4])
def test_with_ends_every_token_and_every_end_is_predicted_exactly_once(prefix_length, continuation_length):
    lengths, end = [17, 3, 9, 30, 12, 13, 14, 15], 99999
    options = {"prefix_length": prefix_length, "continuation_length": continuation_length}
    windows = windows_of(lengths, **options, end_token=end)
    rows = windows.continuations
    texts = [row[:length] for row, length in zip(rows, lengths_until(rows, end), strict=True)]
    expected = []
    for document in numbered_documents(lengths):
        expected += [*document[prefix_length:], end] if len(document) >= prefix_length else []
    assert Counter(torch.cat(texts).tolist()) == Counter(expected)
    whole = windows_of(lengths, **options)
    assert {tuple(row) for row in whole.tokens.tolist()} <= {tuple(row) for row in windows.tokens.tolist()}
    assert all((row[len(text) :] == end).all() for row, text in zip(rows, texts, strict=True))


def test_with_ends_a_window_is_drawn_as_it_is():
    ends = windows_of([12], prefix_length=4, continuation_length=3, end_token=77)
    assert ends.tokens[-1].tolist() == [6, 7, 8, 9, 10, 11, 77]
    ends = windows_of([11], prefix_length=4, continuation_length=3, end_token=77)
    assert ends.tokens[-1].tolist() == [6, 7, 8, 9, 10, 77, 77]
    strided = windows_of([20], prefix_length=2, continuation_length=3, stride=7, end_token=77)
    assert strided.continuations.tolist() == [[2, 3, 4], [9, 10, 11], [16, 17, 18]]
    with pytest.raises(LexergyError, match="expected at least 4, a prefix of 4 and its end"):
        windows_of([3], prefix_length=4, continuation_length=3, end_token=77)


def test_windows_never_cross_documents_and_know_where_they_come_from():
    windows = windows_of([8, 2, 11], prefix_length=2, continuation_length=3)
    assert windows.document_ids == ["document 0"] * 2 + ["document 2"] * 3
    for tokens, document_id, start in zip(windows.tokens, windows.document_ids, windows.starts, strict=True):
        first = 1000 * int(document_id.split()[1]) + start
        assert tokens.tolist() == list(range(first, first + 5))


def test_a_larger_stride_subsamples_and_a_smaller_one_is_refused():
    windows = windows_of([20], prefix_length=2, continuation_length=3, stride=7)
    assert (windows.starts, windows.tokens[:, 0].tolist()) == ([0, 7, 14], [0, 7, 14])
    with pytest.raises(LexergyError, match="`stride` is 2; expected at least the continuation length, 3"):
        windows_of([20], prefix_length=2, continuation_length=3, stride=2)


def test_tensors_are_documents_too():
    options = {"prefix_length": 2, "continuation_length": 3}
    from_tensor = make_windows([torch.arange(12, dtype=torch.int32)], ["document 0"], **options)
    assert torch.equal(from_tensor.tokens, windows_of([12], **options).tokens)


def test_a_corpus_shorter_than_one_window_is_refused():
    with pytest.raises(LexergyError, match="longest of 2 documents has 5 tokens; expected at least 6, a prefix of 2"):
        windows_of([3, 5], prefix_length=2, continuation_length=4)
    with pytest.raises(LexergyError, match="`prefix_length` is 0; expected at least 1"):
        windows_of([9], prefix_length=0, continuation_length=4)
    with pytest.raises(LexergyError, match="`continuation_length` is 0; expected at least 1"):
        windows_of([9], prefix_length=2, continuation_length=0)


def test_select_keeps_all_columns_together():
    windows = windows_of([8, 8, 8], prefix_length=2, continuation_length=3).select([4, 1])
    assert windows.tokens[:, 0].tolist() == [2000, 3]
    assert (windows.document_ids, windows.starts) == (["document 2", "document 0"], [0, 3])


def test_sample_is_seeded_distinct_and_spread_over_documents():
    windows = windows_of([302] * 10, prefix_length=2, continuation_length=3)
    sample = windows.sample(20, seed=3)
    assert sample.tokens.tolist() == windows.sample(20, seed=3).tokens.tolist()
    assert sample.tokens.tolist() != windows.sample(20, seed=4).tokens.tolist()
    assert Counter(sample.document_ids) == Counter(dict.fromkeys(windows.document_ids, 2))
    everything = windows.sample(len(windows), seed=3)
    assert torch.equal(everything.tokens, windows.tokens)


def test_sample_takes_each_window_equally_often():
    windows = windows_of([23], prefix_length=2, continuation_length=3)  # 7 windows
    counts = Counter(start for seed in range(2100) for start in windows.sample(3, seed).starts)
    # Expected 900 of 2100 each; 5 standard deviations of a binomial are 113.
    assert [abs(counts[start] - 900) < 113 for start in windows.starts] == [True] * 7


@pytest.mark.parametrize("n", [0, 8])
def test_sample_of_an_impossible_size_is_refused(n):
    with pytest.raises(LexergyError, match=f"{n} windows were asked for; expected 1 to 7"):
        windows_of([23], prefix_length=2, continuation_length=3).sample(n, seed=0)


def test_saved_windows_come_back_the_same(tmp_path):
    windows = windows_of([8, 2, 11], prefix_length=2, continuation_length=3)
    windows.save(tmp_path / "windows.parquet")
    loaded = Windows.load(tmp_path / "windows.parquet")
    assert torch.equal(loaded.tokens, windows.tokens)
    assert loaded.tokens.dtype == torch.long
    assert (loaded.prefix_length, loaded.document_ids, loaded.starts) == (
        2,
        windows.document_ids,
        windows.starts,
    )
    windows.select([2]).save(tmp_path / "windows.parquet")
    assert Windows.load(tmp_path / "windows.parquet").tokens[:, 0].tolist() == [2000]
    windows.select([]).save(tmp_path / "windows.parquet")
    assert Windows.load(tmp_path / "windows.parquet").tokens.shape == (0, 5)
    assert [path.name for path in tmp_path.iterdir()] == ["windows.parquet"]


def test_a_damaged_or_missing_file_is_refused(tmp_path):
    path = tmp_path / "windows.parquet"
    with pytest.raises(LexergyError, match=r"windows.parquet` cannot be read .*; expected windows; make them again"):
        Windows.load(path)
    windows_of([8], prefix_length=2, continuation_length=3).save(path)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(LexergyError, match="make them again"):
        Windows.load(path)
