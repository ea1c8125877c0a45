"""A detector measured by domain, generator and length; its energies are written in the texts."""

import json
from types import SimpleNamespace

import pandas
import pyarrow
import pyarrow.parquet
import pytest
import torch

from lexergy.core.detection.calibration import Calibration
from lexergy.core.detection.classification import classification_metrics
from lexergy.errors import LexergyError
from lexergy.models.detection.detector import Detection
from lexergy.models.detection.people import FalsePositives, PeopleTexts
from lexergy.report.pages.detection import evaluation_markdown, short_tables, write_evaluation
from lexergy.tasks.detection import evaluation_scores
from lexergy.tasks.detection.evaluation import evaluate, run_detection
from lexergy.tasks.detection.evaluation_texts import EvaluationFields, EvaluationText, read_evaluation_texts
from lexergy.tasks.detection.opening import Guarantee

pytestmark = pytest.mark.usefixtures("own_cache")


class Written:
    """A detector whose energy of a text is its first word, and whose tokens are its words."""

    def __init__(self, calibration=None, stopped_at=None):
        self.settings = SimpleNamespace(text=calibration)
        self.stopped_at = stopped_at
        self.read = []

    def detect(self, texts):
        for text in texts:
            if len(self.read) == self.stopped_at:
                raise KeyboardInterrupt
            self.read.append(text)
            first, *rest = text.split()
            if not rest:
                yield LexergyError("too short")
                continue
            yield Detection(None, 0.5, float(first), len(rest) + 1, 1, 1.0, (), text, ())


def text(energy, is_machine, document, words=30, **columns):
    return EvaluationText(f"{energy} " + "word " * words, is_machine, document, columns)


TEXTS = [
    *(text(0.1 * n, False, f"d{n}", domain="news") for n in range(10)),
    *(text(2 + 0.1 * n, False, f"e{n}", domain="verse") for n in range(10)),
    *(text(0.55 + 0.1 * n, True, f"d{n}", domain="news", generator="a") for n in range(10)),
    *(text(3 + 0.1 * n, True, f"e{n}", domain="verse", generator="b") for n in range(10)),
    EvaluationText("1", True, "short", {}),
]
PEOPLE = PeopleTexts(
    energies=tuple(0.1 * n for n in range(39)),
    tokens=(31,) * 39,
    domains=("own",) * 39,
    styles=tuple((3.4, 4.0, 3.4, 0.0, 0.1 * (n % 3), 0.0, 0.0) for n in range(39)),
)
GUARANTEE = Guarantee(PEOPLE, FalsePositives(0.1))


def test_each_domain_has_its_own_people_and_each_generator_all_of_them():
    found = evaluate(Written(), {}, TEXTS, ["domain", "generator"])
    assert found.unjudged == 1
    assert (found.overall.people, found.overall.machines) == (20, 20)
    assert found.overall.calibration_error is None
    assert {name: (own.people, own.machines) for name, own in found.by["domain"].items()} == {
        "news": (10, 10),
        "verse": (10, 10),
    }
    assert found.by["domain"]["verse"].auc.value == 1
    assert found.by["domain"]["verse"].recall_at_5.value == 1
    assert found.by["domain"]["news"].auc.value == pytest.approx(0.9)
    assert {name: (own.people, own.machines) for name, own in found.by["generator"].items()} == {
        "a": (20, 10),
        "b": (20, 10),
    }
    assert found.by["generator"]["a"].auc.value == pytest.approx(found.by["domain"]["news"].auc.value / 2)
    assert found.by["generator"]["b"].auc.value == 1


def test_the_numbers_are_those_of_classification_metrics_over_documents():
    found = evaluate(Written(), {}, TEXTS, seed=3).overall
    kept = TEXTS[:-1]
    energies = torch.tensor([float(own.text.split()[0]) for own in kept], dtype=torch.double)
    expected = classification_metrics(
        energies, torch.tensor([own.is_machine for own in kept]), [own.document for own in kept], seed=3
    )
    assert (found.auc, found.recall_at_1) == (expected.auc, expected.recall_at_1)


def test_a_killed_evaluation_goes_on_to_the_same_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr(evaluation_scores, "FEWEST", 8)
    how = ({}, TEXTS, ["domain", "length"], GUARANTEE)
    whole = evaluate(Written(), *how, folder=tmp_path / "whole", progress=False)
    killed = Written(stopped_at=20)
    with pytest.raises(KeyboardInterrupt):
        evaluate(killed, *how, folder=tmp_path / "killed", progress=False)
    again = Written()
    assert evaluate(again, *how, folder=tmp_path / "killed", progress=False) == whole
    assert again.read == [own.text for own in TEXTS[16:]]  # two shards of eight were kept


def test_a_shard_has_few_texts_of_few_and_more_of_many():
    assert [evaluation_scores.texts_per_shard(count) for count in (3, 8000, 50_000, 10**6)] == [16, 16, 100, 256]


def test_what_was_judged_is_read_again_only_for_another_detector_or_other_texts(tmp_path):
    first = evaluate(Written(), {"model": "a"}, TEXTS, progress=False)
    again = Written()
    other = evaluate(again, {"model": "a"}, TEXTS, ["generator"], GUARANTEE, seed=1, progress=False)
    assert again.read == []
    assert other.overall.auc.value == first.overall.auc.value
    assert other.unjudged == 1
    for key, texts in (({"model": "b"}, TEXTS), ({"model": "a"}, TEXTS[1:])):
        evaluate(again, key, texts, progress=False)
        assert again.read == [own.text for own in texts]
        again.read.clear()


