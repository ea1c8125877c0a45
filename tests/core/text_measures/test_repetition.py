import numpy as np

from lexergy.core.text_measures.repetition import unique_share, unique_share_of_all


def test_unique_ngrams_by_hand():
    texts = np.array([[1, 2, 1, 2, 1], [1, 2, 3, 4, 5], [7, 7, 7, 7, 7]])
    # 12 21 12 21; 12 23 34 45; 77 four times
    assert unique_share(texts, 2).tolist() == [2 / 4, 1, 1 / 4]
    assert unique_share(texts, 4).tolist() == [1, 1, 1 / 2]
    # Together 12 21 23 34 45 77 of twelve bigrams.
    assert unique_share_of_all(texts, 2) == 6 / 12


def test_texts_of_any_length():
    texts = [[1, 1, 1], [2, 3], [4], []]
    assert unique_share(texts, 2).tolist() == [1 / 2, 1, 1, 1]
    assert unique_share_of_all(texts, 2) == 2 / 3
