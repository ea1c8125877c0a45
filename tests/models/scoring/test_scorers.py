"""Scores by every kind of model, against the sums written out by hand."""

import math
from dataclasses import replace

import pytest
import torch
from transformers import AutoModelForMaskedLM, GPT2LMHeadModel

from lexergy.errors import LexergyError
from lexergy.models.architectures.scratch import build_masked_lm
from lexergy.models.causal import log_probs
from lexergy.models.causal.lm import CausalLM
from lexergy.models.cloze import ElectricModel, MaskedGenerator, TwoTowerModel
from lexergy.models.cloze.bodies import BodyShape
from lexergy.models.masked import lm as masked_lm
from lexergy.models.masked.lm import MaskedLM
from lexergy.models.scoring.causal import causal_scorer
from lexergy.models.scoring.electric import electric_scorer
from lexergy.models.scoring.kinds import load_scorer
from lexergy.models.scoring.masked import masked_scorer
from lexergy.models.scoring.scorer import Scorer
from lexergy.testing import EnumerableMaskedLM
from toys.language_models import tiny_gpt2

TEXTS = ["It was a dark, dark night.", "a night", "", "It was a dark, dark night.", "the dark was a night of it all"]
MAX_LENGTH = 24


@pytest.fixture(scope="module")
def shape(night_tokenizer):
    return BodyShape(len(night_tokenizer), 16, 1, 2, MAX_LENGTH)


@pytest.fixture(scope="module")
def models(night_tokenizer, shape, tmp_path_factory):
    """A folder of each kind, as training leaves it."""
    folder = tmp_path_factory.mktemp("models")
    masked = build_masked_lm(shape.vocab_size, 16, 1, 2, MAX_LENGTH, seed=3, mask_token=night_tokenizer.mask_token_id)
    with torch.random.fork_rng():
        torch.manual_seed(4)
        causal = tiny_gpt2(shape.vocab_size, MAX_LENGTH, num_layers=1)
    made = {
        "electric": ElectricModel.from_shape(shape, seed=1),
        "residual": ElectricModel.from_shape(shape, seed=1, residual=True),
        "residual/noise": TwoTowerModel.from_shape(shape, seed=2),
        "electra-tt": ElectricModel.from_shape(shape, seed=1, noise_share=0.15),
        "electra-tt/noise": TwoTowerModel.from_shape(shape, seed=2),
        "electra": ElectricModel.from_shape(shape, seed=1, noise_share=0.15),
        "electra/noise": MaskedGenerator.from_shape(shape, seed=2),
        "two-tower": TwoTowerModel.from_shape(shape, seed=2),
        "masked-lm": masked,
        "causal": causal,
    }
    for name, model in made.items():
        model.save_pretrained(folder / name)
        night_tokenizer.save_pretrained(folder / name)
    return folder


def rows_of(tokenizer, text):
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    return torch.tensor([[tokenizer.eos_token_id, *ids, tokenizer.eos_token_id]])


def by_hand(kind, folder, tokenizer, text):
    """The log-score of each token, one pass or one mask at a time."""
    rows = rows_of(tokenizer, text)
    inside = rows[0, 1:-1]
    with torch.no_grad():
        if kind == "electric":
            return (-ElectricModel.from_pretrained(folder / kind)(rows).energies[0, 1:-1]).tolist()
        if kind == "residual":
            distribution = TwoTowerModel.from_pretrained(folder / kind / "noise")(rows).logits[0].log_softmax(-1)
            energies = ElectricModel.from_pretrained(folder / kind)(rows).energies[0, 1:-1]
            return (distribution[torch.arange(len(inside)), inside] - energies).tolist()
        if kind == "two-tower":
            distribution = TwoTowerModel.from_pretrained(folder / kind)(rows).logits[0].log_softmax(-1)
            return distribution[torch.arange(len(inside)), inside].tolist()
        if kind == "electra-tt":
            energies = ElectricModel.from_pretrained(folder / kind)(rows).energies[0, 1:-1]
            q = TwoTowerModel.from_pretrained(folder / kind / "noise")(rows).logits[0].softmax(-1)
            q = q[torch.arange(len(inside)), inside]
            return (0.15 * q / (0.15 * q + energies.exp() * (0.85 + 0.15 * q))).log().tolist()
        if kind == "causal":
            distribution = GPT2LMHeadModel.from_pretrained(folder / kind)(rows[:, :-1]).logits[0, :-1].log_softmax(-1)
            return distribution[torch.arange(len(inside)), inside].tolist()
        model = AutoModelForMaskedLM.from_pretrained(folder / kind)
        found = []
        for position, token in enumerate(inside):  # the tokenizer puts nothing around a text
            masked = inside.clone()[None]
            masked[0, position] = tokenizer.mask_token_id
            logits = model(masked).logits[0, position]
            logits[tokenizer.all_special_ids] = -torch.inf
            found.append(float(logits.log_softmax(-1)[token]))
        return found


