"""Folders of texts: sentences of a small grammar, words in any order."""

import random
from pathlib import Path

import pytest

from toys.texts import UNION_WORDS

SUBJECTS = ("the people", "our union", "this congress", "the army", "a citizen", "the treasury", "every state")
VERBS = ("shall defend", "has paid", "will remember", "cannot forget", "may increase", "does honour")
OBJECTS = ("the public debt", "its duty", "our commerce", "the constitution", "peace abroad", "the harvest")


def write_corpus(folder: Path, documents: int = 20, sentences: int = 25) -> Path:
    """Subject, verb, object."""
    folder.mkdir()
    for number in range(documents):
        words = random.Random(number)
        text = [f"{words.choice(SUBJECTS)} {words.choice(VERBS)} {words.choice(OBJECTS)}." for _ in range(sentences)]
        (folder / f"{number:02d}.txt").write_text(" ".join(text))
    return folder


def write_shuffled_corpus(folder: Path, documents: int, words: int) -> Path:
    """Words of one sentence in any order."""
    folder.mkdir()
    generator = random.Random(0)
    for number in range(documents):
        (folder / f"{number:02d}.txt").write_text(" ".join(generator.choice(UNION_WORDS) for _ in range(words)))
    return folder


@pytest.fixture(scope="session")
def tiny_corpus(tmp_path_factory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus") / "texts")
