"""Scorers that are sent to another process give the same scores, to the last bit."""

import pytest

from lexergy.models.scoring.kinds import load_scorer
from lexergy.runs.transport import from_bytes, to_bytes

cloudpickle = pytest.importorskip("cloudpickle")


@pytest.mark.parametrize("model", ["electric", "two-tower", "masked-lm"])
def test_a_sent_scorer_scores_the_same(cloze_run, model):
    texts = ["The state of our union!", "better future", ""]
    scorer = load_scorer(cloze_run / model)
    sent = from_bytes(to_bytes(scorer, cloudpickle.CloudPickler))
    assert sent.score(texts) == scorer.score(texts)


def test_a_sent_causal_lm_scores_the_same(word_lm_folder):
    texts = ["warm red", "cold blue warm"]
    scorer = load_scorer(word_lm_folder)
    assert from_bytes(to_bytes(scorer, cloudpickle.CloudPickler)).score(texts) == scorer.score(texts)
