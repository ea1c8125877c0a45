"""Pairs of texts where an LM goes on from people's first tokens."""

import shutil
from collections import Counter
from dataclasses import replace

import pytest

from lexergy.core.decoding import Decoding
from lexergy.data.corpora import load_corpus
from lexergy.errors import LexergyError
from lexergy.runs.workspace import open_workspace
from lexergy.tasks.detection import generation
from lexergy.tasks.detection.generation import MIXTURE, GeneratedPairs, in_equal_shares, read_pairs
from toys.kills import killed_once
from toys.texts import PEOPLE, written


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    for number in range(6):
        (folder / f"{number}.txt").write_text(written(PEOPLE, number))
    return folder


def written_pairs(pairs, folder, seed=3):
    with open_workspace(folder, seed, progress=False) as workspace:
        return read_pairs(pairs.stage(workspace))


def test_pairs_share_their_first_tokens_and_their_length(corpus, word_lm, word_lm_folder, tmp_path, monkeypatch):
    pairs = GeneratedPairs((str(corpus),), (str(word_lm_folder),), 8, prompt_tokens=8, new_tokens=12)
    examples = written_pairs(pairs, tmp_path / "whole")
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
    monkeypatch.setattr(generation, "PAIRS_PER_SHARD", 3)  # shards change speed, never results
    assert written_pairs(pairs, tmp_path / "shards") == examples
    assert written_pairs(pairs, tmp_path / "other", seed=4) != examples


def test_killed_texts_go_on(corpus, word_lm_folder, tmp_path, monkeypatch):
    pairs = GeneratedPairs((str(corpus),), (str(word_lm_folder),), 8, prompt_tokens=8, new_tokens=12)
    monkeypatch.setattr(generation, "PAIRS_PER_SHARD", 3)
    killed = killed_once(GeneratedPairs._written, 2)
    monkeypatch.setattr(GeneratedPairs, "_written", killed)
    with pytest.raises(KeyboardInterrupt):
        written_pairs(pairs, tmp_path / "killed")
    resumed = written_pairs(pairs, tmp_path / "killed")
    assert [rows for *_, rows, _ in killed.calls] == [range(3), range(3, 6), range(3, 6), range(6, 8)]
    assert written_pairs(pairs, tmp_path / "whole") == resumed


def test_generators_and_decodings_have_equal_shares(corpus, word_lm_folder, tmp_path, monkeypatch):
    """Two generators of eight texts each, in four decodings; shards and a kill change nothing."""
    second = tmp_path / "second"
    shutil.copytree(word_lm_folder, second)
    generators = (str(word_lm_folder), str(second))
    pairs = GeneratedPairs((str(corpus),), generators, 16, prompt_tokens=8, new_tokens=12)
    examples = written_pairs(pairs, tmp_path / "whole")
    shares = Counter(example.source for example in examples if example.is_machine)
    names = ("untruncated", "temperature 0.7", "top-p 0.9", "top-k 40")
    assert shares == {f"{generator}, {name}": 2 for generator in generators for name in names}
    monkeypatch.setattr(generation, "PAIRS_PER_SHARD", 3)
    monkeypatch.setattr(GeneratedPairs, "_written", killed_once(GeneratedPairs._written, 5))
    with pytest.raises(KeyboardInterrupt):
        written_pairs(pairs, tmp_path / "killed")
    assert written_pairs(pairs, tmp_path / "killed") == examples


def test_each_text_is_decoded_as_it_says(corpus, word_lm_folder, tmp_path):
    """Top-1 writes what any seed writes, and the text of a decoding is the same in a mixture and alone."""
    greedy = Decoding(top_k=1)
    pairs = GeneratedPairs(
        (str(corpus),), (str(word_lm_folder),), 8, prompt_tokens=8, new_tokens=12, decodings=(Decoding(), greedy)
    )
    machine = [example for example in written_pairs(pairs, tmp_path / "mixture") if example.is_machine]
    alone = [
        example.text
        for example in written_pairs(replace(pairs, decodings=(greedy,)), tmp_path / "alone")
        if example.is_machine
    ]
    same = [example.text == text for example, text in zip(machine, alone, strict=True)]
    assert same == [example.source.endswith("top-k 1") for example in machine]
    assert sum(same) == 4


def test_shares_differ_by_one_at_most_and_follow_no_pattern():
    decodings = in_equal_shares(MIXTURE, 102, seed=0)
    assert sorted(Counter(decodings).values()) == [25, 25, 26, 26]
    assert decodings == in_equal_shares(MIXTURE, 102, seed=0)
    assert decodings != in_equal_shares(MIXTURE, 102, seed=1)
    assert any(len(set(decodings[start : start + 4])) < 4 for start in range(0, 100, 4))


def test_an_assistant_is_asked_to_go_on(corpus, word_lm, word_lm_folder, tmp_path, monkeypatch):
    """The request stands before what it writes and not in the text; the beginning is people's."""
    pairs = GeneratedPairs((str(corpus),), (str(word_lm_folder),), 6, prompt_tokens=8, new_tokens=12, chat=True)
    with pytest.raises(LexergyError, match="has no chat template"):
        written_pairs(pairs, tmp_path / "none")
    monkeypatch.setattr(generation, "REQUEST", "{beginning}")  # a toy reads few tokens
    folder = tmp_path / "assistant"
    shutil.copytree(word_lm_folder, folder)
    (folder / "chat_template.jinja").write_text("{{ messages[0].content }} most")
    pairs = replace(pairs, generators=(str(folder),))
    examples = written_pairs(pairs, tmp_path / "whole")
    for own, generated in zip(examples[::2], examples[1::2], strict=True):
        prompt = word_lm.decode(word_lm.encode(own.text)[:8])[0]
        assert generated.text.startswith(prompt)
    alone = written_pairs(replace(pairs, chat=False), tmp_path / "alone")
    assert [own.text for own in alone[::2]] == [own.text for own in examples[::2]]
    assert [own.text for own in alone[1::2]] != [own.text for own in examples[1::2]]
    monkeypatch.setattr(generation, "PAIRS_PER_SHARD", 4)  # shards change speed, never results
    assert written_pairs(pairs, tmp_path / "shards") == examples
