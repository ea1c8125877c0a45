"""Samples that share rows as long as they have the same tokens."""

import random

import pytest
import torch

from lexergy.models.causal.branches import Branches

CPU = torch.device("cpu")


class Fed:
    """Rows that remember what each was fed, by the rules of a runtime."""

    def __init__(self, num_prefixes, num_samples):
        self.num_prefixes, self.most = num_prefixes, num_prefixes * num_samples
        self.texts = [(place // num_samples,) for place in range(self.most)]  # each begins with its prefix

    def feed(self, parents, tokens):
        if parents is not None:
            assert len(parents) <= self.most
            width = len(parents) // self.num_prefixes
            texts = [self.texts[parent] for parent in parents.tolist()]
            assert [text[0] for text in texts] == [place // width for place in range(len(texts))]
            self.texts = texts
        assert len(tokens) == len(self.texts)
        self.texts = [(*text, token) for text, token in zip(self.texts, tokens.tolist(), strict=True)]


@pytest.mark.parametrize(("prefixes", "samples"), [(1, 1), (1, 16), (1, 100), (3, 40), (20, 5)])
@pytest.mark.parametrize("vocabulary", [2, 5, 10**6])
@pytest.mark.parametrize("resampled", [False, True])
def test_each_sample_reads_a_row_that_was_fed_its_text(prefixes, samples, vocabulary, resampled):
    generator = random.Random(f"{prefixes}, {samples}, {vocabulary}")
    branches, fed = Branches(prefixes, samples, CPU), Fed(prefixes, samples)
    number = prefixes * samples
    texts = [(place // samples,) for place in range(number)]
    needed = torch.ones(number, dtype=torch.bool)
    for _ in range(12):
        tokens = [generator.randrange(vocabulary) for _ in texts]
        texts = [(*text, token) for text, token in zip(texts, tokens, strict=True)]
        fed.feed(*branches.grow(torch.tensor(tokens), needed))
        seen = branches.of_samples(torch.arange(len(fed.texts))).tolist()
        assert all(fed.texts[row] == text for row, text, is_read in zip(seen, texts, needed, strict=True) if is_read)
        if resampled:
            index = [place - place % samples + generator.randrange(samples) for place in range(number)]
            branches.reorder(torch.tensor(index))
            texts, needed = [texts[place] for place in index], needed[index]
        still = needed & (torch.tensor([generator.random() < 0.9 for _ in texts]))
        needed = still if still.any() else needed


def test_one_row_for_all_that_are_alike():
    branches = Branches(1, 100, CPU)
    everyone = torch.ones(100, dtype=torch.bool)
    parents, tokens = branches.grow(torch.arange(100) % 2, everyone)
    assert len(parents) == len(tokens) == 16  # no fewer rows are fed at once
    assert tokens[:2].tolist() == [0, 1]
    assert len(branches.rows.unique()) == 2
    parents, tokens = branches.grow(torch.arange(100), everyone)
    assert torch.equal(tokens, torch.arange(100))
    assert parents.tolist() == [0, 1] * 50
    assert branches.grow(torch.zeros(100, dtype=torch.long), everyone)[0] is None  # once apart, they stay so


@pytest.mark.parametrize("prefixes", [1, 3])
def test_rows_that_were_fed_nothing_stay_as_they_are_where_all_samples_part(prefixes):
    branches, number = Branches(prefixes, 100, CPU), 100 * prefixes
    parents, tokens = branches.grow(torch.arange(number), torch.ones(number, dtype=torch.bool))
    assert parents is None  # to copy their memory would be dear
    assert torch.equal(branches.of_samples(tokens), torch.arange(number))


def test_ended_samples_have_no_row():
    branches = Branches(1, 64, CPU)
    everyone = torch.ones(64, dtype=torch.bool)
    branches.grow(torch.arange(64), everyone)
    some = torch.arange(64) < 63
    assert branches.grow(torch.arange(64), some)[0] is None  # one less is not worth it
    few = torch.arange(64) % 4 == 0
    parents, tokens = branches.grow(torch.arange(64), few)
    assert parents.tolist() == tokens.tolist() == list(range(0, 64, 4))
    assert torch.equal(branches.of_samples(tokens)[few], torch.arange(0, 64, 4))
