"""`lexergy seq2seq`, end to end on a tiny file."""

import json
import re

import pytest

from lexergy.cli.main import run_command
from toys.commands import json_of, mistake_of, output_of
from toys.seq2seq import toy_tagged

RECIPE = """
name: tiny-tagging
data: {kind: tagging, source: nowhere}
model: {features: {word: 8, suffix: 4}, symbol_size: 4, encoder_size: 16, decoder_size: 16, minimum: 1}
objectives:
  cross-entropy: {kind: cross-entropy, learning: {epochs: 6, learning_rate: 0.02, batch_size: 16}}
  soft-beam:
    {kind: soft-beam, start: cross-entropy, beam: 2, candidates: 4, learning: {epochs: 1, learning_rate: 0.001}}
evaluation: {beams: [1, 3], validation_sentences: 20}
"""


def write_conll(path, count, seed, extra=""):
    sentences, labels = toy_tagged(count, seed)
    blocks = [
        "".join(f"{word}\t{label}\n" for word, label in zip(words, tags, strict=True))
        for words, tags in zip(sentences, labels, strict=True)
    ]
    path.write_text("\n".join([*blocks, extra]))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("seq2seq")
    (folder / "recipe.yaml").write_text(RECIPE)
    write_conll(folder / "train.conll", 150, 0, "ragged\n")
    write_conll(folder / "test.conll", 30, 1, "red\tA\ndog\tZ\n")
    return folder


def training(folder, out, *options):
    command = ["seq2seq", "train", str(folder / "train.conll"), "--recipe", str(folder / "recipe.yaml")]
    return [*command, "--out", str(out), *options]


@pytest.fixture
def no_page(monkeypatch):
    """Pictures take seconds, and one test looks at them."""
    monkeypatch.setattr(
        "lexergy.report.pages.search_aware.write_sequence_report", lambda folder: folder / "report.html"
    )


@pytest.fixture(scope="module")
def tagger(folder):
    assert run_command(training(folder, folder / "run")) == 0
    return folder / "run"


def test_training_splits_off_what_is_not_given_and_names_bad_sentences(tagger, folder, capsys):
    printed = output_of([*training(folder, tagger), "--json"], capsys)
    assert "train.conll:" in printed.err
    assert "1 columns; expected 2" in printed.err
    report = json.loads(printed.out)
    assert report["by_beam"]["test"].keys() == {"1", "3"}
    assert report["by_beam"]["validation"]["1"] > 75
    assert sum(report["examples"].values()) > 100
    page = (tagger / "report.html").read_text()
    assert "Gold prefixes that fall off the beam" in page
    assert "nan" not in page.lower().replace("finance", "")


def test_predictions_in_columns_and_as_json(tagger, tmp_path, capsys):
    path = tmp_path / "new.conll"
    path.write_text("red\nunseen\ndog\n\n\n\ncat\n")
    printed = output_of(["seq2seq", "predict", tagger, path, "--beam", "500"], capsys).out
    assert [line.split("\t")[0] for line in printed.splitlines()] == ["red", "unseen", "dog", "", "cat", ""]
    records = json_of(["seq2seq", "predict", tagger, path], capsys)
    assert [len(record["outputs"]) for record in records] == [3, 1]
    assert records[1]["place"] == f"{path}:7"


def test_evaluation_counts_unknown_labels_as_wrong_and_names_them(tagger, folder, capsys):
    path = folder / "test.conll"
    printed = output_of(["seq2seq", "evaluate", tagger, path, "--beam", "2"], capsys)
    assert "labels that training never met count as wrong" in printed.err
    assert re.search(r":\d+: 'Z' of '\w+'", printed.err)
    result = json_of(["seq2seq", "evaluate", tagger, path, "--beam", "1", "--beam", "2"], capsys)
    first = result["judgements"][0]
    assert first["value"] == pytest.approx(100 * first["details"]["correct"] / first["details"]["total"])
    assert result["sentences"] == 31


def test_a_model_s_own_folder_can_be_asked_and_started_from(tagger, folder, tmp_path, capsys, no_page):
    own = tagger / "cross-entropy"
    assert json_of(["seq2seq", "evaluate", own, folder / "test.conll"], capsys)["judgements"]
    report = json_of(training(folder, tmp_path / "more", "--start", tagger, "--epochs", "1", "--beam", "2"), capsys)
    start = report["histories"]["cross-entropy"][0]["validation"]
    assert start["accuracy"] > 0.75  # before its first step
    assert report["beam"] == 2


