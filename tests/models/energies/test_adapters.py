"""What users bring: functions of tokens, of texts, modules; and what is refused."""

import pytest
import torch
from torch import Tensor

from lexergy.errors import LexergyError
from lexergy.models.architectures.scratch import build_causal_lm
from lexergy.models.causal.lm import CausalLM
from lexergy.models.energies import Energy, TextEnergy, as_energy
from toys.energies import BagOfTokens
from toys.language_models import BYTE_LM, random_tokens

PREFIX, CONTINUATIONS = torch.tensor([[1, 2], [3, 4]]), torch.tensor([[[5], [6], [7]], [[8], [9], [10]]])


def weighted(tokens: Tensor) -> Tensor:
    """Different for every order of the tokens."""
    return (tokens * torch.tensor([100, 10, 1])).sum(-1).float()


@pytest.mark.parametrize("rows", [1, 2, 4, 256])
def test_function_of_tokens_reads_whole_sequences_in_order(byte_lm: CausalLM, rows: int) -> None:
    energy = as_energy(weighted, byte_lm)
    energy.rows_per_batch = rows  # type: ignore[attr-defined]
    assert isinstance(energy, Energy)
    assert energy.features is None
    expected = [[125.0, 126.0, 127.0], [348.0, 349.0, 350.0]]
    assert energy.score(PREFIX, CONTINUATIONS).tolist() == expected


def test_never_more_rows_than_asked_for(byte_lm: CausalLM) -> None:
    seen: list[int] = []

    def count(tokens: Tensor) -> Tensor:
        seen.append(len(tokens))
        return tokens[:, -1]

    energy = as_energy(count, byte_lm)
    energy.rows_per_batch = 4  # type: ignore[attr-defined]
    assert energy.score(PREFIX, CONTINUATIONS).dtype == torch.float32
    assert seen == [4, 2]


def test_module_keeps_its_parameters_and_gradients(byte_lm: CausalLM) -> None:
    bag = BagOfTokens()
    energy = as_energy(bag, byte_lm)
    energy.score(PREFIX, CONTINUATIONS).sum().backward()
    gradient = bag.weights.weight.grad
    assert gradient is not None
    assert gradient[:, 0].nonzero().flatten().tolist() == list(range(1, 11))
    assert gradient[1] == 3  # the first prefix is read with each of its three continuations


def test_function_of_texts_reads_decoded_sequences(byte_lm: CausalLM) -> None:
    texts: list[str] = []

    def length(batch: list[str]) -> list[int]:
        texts.extend(batch)
        return [len(text) for text in batch]

    energy = as_energy(TextEnergy(length, rows_per_batch=2), byte_lm)
    prefix = torch.stack((byte_lm.encode("ab"), byte_lm.encode("cd")))
    continuations = torch.stack((byte_lm.encode("ef"), byte_lm.encode("g").repeat(2))).unsqueeze(1)
    continuations[1, 0, 1] = 256  # end of text
    assert energy.score(prefix, continuations).tolist() == [[4.0], [3.0]]
    assert texts == ["abef", "cdg"]


@pytest.mark.parametrize(
    ("function", "given"),
    [
        (lambda tokens: tokens.float(), r"shape \(6, 3\)"),
        (lambda tokens: tokens.float().mean(), r"shape \(\)"),
        (lambda tokens: weighted(tokens)[:, None], r"shape \(6, 1\)"),
        (lambda tokens: 0.0, "a float"),
    ],
)
def test_wrong_shapes_are_refused(byte_lm: CausalLM, function: object, given: str) -> None:
    with pytest.raises(LexergyError, match=rf"`<lambda>` returned {given} for 6 sequences; .* shape \(6,\)"):
        as_energy(function, byte_lm).score(PREFIX, CONTINUATIONS)


def test_wrong_inputs_are_explained(byte_lm: CausalLM) -> None:
    with pytest.raises(LexergyError, match=r"returned shape \(1,\) for 6 sequences"):
        as_energy(TextEnergy(lambda texts: [0.0]), byte_lm).score(PREFIX, CONTINUATIONS)
    with pytest.raises(LexergyError, match="the energy is a int"):
        as_energy(3, byte_lm)
    with pytest.raises(LexergyError, match=r"`as_energy\(energy, lm\)`"):
        TextEnergy(lambda texts: [0.0]).score(PREFIX, CONTINUATIONS)
    with pytest.raises(LexergyError, match="no tokenizer"):
        as_energy(TextEnergy(lambda texts: [0.0]), CausalLM(build_causal_lm(**BYTE_LM, seed=1)))
    with pytest.raises(LexergyError, match=r"expected \(B, P\) and \(B, K, C\)"):
        as_energy(weighted, byte_lm).score(PREFIX, random_tokens(3, 2, 1))
