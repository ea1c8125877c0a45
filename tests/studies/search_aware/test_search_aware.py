"""Tables 3.1 to 5.6, Figures 3.1 and 5.1: conclusions from given sentences, and each study end to end on a toy."""

import dataclasses

import pytest

from lexergy.core.estimation import corpus
from lexergy.core.estimation.findings import Verdict
from lexergy.report.pages.study import write_study
from lexergy.studies.reproduce import load_study, reproduce
from lexergy.studies.search_aware import table_4_1, table_5_2, table_5_3, table_5_4, table_5_5, table_5_6
from lexergy.studies.search_aware.comparison import BEAM, GREEDY, RAW, SOFT, START, TIME, UPDATES, Row, Seen, gap, score
from lexergy.studies.search_aware.direct_loss import DIRECT
from lexergy.studies.search_aware.normalisation import GLOBAL, LOCAL
from lexergy.studies.study import Size
from lexergy.tasks.search_aware.arms import ENCODERS
from lexergy.tasks.search_aware.decodings import Written
from toys.search_studies import SETTINGS, toy_recipe

TOYS = {
    "table-3.1": "ner",
    "table-3.1-translation": "translation",
    "table-3.2": "ner",
    "table-4.1": "tagging",
    "table-4.2": "ner",
    "table-5.1": "tagging",
    "table-5.1-translation": "translation",
    "table-5.2": "tagging",
    "table-5.3": "tagging",
    "table-5.4": "translation",
    "table-5.5": "translation",
    "table-5.6": "translation",
    "figure-3.1": "ner",
}


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch):
    monkeypatch.setattr(corpus, "NUM_RESAMPLES", 50)


def written(right, *, sentences=40, words=5):
    """Sentences of five words, of which so many are right on average; every other sentence is better than that."""
    gold = [[f"gold{place}" for place in range(words)]] * sentences
    predicted = []
    for row in range(sentences):
        count = min(words, right + row % 2)
        predicted.append([*gold[row][:count], *["wrong"] * (words - count)])
    return Written([words] * sentences, gold, predicted)


def seen(right):
    return Seen({part: written(right) for part in ("validation", "test")}, 10, 5, 0.1)


def as_the_thesis_says(groups, trainings):
    """Each training and decoding with so many words right, in every group."""
    rows = {Row(group, *row): seen(right) for group in groups for row, right in trainings.items()}
    return {Row("", "most frequent label of the word", ""): seen(0), **rows}


STARTS = {
    (START, GREEDY): 0,
    (START, BEAM): 1,
    (START, RAW): 2,
    (START, SOFT): 1,
    (UPDATES, BEAM): 1,
    (UPDATES, RAW): 1,
}
LATER = {(TIME, BEAM): 1, (TIME, RAW): 1, (LOCAL, BEAM): 3, (LOCAL, SOFT): 3, (GLOBAL, BEAM): 3, (GLOBAL, SOFT): 3}


def test_scores_and_gaps_are_of_the_corpus():
    evidence = [{"a": seen(3), "b": seen(1)}]
    assert score(evidence, "a", "accuracy").value == pytest.approx(70)
    assert score(evidence, "b", "accuracy").value == pytest.approx(30)
    ahead = gap(evidence, "a", "b", "accuracy")
    assert (ahead.value, ahead.low, ahead.high) == tuple([pytest.approx(40)] * 3)  # paired: the same in all sentences
    assert score(evidence, "a", "accuracy").low < 70
    over_seeds = gap([{"a": seen(3), "b": seen(1)}, {"a": seen(2), "b": seen(1)}], "a", "b", "accuracy")
    assert over_seeds.value == pytest.approx(30)
    assert over_seeds.low < 0 < over_seeds.high


def test_findings_of_table_5_2():
    evidence = [as_the_thesis_says(ENCODERS, STARTS | LATER)]
    verdicts = {finding.sentence: finding.verdict for finding in table_5_2.STUDY.conclude(evidence).findings}
    assert set(verdicts.values()) == {Verdict.HOLDS}
    assert len(verdicts) == 2 * 8 + 2 + 2
    worse = STARTS | LATER | {(LOCAL, BEAM): 1, (START, BEAM): 3, (TIME, BEAM): 2, (START, RAW): 4}
    findings = table_5_2.STUDY.conclude([as_the_thesis_says(ENCODERS, worse)]).findings
    verdicts = {finding.sentence: finding.verdict for finding in findings}
    assert verdicts["unidirectional: soft beam, local is above the start continued, as much time."] == "DOES NOT HOLD"
    failed = [sentence for sentence, verdict in verdicts.items() if verdict == Verdict.DOES_NOT_HOLD]
    assert [sentence for sentence in failed if "as many updates" in sentence] == []
    assert len([sentence for sentence in failed if sentence.startswith("unidirectional")]) == 5


