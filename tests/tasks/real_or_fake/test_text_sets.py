"""Which part of a window a generator is given, and that the rest is its own."""

import pytest
import torch

from lexergy.tasks.real_or_fake.text_sets import SIDES, TextSet, choose, joined, read_texts, text_table

WANTED = TextSet("wikitext", "transf-big")


def test_sides_and_contexts_are_drawn_with_equal_probability():
    choice = choose(range(4000), (8, 12), SIDES, seed=1)
    for suffix in (False, True):
        for context in (8, 12):
            share = ((choice.suffix == suffix) & (choice.contexts == context)).double().mean()
            assert float(share) == pytest.approx(0.25, abs=4 * 0.0068)  # four standard errors
    again = choose(range(1000, 1100), (8, 12), SIDES, seed=1)
    assert torch.equal(again.contexts, choice.contexts[1000:1100])
    assert torch.equal(again.suffix, choice.suffix[1000:1100])


@pytest.mark.parametrize("split", ["train", "test"])
def test_twins_share_the_context_and_nothing_else(toy_laboratory, split):
    texts = toy_laboratory.texts.read(WANTED, split)
    num, length = texts.people.shape
    assert texts.machine.shape == (num, 2, length) == (num, 2, 16)
    same = texts.people[:, None] == texts.machine  # (N, K, L)
    changed = 0
    for row in range(num):
        context = int(texts.contexts[row])
        given, written = (
            (slice(length - context, None), slice(length - context))
            if texts.suffix[row]
            else (slice(context), slice(context, None))
        )
        assert same[row, :, given].all()
        changed += int((~same[row, :, written]).sum())
    assert changed > 0.5 * num * 2 * 4
    assert set(texts.contexts.tolist()) == {8, 12}
    assert texts.suffix.any()
    assert not texts.suffix.all()


def test_without_a_context_everything_is_written(toy_laboratory):
    texts = toy_laboratory.texts.read(TextSet("wikitext", "transf-big", contexts=(0,), sides=("prefix",)), "test")
    assert texts.machine.shape[2] == texts.people.shape[1]
    assert (texts.people[:, None, 0] != texts.machine[:, :, 0]).any()
    special = toy_laboratory.corpora.tokenizer.all_special_ids
    assert not torch.isin(texts.machine, torch.tensor(special)).any()


def test_a_set_survives_its_table(toy_laboratory):
    texts = toy_laboratory.texts.read(WANTED, "test")
    back = read_texts(text_table(texts))
    assert back.documents == texts.documents
    for one, other in zip(back[:2] + back[3:], texts[:2] + texts[3:], strict=True):
        assert torch.equal(one, other)
    some = texts.select(torch.tensor([3, 1]))
    assert some.documents == [texts.documents[3], texts.documents[1]]
    assert torch.equal(some.machine, texts.machine[[3, 1]])


def test_a_union_has_all_windows(toy_laboratory):
    parts = [toy_laboratory.texts.read(TextSet(name, "transf-big"), "train").contrast for name in ("sotu", "wikitext")]
    union = joined(parts)
    assert len(union) == sum(map(len, parts))
    assert union.prefixes.shape == (len(union), 0)
    assert torch.equal(union.negatives[len(parts[0]) :], parts[1].negatives)


def test_names_tell_sets_apart():
    sets = [
        WANTED,
        TextSet("sotu", "transf-big"),
        TextSet("wikitext", "transf-small"),
        TextSet("wikitext", "transf-big", trained_on="sotu"),
        TextSet("wikitext", "transf-big", contexts=(0, 4)),
        TextSet("wikitext", "transf-big", sides=("prefix",)),
    ]
    assert len({one.name for one in sets}) == len(sets)