@pytest.mark.parametrize("model", [{}, "../elsewhere"])
def test_a_damaged_report_is_named(tagger, tmp_path, capsys, model):
    report = json.loads((tagger / "report.json").read_text())
    (tmp_path / "report.json").write_text(json.dumps(report | {"model": model}))
    text = tmp_path / "text.txt"
    text.write_text("red dog\n")
    assert str(tmp_path) in mistake_of(["seq2seq", "predict", str(tmp_path), str(text)], capsys)


def test_a_search_aware_objective_starts_from_cross_entropy_and_redoes_nothing(tagger, folder, capsys):
    manifest = (tagger / "cross-entropy" / "stage.json").read_text()
    report = json_of(training(folder, tagger, "--objective", "soft-beam", "--beam", "3"), capsys)
    assert (tagger / "cross-entropy" / "stage.json").read_text() == manifest
    start, last = (report["histories"][name][-1]["validation"] for name in ("cross-entropy", "soft-beam"))
    assert report["histories"]["soft-beam"][0]["validation"]["cross_entropy"] < start["cross_entropy"] + 0.5
    assert last["alpha"] == pytest.approx(10.0)
    assert report["beam"] == 3
    page = (tagger / "report.html").read_text()
    assert "Training by soft-beam" in page
    assert "how peaked the relaxation is" in page
    soft = ["seq2seq", "evaluate", tagger, folder / "test.conll", "--beam", "2", "--alpha", "5"]
    assert json_of(soft, capsys)["judgements"][0]["search"]["alpha"] == 5.0


def test_entities_are_judged_by_f1(folder, tmp_path, capsys, no_page):
    path = tmp_path / "entities.tsv"
    lines = ["Ann likes Bonn\tB-PER O B-LOC", "Bonn is old\tB-LOC O O", "old Ann sleeps\tO B-PER O"]
    path.write_text(
        "\n".join(
            f"{line.split(chr(9))[0]} {number}\t{line.split(chr(9))[1]} O" for number in range(8) for line in lines
        )
    )
    command = ["seq2seq", "train", path, "--recipe", folder / "recipe.yaml", "--out", tmp_path / "ner", "--epochs", "1"]
    assert json_of(command, capsys)["metric"] == "f1"


def test_iob1_is_turned_into_iob2_when_asked(folder, tmp_path, capsys, no_page):
    path = tmp_path / "iob1.conll"
    path.write_text("".join(f"Ann{number} I-PER\nsleeps O\n\n" for number in range(30)))
    command = ["seq2seq", "train", path, "--recipe", folder / "recipe.yaml", "--scheme", "iob2", "--epochs", "0.1"]
    printed = output_of([*command, "--out", tmp_path / "run"], capsys).err
    assert f"{path}: 30 labels turned from I- to B- (IOB1 to IOB2)" in printed
    outputs = json.loads((tmp_path / "run" / "data" / "vocabulary.json").read_text())["outputs"]
    assert set(outputs) == {"B-PER", "O"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--objective", "magic"], "`--objective` is magic; expected one of cross-entropy"),
        (["--beam", "0"], "expected at least 1"),
        (["--label-column", "7"], "label column"),
    ],
)
def test_mistakes_are_told_in_a_line(folder, tmp_path, capsys, options, message):
    assert message in mistake_of(training(folder, tmp_path / "out", *options), capsys)


def test_a_translator_from_pairs_to_predictions(tmp_path, capsys, no_page):
    recipe = RECIPE.replace("tagging, source: nowhere", "translation, source: nowhere, validation: 0.1, test: 0.1")
    (tmp_path / "recipe.yaml").write_text(recipe)
    words = {"rot": "red", "blau": "blue", "hund": "dog", "katze": "cat"}
    pairs = [f"{a} {b} {c}\t{words[a]} {words[b]} {words[c]}" for a in words for b in words for c in words]
    (tmp_path / "pairs.tsv").write_text("\n".join(pairs))
    (tmp_path / "german.txt").write_text("Rot Hund\n\nKatze!\n")
    command = ["seq2seq", "train", tmp_path / "pairs.tsv", "--recipe", tmp_path / "recipe.yaml", "--epochs", "2"]
    assert json_of([*command, "--out", tmp_path / "run"], capsys)["metric"] == "bleu"
    printed = output_of(["seq2seq", "predict", tmp_path / "run", tmp_path / "german.txt", "--beam", "2"], capsys).out
    assert len(printed.splitlines()) == 2
    result = json_of(["seq2seq", "evaluate", tmp_path / "run", tmp_path / "pairs.tsv", "--beam", "1"], capsys)
    assert len(result["judgements"][0]["details"]["precisions"]) == 4
