"""Tagged sentences in columns or lines: what is read, and what is named as unreadable."""

import pytest

from lexergy.data.tagging.ccgbank import parse_derivations, parse_supertagged
from lexergy.data.tagging.sentences import TaggedSentence, parse_conll, parse_lines, to_iob2
from lexergy.data.texts import Unreadable
from lexergy.errors import LexergyError

ENGLISH = """-DOCSTART- -X- -X- O

EU NNP B-NP B-ORG
rejects VBZ B-VP O

# NN B-NP O
1 CD I-NP O
-DOCSTART- -X- -X- O
Bonn NNP B-NP B-LOC
"""
CONLLU = """# sent_id = 1
# text = Don't   go
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\tdo\tAUX\tVB\t_\t3\taux\t_\t_
2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t_\t_
3\tgo\tgo\tVERB\tVB\t_\t0\troot\t_\t_
3.1\tthere\t_\tADV\t_\t_\t_\t_\t_\t_

# sent_id = 2
1-2\tempty\t_\t_\t_\t_\t_\t_\t_\t_

1\tYes\tyes\tINTJ\tUH\t_\t0\troot\t_\t_
"""


def sentences_of(parsed):
    return [(entry.place, " ".join(entry.words), " ".join(entry.labels)) for entry in parsed]


def test_columns_of_conll_2003():
    assert sentences_of(parse_conll(ENGLISH, "eng")) == [
        ("eng:3", "EU rejects", "B-ORG O"),
        ("eng:6", "# 1", "O O"),
        ("eng:9", "Bonn", "B-LOC"),
    ]
    chunks = parse_conll(ENGLISH, "eng", label_column=2)
    assert [entry.labels for entry in chunks] == [("B-NP", "B-VP"), ("B-NP", "I-NP"), ("B-NP",)]
    assert [entry.labels for entry in parse_conll(ENGLISH, "eng", labelled=False)] == [None] * 3


def test_conllu_is_told_by_its_columns():
    whole, empty, last = parse_conll(CONLLU, "ud")
    assert whole == TaggedSentence("ud:4", ("Do", "n't", "go"), ("AUX", "PART", "VERB"))
    assert empty == Unreadable("ud:9", "The sentence has no words.")
    assert last.words == ("Yes",)
    relations = parse_conll(CONLLU, "ud", label_column=7)
    assert next(relations).labels == ("aux", "advmod", "root")


def test_comments_have_another_number_of_columns_and_hashtags_have_not():
    text = "# a comment\n#hashtag\tO\nRome\tB-LOC\n"
    assert sentences_of(parse_conll(text, "f")) == [("f:2", "#hashtag Rome", "O B-LOC")]


def test_blanks_may_stand_in_words_between_tabs():
    assert next(parse_conll("10 000\tNUM\neuros\tNOUN\n", "f")).words == ("10 000", "euros")


def test_a_ragged_sentence_is_named_and_the_others_are_read():
    text = "a X\nb Y\n\nc X extra\nd Y\n\ne\n\nf X\n"
    parsed = list(parse_conll(text, "f"))
    assert [entry.words for entry in parsed if isinstance(entry, TaggedSentence)] == [("a", "b"), ("f",)]
    assert [entry for entry in parsed if isinstance(entry, Unreadable)] == [
        Unreadable("f:4", "It has 3 columns; expected 2, as most lines have."),
        Unreadable("f:7", "It has 1 columns; expected 2, as most lines have."),
    ]


def test_an_empty_cell_is_named():
    assert list(parse_conll("a\tX\nb\tY\n\nc\t\n", "f"))[1] == Unreadable("f:4", "The word or its label is empty.")


@pytest.mark.parametrize(
    ("columns", "message"),
    [({"label_column": 4}, "label column of `f` is 4; expected 0 to 1"), ({"word_column": -1}, "column 1 of 2")],
)
def test_columns_that_are_not_there(columns, message):
    with pytest.raises(LexergyError, match=message):
        list(parse_conll("a X\nb Y\n", "f", **columns))


def test_a_file_without_labels_can_be_read_for_its_words_only():
    with pytest.raises(LexergyError, match="does the file lack labels"):
        list(parse_conll("a\nb\n\nc\n", "f"))
    assert [entry.words for entry in parse_conll("a\nb\n\nc\n", "f", labelled=False)] == [("a", "b"), ("c",)]


def test_a_sentence_per_line():
    text = "the cat\tDET NOUN\n\n\tX\na b c\tX Y\nno labels\nit\tPRON\n"
    parsed = list(parse_lines(text, "f"))
    assert parsed == [
        TaggedSentence("f:1", ("the", "cat"), ("DET", "NOUN")),
        Unreadable("f:3", "The sentence has no words."),
        Unreadable("f:4", "It has 3 words and 2 labels; expected as many of both."),
        Unreadable("f:5", "It has 1 columns; expected words, a tab and their labels."),
        TaggedSentence("f:6", ("it",), ("PRON",)),
    ]
    assert len([entry for entry in parse_lines(text, "f", labelled=False) if isinstance(entry, TaggedSentence)]) == 4


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("I-PER I-PER O I-LOC", "B-PER I-PER O B-LOC"),
        ("I-PER B-PER I-PER", "B-PER B-PER I-PER"),
        ("I-PER I-LOC I-LOC", "B-PER B-LOC I-LOC"),
        ("O I-ORG O I-ORG", "O B-ORG O B-ORG"),
        ("B-PER I-PER B-PER O B-LOC", "B-PER I-PER B-PER O B-LOC"),
    ],
)
def test_iob1_becomes_iob2(before, after):
    assert to_iob2(before.split()) == tuple(after.split())
    assert to_iob2(after.split()) == tuple(after.split())


DERIVATIONS = """ID=wsj_0001.1 PARSER=GOLD NUMPARSE=1
(<T S[dcl] 0 2> (<T NP 0 1> (<L N NNP NNP Vinken N>) ) (<L S[dcl]\\NP VBZ VBZ sleeps S[dcl]\\NP_1>) )
ID=wsj_0001.2 PARSER=GOLD NUMPARSE=1
(<T S[dcl] 0 2> (<L N NNP Vinken>) )
"""


def test_leaves_of_ccgbank_s_derivations():
    good, bad = parse_derivations(DERIVATIONS, "wsj")
    assert good == TaggedSentence("wsj:2", ("Vinken", "sleeps"), ("N", "S[dcl]\\NP"))
    assert bad.place == "wsj:4"
    assert "no derivation" in bad.reason


def test_supertagged_text():
    text = "# made by a tagger\n\nVinken|NNP|N sleeps|VBZ|S[dcl]\\NP ||.|.\n#|#|N no|category\n"
    good, bad = parse_supertagged(text, "f")
    assert good == TaggedSentence("f:3", ("Vinken", "sleeps", "|"), ("N", "S[dcl]\\NP", "."))
    assert bad == Unreadable("f:4", "`no|category` is none of `word|POS|category`.")
