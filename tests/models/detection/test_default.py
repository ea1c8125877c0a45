"""What comes with the detector that needs no training."""

import pytest

from lexergy.core.detection.assistant import ASSISTANT
from lexergy.core.detection.zero_shot import SCORERS
from lexergy.errors import LexergyError
from lexergy.models.detection import default
from lexergy.models.detection.default import assistant_score, default_scorer, known_people, zero_shot_detector
from lexergy.models.detection.people import FalsePositives, accuse


@pytest.mark.parametrize("scorer", [ASSISTANT, *SCORERS])
def test_people_are_known_under_every_scorer(scorer):
    people = known_people(scorer)
    assert len(people) == len(people.tokens) == len(people.domains) == len(people.styles) == 500
    assert set(people.domains) == {"news", "speeches", "essays", "fiction", "web"}
    assert len(people.of_domain("web")) == 100
    judged = accuse(people, people.energies, people.tokens, FalsePositives(0.05))
    assert sum(own.verdict == "machine" for own in judged) <= 0.05 * len(people)


def test_of_the_default_lm_alone_people_are_known(word_lm_folder, monkeypatch):
    assert zero_shot_detector((str(word_lm_folder),)).settings.people is None
    monkeypatch.setattr(default, "LM", str(word_lm_folder))
    detector = zero_shot_detector((str(word_lm_folder),), "likelihood")
    assert detector.settings.people == known_people("likelihood")
    assert detector.settings.text is None
    paired = zero_shot_detector((str(word_lm_folder),) * 2, "ratio")
    assert paired.settings.people is None
    with pytest.raises(LexergyError, match="3 LMs are given"):
        zero_shot_detector(("a", "b", "c"))


def test_another_lm_has_another_default(word_lm_folder, monkeypatch):
    assert default_scorer() == ASSISTANT
    assert zero_shot_detector((str(word_lm_folder),)).reader.scorer == default_scorer(("another",)) == "tail-varentropy"
    monkeypatch.setattr(default, "LM", str(word_lm_folder))
    detector = zero_shot_detector((str(word_lm_folder),))
    assert detector.reader.scorer == ASSISTANT
    assert detector.settings.people == known_people(ASSISTANT)


def test_what_is_fitted_to_the_default_lm(word_lm, monkeypatch):
    """Words become tokens of the LM; those that it does not have are left out."""
    vocabulary = {"Ġmost": 4, "Ġour": 7, "else": 9}
    monkeypatch.setattr(type(word_lm.tokenizer), "get_vocab", lambda _: vocabulary)
    score = assistant_score(word_lm)
    assert set(score.words.tokens) == {4, 7}
    weight = dict(zip(score.words.tokens, score.words.weights, strict=True))
    assert weight[4] > 0 > weight[7]
    assert all(deviation > 0 for deviation in score.deviations)
    assert all(0 < rate < 1 for rate in score.words.rates)
