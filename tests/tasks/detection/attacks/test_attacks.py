"""Attacks that need a model: what they replace, by what, and that nothing else changes."""

import copy
import random

import pytest
import torch

from lexergy.errors import LexergyError
from lexergy.models.architectures.scratch import build_causal_lm
from lexergy.models.causal.lm import CausalLM
from lexergy.models.loading.tokenizer import train_tokenizer
from lexergy.tasks.detection.attacks import words
from lexergy.tasks.detection.attacks.gradient import gradient_guided
from lexergy.tasks.detection.attacks.paraphrase import paraphrased
from lexergy.tasks.detection.attacks.words import replaced_words
from toys.language_models import BYTE_LM
from toys.texts import MACHINE, PEOPLE, SHARED, written

TEXT = written(MACHINE, 1)


def changes(before, after):
    pairs = zip(before.split(), after.split(), strict=True)
    return {place: (old, new) for place, (old, new) in enumerate(pairs) if old != new}


@pytest.fixture(scope="module")
def whole_word_lm(tmp_path_factory) -> CausalLM:
    """Each word of the toys is a token of its own."""
    folder = tmp_path_factory.mktemp("models") / "whole_words"
    tokenizer = train_tokenizer([" ".join(PEOPLE + MACHINE + SHARED)] * 3, 600, folder)
    build_causal_lm(**{**BYTE_LM, "vocab_size": len(tokenizer), "max_length": 512}, seed=1).save_pretrained(folder)
    return CausalLM.from_pretrained(folder)


def test_words_are_replaced_by_the_likeliest_of_those_nearby(whole_word_lm):
    apply = replaced_words(whole_word_lm)
    changed = changes(TEXT, apply(TEXT, 0.3, 0))
    assert changed == changes(TEXT, apply(TEXT, 0.3, 0)) != changes(TEXT, apply(TEXT, 0.3, 1))
    everywhere = changes(TEXT, apply(TEXT, 1.0, 0))
    assert set(changed) <= set(everywhere)
    assert len(changed) == round(0.3 * len(everywhere))
    assert apply(TEXT, 0, 0) == TEXT
    tokenizer, table = whole_word_lm.need_tokenizer(), whole_word_lm.model.get_input_embeddings().weight.detach()
    vocabulary = {token: tokenizer.decode([token]) for token in range(whole_word_lm.vocab_size)}
    eligible = {text.strip(): token for token, text in vocabulary.items() if text.startswith(" ") and len(text) > 4}
    for place, (old, new) in list(everywhere.items())[:5]:
        before, token = " ".join(TEXT.split()[:place]), eligible[old.strip(".")]
        similarity = {
            word: float(torch.cosine_similarity(table[token], table[near], dim=0)) for word, near in eligible.items()
        }
        nearest = sorted(similarity, key=lambda word: -similarity[word])[1 : words.NEIGHBOURS + 1]
        log_prob = whole_word_lm.next_log_prob(whole_word_lm.encode(before)[None])[0]
        assert new.strip(".") == max(nearest, key=lambda word: float(log_prob[eligible[word]]))


def test_some_sentences_are_rewritten_and_the_rest_stays(whole_word_lm):
    lm = copy.copy(whole_word_lm)
    with pytest.raises(LexergyError, match="no chat template"):
        paraphrased(lm)
    lm.tokenizer = copy.deepcopy(lm.tokenizer)
    lm.tokenizer.chat_template = "{{ messages[0].content }} =>"
    apply = paraphrased(lm)
    text = "It is important. Various factors play roles. Overall it is. To note that."
    rewritten = apply(text, 0.5, 3)
    assert rewritten == apply(text, 0.5, 3) != apply(text, 0.5, 4)
    assert len([part for part in text.split(". ") if part in rewritten]) == 2
    assert apply(text, 0, 3) == text


def energy_of(detector, text):
    (judged,) = detector.detect([text])
    return judged.energy


def test_the_gradient_finds_words_that_chance_does_not(encoder_detector):
    apply = gradient_guided(encoder_detector)
    attacked = apply(TEXT, 0.2, 0)
    changed = changes(TEXT, attacked)
    assert len(changed) <= round(0.2 * len(encoder_detector.read(TEXT).ids)) + 2  # of some blocks, each rounded
    assert all(new.strip(".").isalpha() for _, new in changed.values())
    generator = random.Random(0)
    by_chance = []
    for _ in range(5):
        spelt = TEXT.split()
        for place in changed:
            spelt[place] = generator.choice(MACHINE)
        by_chance.append(energy_of(encoder_detector, " ".join(spelt)))
    before, after = energy_of(encoder_detector, TEXT), energy_of(encoder_detector, attacked)
    assert after < min(before, *by_chance)
    assert apply(TEXT, 0, 0) == TEXT


def test_likelihoods_have_no_gradient_in_the_words(states_detector):
    with pytest.raises(LexergyError, match="leave `gradient` out"):
        gradient_guided(states_detector)
