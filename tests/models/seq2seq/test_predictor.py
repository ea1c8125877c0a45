import json

import pytest
import torch

from lexergy.core.search_aware.step_decoder import PADDING
from lexergy.data.vocabulary import build_sequence_vocabulary
from lexergy.errors import LexergyError
from lexergy.models.seq2seq import Seq2Seq
from lexergy.models.seq2seq.search import decode, survival
from lexergy.recipes.search_aware import SearchRecipe
from toys.seq2seq import random_sources, tiny_model, toy_tagged, toy_tagger, translating

SENTENCES = [["red", "dog"], ["cat"], ["a", "purple", "dog", "runs"]]


@pytest.fixture
def speller():
    sentences, labels = toy_tagged(50)
    vocabulary = build_sequence_vocabulary(sentences, labels, features=["word", "suffix"], spelled=True, minimum=1)
    return Seq2Seq.untrained(vocabulary, seed=0, feature_sizes=[4, 2], encoder_size=8, decoder_size=8)


def test_each_word_gets_a_label_that_training_had(speller):
    predicted = speller.predict(SENTENCES, SearchRecipe(beam=3))
    assert [len(labels) for labels in predicted] == [2, 1, 4]
    assert {label for labels in predicted for label in labels} <= set(speller.vocabulary.outputs.symbols)


def test_a_sentence_alone_is_read_as_in_a_batch(speller):
    together = speller.sources(SENTENCES)
    for row, sentence in enumerate(SENTENCES):
        alone, selected = speller.sources([sentence]), together.select(torch.tensor([row]))
        longest = alone.characters.shape[-1]
        assert torch.equal(alone.features, selected.features)
        assert torch.equal(alone.characters, selected.characters[..., :longest])
        assert not selected.characters[..., longest:].any()


def test_a_label_that_training_lacked_is_padding(speller):
    pairs = speller.pairs([["red", "dog", "runs"]], [["A+", "strange", "V"]])
    assert pairs.gold[0, 1] == PADDING
    assert pairs.lengths.tolist() == [3]


def test_a_translation_ends_with_its_end_symbol():
    vocabulary = build_sequence_vocabulary([["a"]], [["x", "y"]], features=["word"], ends=True, minimum=1)
    end = vocabulary.outputs.numbers["</s>"]
    model = Seq2Seq.untrained(vocabulary, seed=0, feature_sizes=[4], attention="additive", end_symbol=end)
    pairs = model.pairs([["a"]], [["x", "y"]])
    assert pairs.gold[0].tolist() == [*vocabulary.outputs.encode(["x", "y"]), end]
    assert pairs.lengths.tolist() == [3]


@pytest.mark.parametrize("beam", [1, 2, 50])
@pytest.mark.parametrize("kind", [{}, translating()])
def test_batches_change_no_prediction(monkeypatch, kind, beam):
    """A beam may be wider than the space of short sentences."""
    model, sources, search = tiny_model(**kind), random_sources((4, 1, 3, 4, 2)), SearchRecipe(beam=beam)
    together = decode(model, sources, search)
    monkeypatch.setattr("lexergy.models.seq2seq.search.HYPOTHESES_AT_ONCE", 1)
    assert decode(model, sources, search) == together
    assert kind or [len(symbols) for symbols in together] == [4, 1, 3, 4, 2]


def test_gold_that_the_search_finds_never_falls_off():
    tagger, search = toy_tagger(), SearchRecipe(beam=2)
    sentences, _ = toy_tagged(20, seed=3)
    pairs = tagger.pairs(sentences, tagger.predict(sentences, search))
    assert torch.equal(survival(tagger.model, pairs, search), pairs.lengths)
    worst = pairs.gold.clone()
    worst[:, 0] = (worst[:, 0] + 1) % 6
    greedy = survival(tagger.model, type(pairs)(pairs.sources, worst, pairs.lengths), SearchRecipe(beam=1))
    assert (greedy == 0).sum() > 10


def test_a_saved_predictor_predicts_the_same(tmp_path, speller):
    speller.save_pretrained(tmp_path)
    assert Seq2Seq.from_pretrained(tmp_path).predict(SENTENCES) == speller.predict(SENTENCES)


def test_a_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(LexergyError, match="seq2seq train"):
            Seq2Seq.from_pretrained(folder)