def test_findings_of_table_5_3():
    rows = STARTS | LATER | {(LOCAL, BEAM): 2, (LOCAL, SOFT): 2, ("beam-crf", BEAM): 2}
    rows[("beam-search-optimisation", BEAM)] = 2
    evidence = [as_the_thesis_says(ENCODERS, rows)]
    findings = table_5_3.STUDY.conclude(evidence).findings
    verdicts = {finding.sentence.split(":")[0] + finding.sentence[-20:]: finding.verdict for finding in findings[-4:]}
    assert list(verdicts.values()) == [Verdict.HOLDS, Verdict.DOES_NOT_HOLD, Verdict.HOLDS, Verdict.HOLDS]


def test_findings_of_table_4_1_need_the_controls():
    trainings = {**STARTS, **LATER}
    for label in ("hinge, alpha annealed", "hinge, alpha 1", "direct loss, alpha 1", DIRECT):
        trainings |= {(label, BEAM): 3 if label == DIRECT else 2, (label, SOFT): 3 if label == DIRECT else 2}
    evidence = as_the_thesis_says([""], trainings)
    told = {finding.sentence: finding.verdict for finding in table_4_1.STUDY.conclude([evidence]).findings}
    assert told["Annealed direct loss is above cross-entropy continued, as much time."] == Verdict.HOLDS
    assert told["Annealing alpha is better than a constant one, for the hinge."] == Verdict.NOT_DECIDED
    evidence[Row("", TIME, BEAM)] = seen(4)
    told = {finding.sentence: finding.verdict for finding in table_4_1.STUDY.conclude([evidence]).findings}
    assert told["Annealed direct loss is above cross-entropy continued, as much time."] == Verdict.DOES_NOT_HOLD
    assert told["Annealed direct loss is above cross-entropy continued, as many updates."] == Verdict.HOLDS


def test_findings_of_translations():
    rows = STARTS | LATER | {(GLOBAL, BEAM): 4, (GLOBAL, SOFT): 4}
    evidence = [as_the_thesis_says(("cross-entropy", "self-normalised"), rows)]
    told = {finding.sentence: finding.verdict for finding in table_5_4.STUDY.conclude(evidence).findings}
    assert told["From a self-normalised start, global search-aware training is above local."] == Verdict.HOLDS
    assert (
        told["From cross-entropy, global search-aware training is below local: its start is improper."]
        == Verdict.DOES_NOT_HOLD
    )
    parts = table_5_5.STUDY.conclude(evidence)
    first = dict(zip(parts.tables[0].columns, parts.tables[0].rows[0], strict=True))
    assert first["1-gram precision"] == pytest.approx(30)
    assert first["length ratio"] == pytest.approx(1)
    assert [finding.verdict for finding in parts.findings[1:3]] == [Verdict.HOLDS] * 2
    assert [finding.verdict for finding in parts.findings[3:]] == [Verdict.DOES_NOT_HOLD] * 2
    by_length = table_5_6.STUDY.conclude([table_5_6.Measured(evidence[0], (3, 6, 9))])
    assert by_length.findings[1].verdict == Verdict.HOLDS


@pytest.fixture(scope="module")
def toys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("toys")
    return {kind: toy_recipe(kind, folder) for kind in ("tagging", "ner", "translation")}


def carried_out(name, toys):
    study = load_study(name)
    recipe = toys[TOYS[name]]
    settings = {key: SETTINGS[key] for key in study.sizes["cpu"].settings}
    toy = dataclasses.replace(study, sizes={"cpu": Size(str(recipe), settings)})
    return reproduce(name, toy, runs=recipe.parent / "runs", progress=False)


@pytest.mark.parametrize("name", TOYS)
def test_a_study_end_to_end(name, toys, tmp_path, monkeypatch):
    result = carried_out(name, toys)
    files = write_study(result, tmp_path / "first", "the command")
    page = files.page.read_text()
    assert page.startswith(f"# {result.title}\n")
    for finding in result.conclusion.findings:
        assert f"- **{finding.verdict}**: {finding.sentence}" in page
    assert files.picture.read_bytes().startswith(b"\x89PNG")

    def refuse(*arguments, **settings):
        raise AssertionError("made again")

    monkeypatch.setattr("lexergy.tasks.search_aware.laboratory.train_into", refuse)
    monkeypatch.setattr("lexergy.tasks.search_aware.arms.write_decodings", refuse)
    write_study(carried_out(name, toys), tmp_path / "second", "the command")
    assert (tmp_path / "second" / files.page.name).read_text() == page


def test_label_bias_is_exact(tmp_path):
    result = reproduce("figure-5.1", load_study("figure-5.1"), runs=tmp_path, progress=False)
    assert {finding.verdict for finding in result.conclusion.findings} == {Verdict.HOLDS}
