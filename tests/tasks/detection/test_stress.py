"""The bench of attacks: what it compares, what it need not read again, and where it goes on."""

from dataclasses import replace

import pytest
import torch

from lexergy.core.detection.calibration import Calibration
from lexergy.core.detection.classification import classification_metrics
from lexergy.core.detection.two_writers import TwoWriters
from lexergy.data.detection.attacks import TEXT_ATTACKS
from lexergy.errors import LexergyError
from lexergy.models.detection.detector import Detector
from lexergy.report.pages.stress import write_stress
from lexergy.tasks.detection import stress as bench
from lexergy.tasks.detection.attacks.table import PLACES, AttackChoice
from lexergy.tasks.detection.evaluation_texts import EvaluationText
from toys.texts import MACHINE, PEOPLE, written

EXAMPLES = [
    EvaluationText(written(words, 2 * number + is_machine), bool(is_machine), f"pair {number}", {})
    for number in range(10)
    for is_machine, words in enumerate((PEOPLE, MACHINE))
]
PEOPLE_TEXTS, MACHINE_TEXTS = ([own.text for own in EXAMPLES if own.is_machine == wanted] for wanted in (False, True))


def run(detector, folder, *names, **settings):
    return bench.stress(detector, {}, EXAMPLES, AttackChoice(names or None), folder, progress=False, **settings)


def energies(detector, texts, normalised):
    return [judged.energy for judged in detector.detect(texts, normalised=normalised)]


def test_attacked_machine_texts_are_told_from_peoples(encoder_detector, tmp_path):
    report = run(encoder_detector, tmp_path, "homoglyphs", "mixed")
    assert (report.people, report.machines) == (10, 10)
    assert [own.name for own in report.attacks] == ["homoglyphs", "mixed"]
    stage = torch.tensor(energies(encoder_detector, PEOPLE_TEXTS, False), dtype=torch.double)
    for normalised in (False, True):
        attacked = [TEXT_ATTACKS["homoglyphs"].apply(text, 1.0, 0) for text in MACHINE_TEXTS]  # all letters: no chance
        values = torch.cat((stage, torch.tensor(energies(encoder_detector, attacked, normalised), dtype=torch.double)))
        usual = classification_metrics(values, torch.arange(20) >= 10, list(range(10)) * 2)
        measured = report.attacks[0].normalised if normalised else report.attacks[0].as_read
        assert measured.auc == usual.auc
        assert measured.recall == usual.recall_at_5
    assert report.attacks[0].normalised.auc_cost == (0, 0, 0)
    assert report.attacks[0].normalised.auc == report.unattacked.auc
    assert report.attacks[0].as_read.auc != report.unattacked.auc


def test_all_attacks_that_need_no_lm(encoder_detector, states_detector, tmp_path):
    report = run(encoder_detector, tmp_path / "encoder", limit=3)
    assert [own.name for own in report.attacks] == [*TEXT_ATTACKS, "mixed", "gradient"]
    assert report.machines == 3
    assert all(own.strength == PLACES[own.name].strength for own in report.attacks)
    for own in report.attacks:
        if own.name in TEXT_ATTACKS and TEXT_ATTACKS[own.name].is_undone:
            assert own.normalised.auc_cost == (0, 0, 0)
    assert "gradient" not in AttackChoice().chosen(states_detector)


def test_sentences_of_spliced_texts_are_judged_where_the_detector_tells_of_them(encoder_detector, tmp_path):
    assert run(encoder_detector, tmp_path / "untold", "mixed").attribution is None
    settings = replace(encoder_detector.settings, sentence=Calibration(), writers=TwoWriters(0.2))
    examples = [replace(own, text=own.text.replace(". ", ". So ")) for own in EXAMPLES]
    report = bench.stress(
        Detector(encoder_detector.reader, settings), {}, examples, AttackChoice(("mixed",)), tmp_path, progress=False
    )
    told = report.attribution
    assert told.texts == 20
    assert sum(level.sentences for level in told.reliability) == told.sentences > 60
    people, machine = told.right["all people's"], told.right["all a machine's"]
    assert people.value + machine.value == pytest.approx(1)
    write_stress(report, tmp_path)
    assert "| sentences, with their neighbours |" in (tmp_path / "stress.md").read_text()
    assert "<h2>Which sentences</h2>" in (tmp_path / "stress.html").read_text()


def test_a_text_is_read_once_and_a_finished_attack_never_again(encoder_detector, tmp_path, monkeypatch):
    read = []
    judge = Detector.judge
    monkeypatch.setattr(
        Detector, "judge", lambda self, texts, *rest: [read.extend(texts), judge(self, texts, *rest)][1]
    )
    first = run(encoder_detector, tmp_path, "line-breaks", "no-break-blanks")
    assert len(read) == 20  # as a detector reads, blanks are all alike
    assert run(encoder_detector, tmp_path, "line-breaks", "no-break-blanks") == first
    assert len(read) == 20
    more = run(encoder_detector, tmp_path, "doubled-blanks", "line-breaks", "zero-width")
    assert len(read) == 30
    assert more.attacks[2] == first.attacks[0]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"names": ("homoglyphs", "laser")}, "the attack is `laser`; expected some of: homoglyphs"),
        ({"names": ("words",)}, "`--replacer`"),
        ({"names": ("paraphrase",)}, "`--paraphraser`"),
        ({"strength": 1.5}, "`strength` is 1.5"),
    ],
)
def test_attacks_that_cannot_be_are_refused(settings, words):
    with pytest.raises(LexergyError, match=words):
        AttackChoice(**settings)


def test_texts_of_both_kinds_are_needed(encoder_detector, tmp_path):
    with pytest.raises(LexergyError, match="0 texts of people and 1 of machines"):
        bench.stress(encoder_detector, {}, EXAMPLES[1:2], AttackChoice(), tmp_path)
