"""Labels composed of dependencies."""

from lexergy.data.tagging.sentences import TaggedSentence
from lexergy.data.tagging.splits import load_tagged_splits
from lexergy.data.tagging.universal_dependencies import composed_labels, parse_composed
from lexergy.data.texts import Unreadable


def row(number, form, tag, head, relation):
    return f"{number}\t{form}\t_\t{tag}\t_\t_\t{head}\t{relation}\t_\t_\n"


GAVE = "".join(
    [
        "# text = She gave him books.\n",
        row(1, "She", "PRON", 2, "nsubj"),
        row(2, "gave", "VERB", 0, "root"),
        row("3-4", "him books", "_", "_", "_"),
        row(3, "him", "PRON", 2, "iobj"),
        row(4, "books", "NOUN", 2, "obj"),
        row("4.1", "now", "ADV", "_", "_"),
        row(5, ".", "PUNCT", 2, "punct"),
    ]
)
LABELS = ("PRON|nsubj>", "VERB|root\\nsubj/iobj/obj", "PRON|iobj<", "NOUN|obj<", "PUNCT|punct<")


def test_a_label_says_what_a_word_takes_and_what_it_is_taken_for():
    assert list(parse_composed(GAVE, "f")) == [TaggedSentence("f:2", ("She", "gave", "him", "books", "."), LABELS)]


def test_subtypes_stay_in_a_word_s_own_relation_only():
    # "That he slept was known": a clause as passive subject, which has a subject itself.
    labels = composed_labels(
        ["SCONJ", "PRON", "VERB", "AUX", "VERB"],
        [3, 3, 5, 5, 0],
        ["mark", "nsubj", "csubj:pass", "aux:pass", "root"],
    )
    assert labels == ("SCONJ|mark>", "PRON|nsubj>", "VERB|csubj:pass>\\nsubj", "AUX|aux:pass>", "VERB|root\\csubj")


def test_what_is_no_tree_is_named():
    bad_head = row(1, "a", "X", 2, "dep")
    ragged = "1\ta\tX\n"
    parsed = list(parse_composed("\n".join([bad_head, "# only a comment\n", ragged, GAVE]), "f"))
    assert parsed[:3] == [
        Unreadable("f:1", "The heads are 2; expected numbers from 0 to 1."),
        Unreadable("f:3", "The sentence has no words."),
        Unreadable("f:5", "It has 3 columns; expected CoNLL-U's 10, separated by tabs."),
    ]
    assert parsed[3].labels == LABELS
    (far,) = parse_composed(row(1, "a", "X", "9" * 5000, "dep"), "f")  # more digits than Python reads as a number
    assert isinstance(far, Unreadable)


def test_english_ewt_by_name(tmp_path, monkeypatch):
    (tmp_path / "ud_ewt").mkdir()
    for part in ("train", "dev", "test"):
        (tmp_path / "ud_ewt" / f"en_ewt-{part}.conllu").write_text(GAVE)
    monkeypatch.setenv("LEXERGY_DATA", str(tmp_path))
    assert [part.sentences[0].labels for part in load_tagged_splits("ud-ewt")] == [LABELS] * 3
