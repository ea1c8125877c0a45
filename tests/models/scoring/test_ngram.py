"""Scores of an n-gram LM by its own ARPA file, with back-off by hand."""

import math

import pytest

from lexergy.errors import LexergyError
from lexergy.models.scoring.kinds import load_scorer

pytest.importorskip("pocketsphinx")

ARPA = """\\data\\
ngram 1=5
ngram 2=2
ngram 3=1

\\1-grams:
-1.0 <s> -0.5
-0.7 </s> 0
-0.3 rain -0.2
-0.9 sang -0.1
-1.2 over 0

\\2-grams:
-0.25 <s> rain -0.3
-0.4 rain sang 0

\\3-grams:
-0.15 <s> rain sang

\\end\\
"""


@pytest.fixture
def scorer(tmp_path):
    (tmp_path / "tiny.arpa").write_text(ARPA)
    return load_scorer(tmp_path / "tiny.arpa")


def test_scores_back_off_by_hand(scorer):
    (score, unknown, empty) = scorer.score(["rain sang  over", "rain zebra", ""])
    tens = [-0.25, -0.15, -0.1 - 1.2]  # p(rain | <s>), p(sang | <s> rain), back off from "sang" to p(over)
    assert score.log_scores == pytest.approx([value * math.log(10) for value in tens], abs=2e-3)
    assert score.spans == ((0, 4), (5, 9), (11, 15))
    assert unknown.log_scores[1] == -20
    assert empty.log_scores == ()
    assert (scorer.kind, scorer.passes) == ("n-gram log-likelihood", "0")


def test_the_packaged_lm_prefers_what_people_say():
    right, wrong = load_scorer("trigram").score(
        ["the president of the united states", "the precedent of the united states"]
    )
    assert right.log_score > wrong.log_score + 5


def test_a_file_that_is_no_lm(tmp_path):
    (tmp_path / "broken.arpa").write_text("nothing")
    with pytest.raises(LexergyError, match="cannot be read"):
        load_scorer(tmp_path / "broken.arpa").score(["rain"])