KINDS = {
    "electric": ("Electric PLL", "1"),
    "residual": ("Electric PLL", "1 + generator"),
    "electra-tt": ("ELECTRA-TT PLL", "1 + generator"),
    "two-tower": ("two-tower PLL", "1"),
    "masked-lm": ("masked-LM PLL", "n"),
    "causal": ("log-likelihood", "1"),
}


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_scores_are_the_sums_by_hand(models, night_tokenizer, kind):
    scorer = load_scorer(models / kind)
    assert (scorer.kind, scorer.passes) == KINDS[kind]
    scores = scorer.score(TEXTS)
    for text, score in zip(TEXTS, scores, strict=True):
        expected = by_hand(kind, models, night_tokenizer, text) if text else []
        assert score.log_scores == pytest.approx(expected, abs=1e-4)
        assert score.log_score == pytest.approx(sum(expected), abs=1e-3)
        assert score.num_pieces == 1
    assert scorer.score([]) == []


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_batching_changes_nothing(models, kind, monkeypatch):
    scorer = load_scorer(models / kind)
    together = scorer.score(TEXTS)
    monkeypatch.setattr(scorer, "_tokens_at_once", 1)
    monkeypatch.setattr(log_probs, "LOGITS_BYTES", 1)
    monkeypatch.setattr(masked_lm, "LOGITS_AT_ONCE", 1)
    for one, other in zip(scorer.score(TEXTS), together, strict=True):
        assert one.log_scores == pytest.approx(other.log_scores, abs=1e-5)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_padding_changes_nothing(models, kind, monkeypatch):
    scorer = load_scorer(models / kind)
    monkeypatch.setattr(scorer, "_tree_scores", None)
    monkeypatch.setattr(scorer, "_batch_cost", 0)
    alone = scorer.score(TEXTS)
    monkeypatch.setattr(scorer, "_batch_cost", 1000)
    padding = []
    token_scores = scorer._token_scores
    monkeypatch.setattr(
        scorer, "_token_scores", lambda rows, own: (padding.append(int((~own).sum())), token_scores(rows, own))[1]
    )
    together = scorer.score(TEXTS)
    assert len(padding) == 1
    assert padding[0] > 5
    for padded, unpadded in zip(together, alone, strict=True):
        assert padded.log_scores == pytest.approx(unpadded.log_scores, abs=1e-5)


def test_a_masked_lm_without_padding_token_reads_texts_of_one_length_together(models):
    lm = MaskedLM.from_pretrained(models / "masked-lm")
    expected = masked_scorer(lm).score(TEXTS)
    lm.pad_token = lm.mask_token
    for score, usual in zip(masked_scorer(lm).score(TEXTS), expected, strict=True):
        assert score.log_scores == pytest.approx(usual.log_scores, abs=1e-5)


def test_a_padding_token_inside_a_text_cuts_nothing_off():
    lm = EnumerableMaskedLM()
    pad = lm.tokenizer.pad_token
    (score,) = masked_scorer(lm).score([f"the {pad} {pad} state is"])
    assert [value < 0 for value in score.log_scores] == [True, False, False, True, True]


