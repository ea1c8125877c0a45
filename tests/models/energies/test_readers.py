"""Frozen readers of decoded text: their features are the reader's own, where the continuation begins, what is saved."""

import shutil
from pathlib import Path

import pytest
import torch
from torch import Tensor

from lexergy.errors import LexergyError
from lexergy.models.causal.lm import CausalLM
from lexergy.models.causal.state_features import StateFeatures
from lexergy.models.energies import EnergyModel, ReaderEnergy, SumEnergy, TextEnergy, as_energy
from lexergy.models.energies import frozen_readers as module
from lexergy.models.energies.frozen_readers import LMReader
from lexergy.models.joint.model import ResidualEBM
from toys.energies import wake
from toys.language_models import random_tokens

LAYERS = (0, 2)
TEXTS = (" sat.", " sat on the state of the cat", " the", "h sat")


def tokens(lm: CausalLM, *texts: str) -> Tensor:  # (1, K, C)
    """Padded with the end-of-text token, as samples are."""
    rows = [lm.encode(text) for text in texts]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=256)[None]


@pytest.fixture
def lm_reader(byte_lm: CausalLM, word_lm: CausalLM) -> ReaderEnergy:
    """Words' tokens read what is written in bytes."""
    return ReaderEnergy.from_causal_lm(word_lm, LAYERS).attach(byte_lm)


@pytest.fixture
def encoder_reader(byte_lm: CausalLM, syllable_encoder_folder: Path) -> ReaderEnergy:
    return ReaderEnergy.from_encoder(syllable_encoder_folder, LAYERS).attach(byte_lm)


@pytest.fixture(params=["lm_reader", "encoder_reader"])
def energy(request) -> ReaderEnergy:
    energy = wake(request.getfixturevalue(request.param))
    energy.fit_standardisation(torch.randn(9, len(energy.mean), generator=torch.Generator().manual_seed(0)))
    return energy


# -- features ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("statistics", ["summary", "moments"])
@pytest.mark.parametrize("layers", [LAYERS, ()])
def test_an_lms_features_are_those_of_the_lm_itself(byte_lm, word_lm, layers, statistics):
    energy = ReaderEnergy.from_causal_lm(word_lm, layers, statistics=statistics).attach(byte_lm)
    prefix = byte_lm.encode("the people of")[None]
    read = energy.read(prefix, tokens(byte_lm, " the union", " people"))[0]
    started = CausalLM(word_lm.model, word_lm.tokenizer, start_token=word_lm.end_of_text)
    for features, text in zip(read, (" the union", " people"), strict=True):
        before, after = word_lm.encode("the people of"), word_lm.encode(text)
        assert word_lm.encode(f"the people of{text}").tolist() == [*before, *after]  # no token across the boundary
        expected = started.state_features(
            torch.cat([before, after])[None],
            prefix_length=len(before),
            features=StateFeatures(layers, statistics),
        )
        torch.testing.assert_close(features, expected[0], atol=1e-4, rtol=1e-4)


def test_a_token_across_the_boundary_is_of_the_continuation(byte_lm, word_lm, lm_reader):
    assert word_lm.encode(" over").numel() == 1
    read = {
        cut: lm_reader.read(byte_lm.encode(cut[0])[None], tokens(byte_lm, cut[1]))
        for cut in (("we came", " over the day"), ("we came ov", "er the day"), ("we came over", " the day"))
    }
    before, across, after = read.values()
    torch.testing.assert_close(across, before)
    assert (after - before).abs().max() > 0.1


def test_an_encoders_features_are_means_over_the_continuations_own_pieces(byte_lm, encoder_reader):
    read = encoder_reader.read(byte_lm.encode("the cat")[None], tokens(byte_lm, " sat."))
    with torch.no_grad():
        output = encoder_reader.network(input_ids=torch.tensor([[2, 5, 6, 7, 9, 3]]), output_hidden_states=True)
    expected = torch.cat([output.hidden_states[layer][0, 3:5].mean(0) for layer in LAYERS])
    torch.testing.assert_close(read[0, 0], expected)


def test_a_continuation_without_text_is_read_as_an_end(byte_lm, word_lm, lm_reader, encoder_reader):
    empty = torch.full((1, 1, 3), byte_lm.end_of_text)
    read = lm_reader.read(byte_lm.encode("our union")[None], empty)
    started = CausalLM(word_lm.model, word_lm.tokenizer, start_token=word_lm.end_of_text)
    row = torch.tensor([[*word_lm.encode("our union"), word_lm.end_of_text]])
    expected = started.state_features(row, prefix_length=row.shape[1] - 1, features=StateFeatures(LAYERS))
    torch.testing.assert_close(read[0], expected, atol=1e-4, rtol=1e-4)
    read = encoder_reader.read(byte_lm.encode("the cat")[None], empty)
    with torch.no_grad():
        output = encoder_reader.network(input_ids=torch.tensor([[2, 5, 6, 3]]), output_hidden_states=True)
    torch.testing.assert_close(read[0, 0], torch.cat([output.hidden_states[layer][0, -1] for layer in LAYERS]))


def test_the_beginning_of_a_prefix_that_is_too_long_is_not_read(byte_lm, lm_reader):
    short, long = (
        lm_reader.read(byte_lm.encode(text)[None], tokens(byte_lm, " people", " union people"))
        for text in (" people" * 60, "union" + " people" * 60)
    )
    torch.testing.assert_close(short, long, atol=1e-4, rtol=1e-4)


# -- batches -------------------------------------------------------------------------------------------------


