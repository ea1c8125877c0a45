"""Files of tagged sentences and their three parts."""

import gzip

import pytest

from lexergy.data.tagging.files import Layout, load_tagged
from lexergy.data.tagging.splits import LabelUse, label_use, load_tagged_splits
from lexergy.errors import LexergyError

GERMAN = "-DOCSTART- -X- -X- -X- O\n\nKöln Köln NE I-NC I-LOC\nist sein VAFIN I-VC O\n\nBonn Bonn NE I-NC I-LOC\n"


def words_of(file):
    return [" ".join(sentence.words) for sentence in file.sentences]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.txt", "the DET\ncat NOUN\n\nit PRON\n", ["the cat", "it"]),
        ("a.tsv", "the\tDET\ncat\tNOUN\n", ["the cat"]),
        ("a.tsv", "the cat\tDET NOUN\nit\tPRON\nhe slept\tPRON VERB\n", ["the cat", "it", "he slept"]),
        ("a.auto", "ID=1\n(<L N NN NN cat N>)\n", ["cat"]),
        ("a.stagged.gz", "cat|NN|N\n", ["cat"]),
    ],
)
def test_the_format_is_seen(name, text, words, tmp_path):
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    assert words_of(load_tagged(path)) == words


def test_words_alone_may_stand_in_lines_or_columns(tmp_path):
    path = tmp_path / "new.txt"
    path.write_text("the cat sat\nit slept now\n")
    assert words_of(load_tagged(path, Layout(labelled=False))) == ["the cat sat", "it slept now"]
    path.write_text("the x\ncat y\n\nit z\n")
    assert words_of(load_tagged(path, Layout(labelled=False))) == ["the cat", "it"]


def test_the_rest_is_read_and_problems_are_counted(tmp_path):
    path = tmp_path / "bad.conll"
    path.write_text("a X\nb Y\n\n" + "c\n\n" * 5 + "".join(f"w{number} X\n\n" for number in range(4)))
    file = load_tagged(path)
    assert len(file.sentences) == 5
    (message,) = file.messages()
    assert message.startswith(f"warning: 5 of 10 sentences left out: {path}:4: It has 1 columns; expected 2")
    assert f"{path}:8: " in message
    assert f"{path}:10: " not in message
    assert message.endswith("And 2 more.")


@pytest.mark.parametrize(
    ("text", "layout", "reason"),
    [
        (
            "a b\tX\nc d\tX\n",
            Layout(format="lines"),
            "holds no sentence that can be read: .*bad:1: It has 2 words and 1",
        ),
        ("\n\n", Layout(), "it is empty"),
        ("a\0b\n", Layout(), "NUL bytes"),
        ("a X\n", Layout(format="xml"), "the format is 'xml'; expected one of: conll, lines"),
    ],
)
def test_nothing_to_read_is_an_error(text, layout, reason, tmp_path):
    path = tmp_path / "bad"
    path.write_text(text)
    with pytest.raises(LexergyError, match=reason):
        load_tagged(path, layout)
    with pytest.raises(LexergyError, match="cannot be read"):
        load_tagged(tmp_path / "missing")


def test_german_of_conll_2003_as_published(tmp_path):
    for name in ("deu.train", "deu.testa", "deu.testb"):
        (tmp_path / name).write_bytes(GERMAN.encode("latin-1"))
    splits = load_tagged_splits(tmp_path, Layout(scheme="iob2"))
    assert [words_of(part) for part in splits] == [["Köln ist", "Bonn"]] * 3
    assert [sentence.labels for sentence in splits.train.sentences] == [("B-LOC", "O"), ("B-LOC",)]
    assert splits.train.messages() == [
        f"{tmp_path}/deu.train: read as Latin-1, since it is no UTF-8",
        f"{tmp_path}/deu.train: 2 labels turned from I- to B- (IOB1 to IOB2)",
    ]
    (tmp_path / "new").write_text("Köln B-LOC\n")
    assert load_tagged(tmp_path / "new", Layout(scheme="iob2")).messages() == []
    lemmas = load_tagged(tmp_path / "deu.train", Layout(word_column=1))
    assert words_of(lemmas) == ["Köln sein", "Bonn"]


def test_a_folder_must_hold_each_part_once(tmp_path):
    (tmp_path / "train.txt").write_text("a X\n")
    (tmp_path / "dev.txt").write_text("a X\n")
    with pytest.raises(LexergyError, match="holds 0 files to be taken for test"):
        load_tagged_splits(tmp_path)


def test_sections_of_ccgbank(tmp_path):
    for section in (0, 1, 2, 21, 22, 23):
        folder = tmp_path / "data" / "AUTO" / f"{section:02d}"
        folder.mkdir(parents=True)
        (folder / f"wsj_{section:02d}01.auto").write_text(f"ID=x\n(<L N NN NN w{section} N>)\n")
    train, validation, test = load_tagged_splits(tmp_path)
    assert [words_of(part) for part in (train, validation, test)] == [["w2", "w21"], ["w0"], ["w23"]]


def numbered(path, count, first=0):
    path.write_text("".join(f"w{number} X\n\nW{number} Y\n\n" for number in range(first, first + count)))
    return path


def test_a_single_file_is_split_and_the_same_words_stay_together(tmp_path):
    path = numbered(tmp_path / "all.conll", 40)
    path.write_text(path.read_text() + "ragged\n")
    splits = load_tagged_splits(path, share=0.2, seed=1)
    assert splits.messages() == [
        f"warning: 1 of 81 sentences left out: {path}:161: It has 1 columns; expected 2, as most lines have."
    ]
    parts = [words_of(part) for part in splits]
    everything = [f"{letter}{number}" for letter in "wW" for number in range(40)]
    assert sorted(word for part in parts for word in part) == sorted(everything)
    assert [len(part) for part in parts] == [48, 16, 16]
    assert all({word.lower() for word in part} == {word for word in part if word.islower()} for part in parts)
    assert load_tagged_splits(path, share=0.2, seed=2).test != splits.test


def test_what_is_given_is_not_taken_from_the_file(tmp_path):
    train, validation = numbered(tmp_path / "all.conll", 40), numbered(tmp_path / "dev.conll", 2, first=100)
    splits = load_tagged_splits(train, validation=validation, share=0.2)
    assert words_of(splits.validation) == ["w100", "W100", "w101", "W101"]
    assert len(splits.train.sentences) + len(splits.test.sentences) == 80
    whole = load_tagged_splits(train, validation=validation, test=validation)
    assert len(whole.train.sentences) == 80


def test_labels_that_training_never_met_are_counted(tmp_path):
    for part, text in (("train", "a X\nb Y\n"), ("dev", "a X\n\nb Z\nc Z\nd W\n"), ("test", "a Y\n")):
        (tmp_path / f"{part}.txt").write_text(text)
    assert label_use(load_tagged_splits(tmp_path)) == {
        "train": LabelUse(1, 2, 2, 0, 0),
        "validation": LabelUse(2, 4, 3, 2, 3),
        "test": LabelUse(1, 1, 1, 0, 0),
    }
