"""Energies that read text: where the continuation begins, what is cut, and padding that changes nothing."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from lexergy.errors import LexergyError
from lexergy.models.causal.lm import CausalLM
from lexergy.models.energies import TransformerEnergy
from lexergy.models.energies.text import Rows, TextReader, whole_sequences
from toys.energies import wake
from toys.language_models import random_tokens


@pytest.fixture
def energy(syllable_encoder_folder: Path, byte_lm: CausalLM) -> TransformerEnergy:
    assert byte_lm.tokenizer is not None
    return wake(TransformerEnergy.from_encoder(syllable_encoder_folder)).bind(byte_lm.tokenizer)


def read(energy: TransformerEnergy, lm: CausalLM, prefix: str, *continuations: str) -> tuple[Rows, list[list[str]]]:
    """The rows, and the pieces of each that count as continuation."""
    assert isinstance(energy._reader, TextReader)
    tokens, rest = lm.encode(prefix)[None], same_length(lm, *continuations)
    rows = energy._reader.rows(lm.tokenizer, tokens, rest)  # type: ignore[arg-type]
    marked = [ids[mark] for ids, mark in zip(rows.tokens, rows.continuation, strict=True)]
    return rows, [energy._reader.tokenizer.convert_ids_to_tokens(ids.tolist()) for ids in marked]


def same_length(lm: CausalLM, *texts: str) -> Tensor:
    """Tokens (1, K, C) of texts, padded with the end-of-text token as samples are."""
    rows = [lm.encode(text) for text in texts]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=256)[None]


def test_continuation_starts_at_the_boundary_without_special_tokens(
    energy: TransformerEnergy, byte_lm: CausalLM
) -> None:
    rows, pieces = read(energy, byte_lm, "the cat", " sat.", " the cat")
    assert pieces == [["sat", "."], ["the", "cat"]]
    assert rows.tokens[0].tolist() == [2, 5, 6, 7, 9, 3]


def test_piece_across_the_boundary_is_of_the_continuation(energy: TransformerEnergy, byte_lm: CausalLM) -> None:
    _, pieces = read(energy, byte_lm, "the sta", "te sat")
    assert pieces == [["state", "sat"]]


def test_character_cut_in_half_by_the_boundary_is_read_whole(energy: TransformerEnergy, byte_lm: CausalLM) -> None:
    tokens = byte_lm.encode("the caté sat")
    cut = len("the cat") + 1  # after the first of the two bytes of é
    rows = energy._reader.rows(byte_lm.tokenizer, tokens[None, :cut], tokens[None, None, cut:])  # type: ignore[union-attr, arg-type]
    pieces = energy._reader.tokenizer.convert_ids_to_tokens(rows.tokens[0][rows.continuation[0]].tolist())  # type: ignore[union-attr]
    assert pieces == ["##e", "sat"]


def test_padding_after_a_stop_token_is_not_read(energy: TransformerEnergy, byte_lm: CausalLM) -> None:
    rows, pieces = read(energy, byte_lm, "the", " cat", " cat sat.")
    assert pieces == [["cat"], ["cat", "sat", "."]]
    assert rows.attention is not None
    assert rows.attention.sum(1).tolist() == [4, 6]
    assert rows.tokens[0].tolist() == [2, 5, 6, 3, 0, 0]


def test_too_long_texts_lose_the_beginning_of_the_prefix_only(energy: TransformerEnergy, byte_lm: CausalLM) -> None:
    rows, pieces = read(energy, byte_lm, "the cat " * 25 + "state", " sat." * 15)
    assert rows.tokens.shape[1] == 40
    assert pieces == [["sat", "."] * 15]
    kept = energy._reader.tokenizer.convert_ids_to_tokens(rows.tokens[0].tolist())  # type: ignore[union-attr]
    assert kept[0] == "[CLS]"
    assert kept[8:11] == ["state", "sat", "."]
    assert kept[-1] == "[SEP]"
    with pytest.raises(LexergyError, match="continuation has 42 tokens of the reader, which reads at most 40"):
        read(energy, byte_lm, "the", " sat." * 21)


def test_energy_is_the_head_on_the_mean_over_the_continuations_pieces(
    energy: TransformerEnergy, byte_lm: CausalLM
) -> None:
    prefix, continuations = byte_lm.encode("the cat")[None], same_length(byte_lm, " sat.")
    with torch.no_grad():
        states = energy.backbone(input_ids=torch.tensor([[2, 5, 6, 7, 9, 3]])).last_hidden_state
        expected = states[0, 3:5].mean(0) @ energy.head.weight[0] + energy.head.bias
        torch.testing.assert_close(energy.score(prefix, continuations).view(1), expected)
        energy.config.pooling = "sequence"
        expected = states[0].mean(0) @ energy.head.weight[0] + energy.head.bias
        torch.testing.assert_close(energy.score(prefix, continuations).view(1), expected)


def test_padding_to_the_longest_changes_nothing(energy: TransformerEnergy, byte_lm: CausalLM) -> None:
    prefix = byte_lm.encode("the cat")[None]
    continuations = same_length(byte_lm, " sat.", " sat sat sat sat state.", " q", "")
    with torch.no_grad():
        together = energy.score(prefix, continuations)
        energy.rows_per_batch = 1
        alone = energy.score(prefix, continuations)
    assert together.std() > 0.05
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-5)


def test_tokens_are_read_through_their_text(energy: TransformerEnergy, byte_lm: CausalLM) -> None:
    """The encoder ignores case, so texts that differ in nothing else have the same energy."""
    with torch.no_grad():
        scores = energy.score(byte_lm.encode("the cat")[None], same_length(byte_lm, " sat.", " SAT.", " cat."))[0]
    assert scores[0] == scores[1]
    assert scores[0] != scores[2]


def test_unbound_energy_says_what_to_do(syllable_encoder_folder: Path) -> None:
    energy = TransformerEnergy.from_encoder(syllable_encoder_folder)
    with pytest.raises(LexergyError, match=r"`energy\.bind\(lm\.tokenizer\)` or `as_energy\(energy, lm\)`"):
        energy.score(random_tokens(1, 3), random_tokens(1, 2, 4))
    with pytest.raises(LexergyError, match="does not exist"):
        TransformerEnergy.from_encoder(syllable_encoder_folder / "missing" / "folder")


def test_whole_sequences_put_each_continuation_after_its_own_prefix() -> None:
    prefix, continuations = torch.tensor([[1], [2]]), torch.tensor([[[3], [4]], [[5], [6]]])
    assert whole_sequences(prefix, continuations).tolist() == [[1, 3], [1, 4], [2, 5], [2, 6]]
