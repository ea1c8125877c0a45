"""Pairs of texts where an LM goes on from people's first tokens."""

import pytest

from lexergy.data.corpora import load_corpus
from lexergy.runs.workspace import open_workspace
from lexergy.tasks.detection import generation
from lexergy.tasks.detection.generation import GeneratedPairs, read_pairs
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
    pairs = GeneratedPairs((str(corpus),), str(word_lm_folder), 8, prompt_tokens=8, new_tokens=12)
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
    pairs = GeneratedPairs((str(corpus),), str(word_lm_folder), 8, prompt_tokens=8, new_tokens=12)
    monkeypatch.setattr(generation, "PAIRS_PER_SHARD", 3)
    killed = killed_once(GeneratedPairs._written, 2)
    monkeypatch.setattr(GeneratedPairs, "_written", killed)
    with pytest.raises(KeyboardInterrupt):
        written_pairs(pairs, tmp_path / "killed")
    resumed = written_pairs(pairs, tmp_path / "killed")
    assert [ids for _, _, _, ids, _ in killed.calls] == [range(3), range(3, 6), range(3, 6), range(6, 8)]
    assert written_pairs(pairs, tmp_path / "whole") == resumed