def test_probabilities_are_measured_where_there_are_any():
    found = evaluate(Written(Calibration(slope=2.0, offset=-5.0)), {}, TEXTS).overall
    assert found.balanced_accuracy.value == pytest.approx((0.8 + 0.5) / 2)
    assert 0 < found.calibration_error.value < 1


def test_lengths_are_divided_so_that_either_class_has_enough():
    texts = [
        text(n % 7 + machine, bool(machine), f"d{n}-{words}", words)
        for n in range(25)
        for words in (20, 100, 1000)
        for machine in (0, 1)
    ]
    by_length = evaluate(Written(), {}, texts, ["length"]).by["length"]
    assert list(by_length) == ["0 to 31 tokens", "32 to 127 tokens", "128 tokens or more"]
    assert all((own.people, own.machines) == (25, 25) for own in by_length.values())
    assert list(evaluate(Written(), {}, TEXTS, ["length"]).by["length"]) == ["any length"]


def test_the_share_of_people_accused():
    found = evaluate(Written(), {}, TEXTS, ["domain"], GUARANTEE)
    assert found.overall.accused.value == 0  # above 3.5
    assert found.overall.recognised.value == pytest.approx(4 / 20)
    assert found.by["domain"]["verse"].recognised.value == pytest.approx(4 / 10)
    assert 0 < found.overall.accused.high < 0.2
    page = evaluation_markdown(found, "All of it")
    assert "| domain | people | machines |" in page
    assert "| verse | 10 | 10 | 1.000 (0.700 to 1.000)" in page
    assert "people accused" in page


def test_a_value_with_one_class_is_left_out_and_told():
    lonely = [*TEXTS, text(1, False, "x", domain="prose")]
    found = evaluate(Written(), {}, lonely, ["domain"])
    assert "all texts are of one class" in found.left_out["domain"]["prose"]
    assert "Nothing is measured of domain prose" in evaluation_markdown(found, "x")
    with pytest.raises(LexergyError, match="no column `genre`; expected some of: domain, generator, length"):
        evaluate(Written(), {}, TEXTS, ["genre"])


def test_cells_say_how_far_an_interval_reaches_and_where_there_is_none(tmp_path):
    texts = [text(0.1 * n, False, f"d{n}", domain="news") for n in range(10)]
    texts += [text(3.0, True, "m0", domain="news", generator="one")]
    texts += [text(3.0 + n, True, f"n{n}", domain="news", generator="five") for n in range(5)]
    measured = evaluate(Written(), {}, texts, by=("generator",))
    _, by_generator = short_tables(measured)
    assert {row[0]: row[2] for row in by_generator.rows} == {"one": "1.00", "five": "1.00±.60"}  # .40 to 1.00
    write_evaluation(measured, "A detector", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "1.000 (one document)" in page
    assert "1.000 (0.400\u00a0to\u00a01.000)" in page


def test_raid_calls_it():
    table = pandas.DataFrame({"id": ["a", "b"], "generation": ["one", "two words"], "model": ["human", "gpt4"]})
    found = run_detection(lambda texts: [float(len(text.split())) for text in texts], table)
    assert found == [{"id": "a", "score": 1.0}, {"id": "b", "score": 2.0}]
    with pytest.raises(LexergyError, match="1 scores of 2 texts"):
        run_detection(lambda texts: [0.0], table)


def test_files_of_raid_of_labels_and_of_pairs(tmp_path):
    raid = pandas.DataFrame(
        {
            "id": ["a", "b"],
            "generation": ["written by hand", "written by gpt4"],
            "model": ["human", "gpt4"],
            "domain": ["news", "news"],
            "source_id": ["s", "s"],
        }
    )
    raid.to_csv(tmp_path / "raid.csv", index=False)
    pyarrow.parquet.write_table(pyarrow.Table.from_pandas(raid), tmp_path / "raid.parquet")
    for name in ("raid.csv", "raid.parquet"):
        person, machine = read_evaluation_texts([str(tmp_path / name)], EvaluationFields())
        assert (person.is_machine, machine.is_machine) == (False, True)
        assert person.document == machine.document == "s"
        assert machine.columns["generator"] == "gpt4"
        assert machine.columns["domain"] == "news"
        assert "generation" not in machine.columns  # the text itself
    path = tmp_path / "texts.jsonl"
    path.write_text(json.dumps({"body": "a text", "label": 1}) + "\n" + json.dumps({"body": "x", "label": "Human"}))
    machine, person = read_evaluation_texts([str(path)], EvaluationFields(text="body"))
    assert (machine.is_machine, person.is_machine) == (True, False)
    assert machine.document != person.document
    path.write_text(json.dumps({"h": "a text", "m": "another", "label": "?"}))
    person, machine = read_evaluation_texts([str(path)], EvaluationFields(human="h", machine="m"))
    assert (person.text, machine.text, machine.is_machine) == ("a text", "another", True)
    assert person.document == machine.document
    with pytest.raises(LexergyError, match="the label is `\\?`; expected one of 1, ai"):
        read_evaluation_texts([str(path)], EvaluationFields(text="h"))
    path.write_text(json.dumps({"text": "a text", "writer": "machine"}))
    with pytest.raises(LexergyError, match="name it with `--label-field`, or the fields of a pair"):
        read_evaluation_texts([str(path)], EvaluationFields())
    with pytest.raises(LexergyError, match="expected both, or neither"):
        read_evaluation_texts([str(path)], EvaluationFields(human="h"))
