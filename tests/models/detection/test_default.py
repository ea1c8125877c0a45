"""What comes with the detector that needs no training."""

import pytest

from lexergy.core.detection.machine import MACHINE
from lexergy.core.detection.zero_shot import SCORERS
from lexergy.data.detection.habits import Habits
from lexergy.errors import LexergyError
from lexergy.models.detection import Detector, default
from lexergy.models.detection.default import (
    assistant_score,
    default_scorer,
    fitted_to,
    is_default,
    known_people,
    machine_score,
    zero_shot_detector,
)
from lexergy.models.detection.people import FalsePositives, accuse
from lexergy.models.detection.zero_shot import FITTED
from lexergy.tasks.detection.opening import Opening


@pytest.mark.parametrize("scorer", [*FITTED, *SCORERS])
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
    assert default_scorer() == MACHINE
    assert zero_shot_detector((str(word_lm_folder),)).reader.scorer == default_scorer(("another",)) == "tail-varentropy"
    monkeypatch.setattr(default, "LM", str(word_lm_folder))
    detector = zero_shot_detector((str(word_lm_folder),))
    assert detector.reader.scorer == MACHINE
    assert detector.settings.people == known_people(MACHINE)


def test_bfloat16_is_the_default_lm_too():
    """What was fitted in float32 holds there; int8, other LMs and pairs are something else."""
    for precision in ("", "#precision=float32", "#precision=bfloat16"):
        assert is_default((f"{default.LM}{precision}",))
        assert default_scorer((f"{default.LM}{precision}",)) == MACHINE
        assert Opening(lms=(f"{default.LM}{precision}",)).tells_sentences
    for others in ((f"{default.LM}#precision=int8",), ("gemma3-270m",), (default.LM, default.LM), ()):
        assert not is_default(others)
    assert not Opening(lms=("gemma3-270m",)).tells_sentences
    assert not Opening(lms=(f"{default.LM}#precision=bfloat16",), scorer="likelihood").tells_sentences


def test_what_is_known_of_an_assistants_wording():
    score = assistant_score()
    weight = dict(zip(score.wording.phrases, score.wording.weights, strict=True))
    assert {"the", "nobody", "however"} <= score.common
    assert weight["nobody"] > 0 > weight["example"]
    assert len(score.wording.habits) == len(Habits._fields)
    assert all(rarity >= 1 for rarity in score.wording.rarities)
    assert all(deviation > 0 for deviation in (*score.deviations, score.wording.deviation))


def test_both_kinds_of_machines_speak_in_the_default():
    score = machine_score()
    assert score.assistant == assistant_score()
    assert all(ratio.slope > 0 for ratio in score.ratios)
    assert sum(score.shares) == pytest.approx(1)
    assert min(score.shares) > 0


def test_other_numbers_are_another_score():
    prints = [fitted_to(scorer) for scorer in FITTED]
    assert len(set(prints)) == len(FITTED)
    assert None not in prints
    assert fitted_to("likelihood") is None


@pytest.mark.parametrize("scorer", FITTED)
def test_a_fitted_score_is_saved_and_loaded(word_lm_folder, monkeypatch, tmp_path, scorer):
    monkeypatch.setattr(default, "LM", str(word_lm_folder))
    detector = zero_shot_detector((str(word_lm_folder),), scorer)
    detector.save_pretrained(tmp_path)
    loaded = Detector.from_pretrained(tmp_path)
    assert loaded.reader.fitted == detector.reader.fitted
    text = "our union is strong and our people are free. " * 4
    (own,), (other,) = (list(one.detect([text])) for one in (detector, loaded))
    assert own.energy == other.energy