def test_neither_batches_nor_shared_beginnings_change_an_energy(energy, byte_lm, monkeypatch):
    prefix = torch.cat(
        [byte_lm.encode(text)[None] for text in ("the cat sat on t", "our union shall ", "a b c d e f g h ")]
    )
    continuations = tokens(byte_lm, *TEXTS, "").expand(3, -1, -1)
    with torch.no_grad():
        together = energy.score(prefix, continuations)
        alone = torch.stack(
            [
                torch.stack([energy.score(row[None], text[None, None])[0, 0] for text in texts])
                for row, texts in zip(prefix, continuations, strict=True)
            ]
        )
        monkeypatch.setattr(module, "tokens_at_once", lambda network: 1)
        one_by_one = energy.score(prefix, continuations)
    assert together.std() > 0.1
    torch.testing.assert_close(together, alone, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(together, one_by_one, atol=1e-4, rtol=1e-4)


def test_continuations_of_a_prefix_share_what_comes_before_all_of_them(byte_lm, lm_reader, monkeypatch):
    """Of texts one of which has a token across the boundary, all before that token."""
    fed = []
    read = LMReader._read
    monkeypatch.setattr(LMReader, "_read", lambda self, texts, shared: fed.append(shared) or read(self, texts, shared))
    prefix = byte_lm.encode("the day and ov")[None]
    lm_reader.read(prefix, tokens(byte_lm, "er the", "ens", " and"))
    lm_reader.read(prefix, tokens(byte_lm, "er the"))
    assert fed == [len(lm_reader.reader.lm.encode("the day and")), 0]


def test_training_the_head_leaves_the_reader_as_it_is(energy, byte_lm):
    energy.train()
    assert energy.head.training
    assert not any(part.training for part in energy.network.modules())
    scores = energy.score(byte_lm.encode("the cat")[None], tokens(byte_lm, *TEXTS))
    scores.sum().backward()
    assert {name for name, weight in energy.named_parameters() if weight.grad is not None} == {
        "head.1.weight",
        "head.1.bias",
    }


# -- with an LM ----------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::lexergy.models.joint.sampling.UnreliableWeightsWarning")
def test_joint_model_sum_and_smc(energy, byte_lm):
    lm = byte_lm.without_special_tokens()
    joint = ResidualEBM(lm, energy)
    drawn = joint.generate("the cat", num_candidates=6, max_new_tokens=4, seed=0).candidates
    alone = joint.score(byte_lm.encode("the cat")[None], torch.tensor([[drawn[0].tokens]]))
    assert float(alone) == pytest.approx(drawn[0].energy, abs=1e-4)
    total = as_energy(SumEnergy.of([energy, TextEnergy(lambda texts: [1.0] * len(texts))], [2.0, 3.0]), lm)
    prefix, continuations = random_tokens(1, 5), random_tokens(1, 3, 6, seed=1)
    with torch.no_grad():
        torch.testing.assert_close(total.score(prefix, continuations), 2 * energy.score(prefix, continuations) + 3)
    with pytest.raises(LexergyError, match="reads whole texts only"):
        joint.generate("the cat", num_candidates=4, max_new_tokens=4, method="smc")


def test_what_it_needs_is_told(byte_lm, word_lm, syllable_encoder_folder):
    with pytest.raises(LexergyError, match=r"`energy\.bind\(lm\.tokenizer\)`"):
        ReaderEnergy.from_causal_lm(word_lm, LAYERS).score(random_tokens(1, 3), random_tokens(1, 2, 4))
    with pytest.raises(LexergyError, match="no tokenizer to decode with"):
        ReaderEnergy.from_encoder(syllable_encoder_folder, LAYERS).attach(CausalLM(byte_lm.model))
    with pytest.raises(LexergyError, match=r"`layers` is \[3\]; expected some of 0 \.\. 2"):
        ReaderEnergy.from_encoder(syllable_encoder_folder, (3,))
    with pytest.raises(LexergyError, match=r"`layers` is \[3\]; expected some of 0 \.\. 2"):
        ReaderEnergy.from_causal_lm(word_lm, (3,))


# -- files ---------------------------------------------------------------------------------------------------


def test_only_the_head_is_saved_and_the_reader_is_found_again_beside_it(
    byte_lm, word_lm_folder, syllable_encoder_folder, tmp_path
):
    shutil.copytree(word_lm_folder, tmp_path / "run" / "llama")
    shutil.copytree(syllable_encoder_folder, tmp_path / "run" / "bert")
    made = {
        "lm": wake(ReaderEnergy.from_causal_lm(tmp_path / "run" / "llama", LAYERS, statistics="moments")),
        "encoder": wake(ReaderEnergy.from_encoder(tmp_path / "run" / "bert", LAYERS)),
    }
    for name, energy in made.items():
        energy.save_pretrained(tmp_path / "run" / name)
        assert set(energy.saved_state()) == {"mean", "std", "head.1.weight", "head.1.bias"}
    (tmp_path / "run").rename(tmp_path / "moved")
    prefix, continuations = byte_lm.encode("the cat")[None], tokens(byte_lm, *TEXTS)
    for name, energy in made.items():
        loaded = EnergyModel.from_pretrained(tmp_path / "moved" / name)
        with torch.no_grad():
            scores = [each.attach(byte_lm).score(prefix, continuations) for each in (energy, loaded)]
        assert torch.equal(*scores)


def test_a_reader_without_a_name_cannot_be_saved(word_lm, tmp_path):
    unnamed = CausalLM(word_lm.model, word_lm.tokenizer)
    unnamed.source = None
    with pytest.raises(LexergyError, match="has no name to find it by"):
        ReaderEnergy.from_causal_lm(unnamed, LAYERS).save_pretrained(tmp_path)
