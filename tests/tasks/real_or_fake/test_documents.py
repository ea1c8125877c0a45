"""Documents are written half a window at a time and judged by the mean over their blocks."""

import numpy as np
import pytest
import torch

from lexergy.models.energies import EnergyModel
from lexergy.tasks.real_or_fake.documents import (
    DocumentSet,
    bag_of_words_scores,
    block_energy_stage,
    blocks,
    document_scores,
    documents_stage,
    read_documents,
    write_documents,
)

WANTED = DocumentSet("sotu", "transf-big", top_k=10, length=40, train=6, validation=3, test=3)


def test_blocks_intersect():
    cut = blocks(torch.arange(12).view(1, 12), 4)
    assert cut.tolist() == [[[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 6, 7], [6, 7, 8, 9], [8, 9, 10, 11]]]


def test_people_and_machine_begin_at_the_beginning_of_a_document(toy_laboratory):
    """Nothing is told by where a text begins: had the machine the corpus by heart, its documents would be people's."""
    lm = toy_laboratory.generators.load("transf-big", "sotu", "prefix", "train")
    for split in ("train", "validation", "test"):
        stage = documents_stage(toy_laboratory, WANTED, split)
        documents = read_documents(stage)
        context = toy_laboratory.corpora.context("sotu")
        originals = getattr(context.splits, split)
        whole = dict(zip([original.id for original in originals], context.encode(originals), strict=True))
        assert torch.equal(documents.people, torch.stack([whole[source][:40] for source in documents.sources]))
        assert documents.machine.shape == documents.people.shape
        assert len(set(documents.sources)) == len(documents.sources) > 1
        after_end_of_text = write_documents(lm, len(documents.sources), 40, window=16, top_k=10, seed=stage.seed)
        assert torch.equal(documents.machine, after_end_of_text)


def test_documents_go_on_from_their_last_half_window(toy_laboratory):
    lm = toy_laboratory.generators.load("transf-big", "sotu", "prefix", "train")
    whole = write_documents(lm, 3, 40, window=16, top_k=10, seed=5)
    assert whole.shape == (3, 40)
    shorter = write_documents(lm, 3, 24, window=16, top_k=10, seed=5)
    assert torch.equal(whole[:, :24], shorter)
    assert not torch.equal(whole[:, 16:24], whole[:, 24:32])  # other random numbers for each piece
    one = write_documents(lm, 1, 40, window=16, top_k=10, seed=5)
    assert torch.equal(whole[:1], one)


def test_a_document_has_the_mean_energy_of_its_blocks(toy_laboratory):
    scores = document_scores(toy_laboratory, "linear", [WANTED], WANTED)
    documents = read_documents(documents_stage(toy_laboratory, WANTED, "test"))
    energy = EnergyModel.from_pretrained(block_energy_stage(toy_laboratory, "linear", [WANTED]).folder)
    with torch.no_grad():
        alone = [
            float(energy.score(block[:, :0], block[:, None]).mean())
            for block in blocks(documents.machine, toy_laboratory.recipe.windows.length)
        ]
    assert scores.energies[:, 1] == pytest.approx(np.array(alone), abs=1e-5)
    assert scores.documents == tuple(documents.sources)


def test_bag_of_words_tells_two_vocabularies_apart(toy_laboratory, monkeypatch):
    scores = bag_of_words_scores(toy_laboratory, WANTED)
    assert scores.energies.shape == (3, 2)
    # The toy generator, hardly trained, writes no words that people do.
    assert scores.accuracies.mean() > 0.8
