"""What phrases and habits speak for, against sums written out and scikit-learn's own TF-IDF."""

import math
from collections import Counter

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from lexergy.core.detection.wording import Wording, WordingWeights

WEIGHTS = WordingWeights(
    phrases=("the", "-ing", "the_-ing", "Name"),
    weights=(0.5, -1.0, 0.25, 2.0),
    rarities=(1.0, 1.5, 3.0, 1.2),
    habits=(2.0, -1.0),
    mean=0.5,
    deviation=4.0,
)


def worded(*phrases, places=None, habits=(3.0, 7.0)):
    return Wording(phrases, tuple(range(len(phrases))) if places is None else places, habits)


def test_the_mean_of_terms_is_the_sum_by_hand():
    found = WEIGHTS.terms(worded("the", "zebu", "-ing", "the"), 5)
    u = {"the": (1 + math.log(2)) * 1.0, "-ing": 1.5}
    norm = math.sqrt(sum(own**2 for own in u.values()))
    expected = (0.5 * u["the"] / norm - u["-ing"] / norm + 2 * 3 - 7 - 0.5) / 4
    assert len(found) == 5
    assert float(found.mean()) == pytest.approx(expected)


def test_a_phrase_counts_where_it_ends_and_the_rest_is_shared_out():
    found = WEIGHTS.terms(worded("the", "zebu", "-ing", "the"), 5)
    rest = (2 * 3 - 7 - 0.5) / 4
    assert found[1] == found[4] == pytest.approx(rest)  # an unknown phrase says nothing
    assert found[0] == found[3] > rest > found[2]


def test_vectors_are_those_of_scikit_learn():
    texts = ["the cat saw the dog", "the dog", "a cat a cat a bird", "bird"]
    fitted = TfidfVectorizer(sublinear_tf=True, token_pattern=r"\S+").fit(texts)
    names = fitted.get_feature_names_out()
    weights = np.random.default_rng(0).normal(size=len(names))
    numbers = Counter(name for text in texts for name in set(text.split()))
    rarities = tuple(1 + math.log((1 + len(texts)) / (1 + numbers[name])) for name in names)
    own = WordingWeights(tuple(names), tuple(weights), rarities, habits=())
    for text in texts:
        expected = float((fitted.transform([text]) @ weights)[0])
        assert float(own.terms(worded(*text.split(), habits=()), 9).mean()) == pytest.approx(expected)


def test_a_text_is_a_direction_however_long_it_is():
    none, one, many = (
        float(WEIGHTS.terms(worded(*own, habits=(0.0, 0.0)), 10).mean()) for own in ((), ["Name"], ["Name"] * 9)
    )
    assert none == pytest.approx(-0.5 / 4)
    assert one == pytest.approx(many) == pytest.approx((2.0 - 0.5) / 4)


def test_common_words_are_its_words_in_small_letters():
    assert WEIGHTS.common == {"the"}
