import random

import pytest

from lexergy.data.corpora import Document
from lexergy.data.splits import split_documents
from lexergy.errors import LexergyError


def corpus(num_groups, per_group=2):
    return [
        Document(id=f"{group:03d}-{part}", text=f"text {group} {part}", group=str(group))
        for group in range(num_groups)
        for part in range(per_group)
    ]


def parts(splits):
    return [splits.train, splits.validation, splits.test]


def test_groups_stay_together_and_every_document_is_somewhere():
    documents = corpus(40)
    splits = parts(split_documents(documents, validation=0.1, test=0.2))
    assert [len({document.group for document in part}) for part in splits] == [28, 4, 8]
    assert sorted((d for part in splits for d in part), key=lambda d: d.id) == documents
    assert sum(len({document.group for document in part}) for part in splits) == 40


def test_the_split_depends_on_the_seed_and_not_on_the_order():
    documents = corpus(40)
    shuffled = random.Random(1).sample(documents, len(documents))
    assert split_documents(shuffled) == split_documents(documents)
    assert split_documents(documents, seed=1).test != split_documents(documents, seed=0).test
    # Recorded: a change here would silently mix the test sets of old runs into the training of new ones.
    assert {d.group for d in split_documents(documents).test} == {"15", "20", "25", "36"}


def test_a_text_is_in_one_split_only_whatever_the_order():
    documents = corpus(40)
    twins = [Document(f"twin-{d.id}", d.text, group=f"twin {d.group}") for d in documents]
    splits = parts(split_documents([*twins, *documents]))
    assert sorted(d.id for part in splits for d in part) == [d.id for d in documents]


def test_small_corpora_still_fill_each_split_or_say_why_not():
    assert [len(part) for part in parts(split_documents(corpus(3, per_group=1)))] == [1, 1, 1]
    with pytest.raises(LexergyError, match="2 groups of documents; expected at least 3"):
        split_documents(corpus(2))


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ({"validation": 0.0}, "`validation` is 0.0; expected a share"),
        ({"test": 1.5}, "`test` is 1.5; expected a share"),
        ({"validation": 0.5, "test": 0.5}, "is 1.0; expected less than 1"),
    ],
)
def test_impossible_shares_are_refused(shares, message):
    with pytest.raises(LexergyError, match=message):
        split_documents(corpus(10), **shares)


def test_ids_must_differ():
    with pytest.raises(LexergyError, match="20 documents have only 10 different ids"):
        split_documents(corpus(10, per_group=1) * 2)