@pytest.mark.parametrize("edges", ["[CLS] and [SEP]", "nothing"])
def test_the_score_of_a_masked_lm_is_its_local_energy(models, edges):
    lm = EnumerableMaskedLM() if edges == "[CLS] and [SEP]" else MaskedLM.from_pretrained(models / "masked-lm")
    assert lm.edges == (([2], [3]) if edges == "[CLS] and [SEP]" else ([], []))
    for text in ("the state is strong", "the state", "union", "a<mask>union"):
        (score,) = masked_scorer(lm).score([text])
        assert score.log_score == -float(lm.local_energy(lm.pad([lm.encode(text)])))


def test_a_special_token_in_a_text_is_not_scored():
    lm = EnumerableMaskedLM()
    (score,) = masked_scorer(lm).score(["the night is strong"])
    assert lm.tokenizer.convert_ids_to_tokens(lm.encode("the night is strong"))[2] == "[UNK]"
    assert [value == 0 for value in score.log_scores] == [False, True, False, False]


def test_spans_say_where_a_token_stands(models):
    text = "It was, a NIGHT!"
    (score,) = load_scorer(models / "electric").score([text])
    pieces = [text[start:end] for start, end in score.spans]
    assert "".join(pieces).replace(" ", "").lower().startswith("itwas")
    assert len(pieces) == len(score.log_scores)


def test_a_text_longer_than_the_model_is_read_in_pieces_and_each_token_once(night_tokenizer):
    """The scores are then the tokens themselves, so that what was scored can be read off."""
    scorer = Scorer("toy", night_tokenizer, lambda rows, _: rows[:, 1:-1].double(), edges=([0], [0]), max_length=5)
    seen = []
    scorer._token_scores = lambda rows, _: (seen.append(rows), rows[:, 1:-1].double())[1]
    ids = night_tokenizer("it was a dark night of all", add_special_tokens=False)["input_ids"]
    assert len(ids) > 6
    (score,) = scorer.score(["it was a dark night of all"])
    assert list(score.log_scores) == ids
    assert score.num_pieces == math.ceil(len(ids) / 3)
    assert max(rows.shape[1] for rows in seen) == 5


def test_a_residual_electric_reads_no_more_at_once_than_its_noise_does(night_tokenizer, shape):
    longer = ElectricModel.from_shape(replace(shape, max_length=4 * MAX_LENGTH), seed=1, residual=True).eval()
    scorer = electric_scorer(longer, night_tokenizer, TwoTowerModel.from_shape(shape, seed=2).eval())
    (score,) = scorer.score(["night " * (MAX_LENGTH + 3)])
    assert score.num_pieces > 1


def test_models_that_give_no_score_are_refused(models, tmp_path):
    with pytest.raises(LexergyError, match="without a two-tower generator"):
        load_scorer(models / "electra")
    MaskedGenerator.from_shape(BodyShape(11, 8, 1, 2, 8), seed=0).save_pretrained(tmp_path)
    with pytest.raises(
        LexergyError,
        match="expected an n-gram LM, an LM behind an address, a causal LM, Electric, a two-tower model or a masked LM",
    ):
        load_scorer(tmp_path)
    with pytest.raises(LexergyError, match="does not exist"):
        load_scorer(tmp_path / "none")


def test_a_causal_lm_without_tokenizer_is_refused(models):
    with pytest.raises(LexergyError, match="has no tokenizer"):
        causal_scorer(CausalLM(GPT2LMHeadModel.from_pretrained(models / "causal")))


def test_spoken_text_is_read_as_transcripts_are_written(night_tokenizer):
    read = [night_tokenizer(text)["input_ids"] for text in ("It’s naïve -- he SAID.", " it's naive he said")]
    assert read[0] == read[1]
    assert night_tokenizer.decode(read[0]) == " it's naive he said"


def test_weights_that_overflow_are_no_score(models, night_tokenizer):
    """They are finite, so that loading finds nothing wrong with them."""
    model = GPT2LMHeadModel.from_pretrained(models / "causal")
    model.transformer.wpe.weight.data[3] = 3e38
    scorer = causal_scorer(CausalLM(model, night_tokenizer))
    assert math.isfinite(scorer.score(["a"])[0].log_score)
    with pytest.raises(LexergyError, match="NaN to a token of the text 'It was a dark"):
        scorer.score(["It was a dark, dark night."])
