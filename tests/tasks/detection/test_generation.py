"""Pairs of texts where an LM goes on from people's first tokens."""

import pytest

from lexergy.data.corpora import load_corpus
from lexergy.tasks.detection.generation import generated_pairs
from toys.texts import PEOPLE, written


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    for number in range(6):
        (folder / f"{number}.txt").write_text(written(PEOPLE, number))
    return folder


def test_pairs_share_their_first_tokens_and_their_length(corpus, word_lm, word_lm_folder):
    settings = {"pairs": 8, "seed": 3, "prompt_tokens": 8, "new_tokens": 12, "progress": False}
    examples = generated_pairs([str(corpus)], str(word_lm_folder), **settings)
    people, machine = examples[::2], examples[1::2]
    assert [example.is_machine for example in examples] == [False, True] * 8
    stored = " ".join(document.text for document in load_corpus(corpus))
    for own, generated in zip(people, machine, strict=True):
        assert own.group == generated.group
        assert own.text in stored
        prompt = word_lm.decode(word_lm.encode(own.text)[:8])[0]
        assert generated.text.startswith(prompt)
        assert own.text != generated.text
        assert "<|endoftext|>" not in generated.text
    assert len({own.group for own in people}) > 3
    assert examples == generated_pairs([str(corpus)], str(word_lm_folder), **settings)
