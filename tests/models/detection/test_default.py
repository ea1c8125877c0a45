"""What comes with the detector that needs no training."""

import pytest

from lexergy.core.detection.zero_shot import SCORERS
from lexergy.errors import LexergyError
from lexergy.models.detection import default
from lexergy.models.detection.default import known_people, zero_shot_detector
from lexergy.models.detection.people import FalsePositives, accuse


@pytest.mark.parametrize("scorer", SCORERS)
def test_people_are_known_under_every_scorer(scorer):
    people = known_people(scorer)
    assert len(people) == len(people.tokens) == len(people.domains) == len(people.styles) == 300
    assert set(people.domains) == {"news", "speeches", "essays", "fiction", "web"}
    assert len(people.of_domain("web")) == 60
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
