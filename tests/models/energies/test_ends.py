"""Texts that end: no kind of energy reads what stands after their end."""

import pytest
import torch

from lexergy.models.causal.lm import CausalLM
from lexergy.models.energies import (
    BiLSTMEnergy,
    BiLSTMEnergyConfig,
    LinearEnergy,
    LinearEnergyConfig,
    ReaderEnergy,
    StatesEnergy,
    SumEnergy,
    TextEnergy,
    TransformerEnergy,
)
from lexergy.models.joint.model import ResidualEBM
from lexergy.recipes.sections.energies import ENERGY_KINDS
from lexergy.testing import EnumerableLM, EnumerableMaskedLM, save_tiny_encoder
from toys.energies import BagOfTokens, wake

WORDS = ("the", "state", "of", "union", "is", "strong")
TOKENIZER = EnumerableMaskedLM(WORDS).tokenizer
END = TOKENIZER.sep_token_id  # forbidden, and yet where a text ends
LONGEST = 9


@pytest.fixture(scope="module")
def lm() -> CausalLM:
    return CausalLM(EnumerableLM(len(TOKENIZER), sharpness=2.0).model, TOKENIZER, forbidden_tokens=range(5))


def states(lm, folder):
    return wake(StatesEnergy.for_lm(lm, layers=(1, 2), hidden_units=4))


def linear(lm, folder):
    return wake(LinearEnergy(LinearEnergyConfig(vocab_size=lm.vocab_size)))


def encoder(lm, folder):
    save_tiny_encoder(folder, WORDS)
    return wake(TransformerEnergy.from_encoder(folder))


def fitted_encoder(lm, folder):
    save_tiny_encoder(folder, WORDS)
    return wake(ReaderEnergy.from_encoder(folder, (1,)))


def fitted_reader(lm, folder):
    reader = CausalLM(EnumerableLM(len(TOKENIZER), seed=1).model, TOKENIZER, start_token=TOKENIZER.cls_token_id)
    return wake(ReaderEnergy.from_causal_lm(reader, (1, 2)))


def unit(pooling):
    return lambda lm, folder: wake(TransformerEnergy.from_causal_lm(lm, pooling=pooling))


def bilstm(lm, folder):
    sizes = {"embedding_size": 8, "hidden_size": 8, "num_layers": 1}
    return wake(BiLSTMEnergy(BiLSTMEnergyConfig(vocab_size=lm.vocab_size, **sizes)))


def reloaded(lm, folder):
    linear(lm, folder).save_pretrained(folder)
    return LinearEnergy.from_pretrained(folder)


def last_token(tokens):  # (N, L) -> (N,)
    return tokens[:, -1].float() + tokens.shape[1]


KINDS = {
    "states": states,
    "linear": linear,
    "bilstm": bilstm,
    "unit": unit("continuation"),
    "unit, sequence": unit("sequence"),
    "bit": lambda lm, folder: wake(TransformerEnergy.from_causal_lm(lm, causal=False)),
    "encoder": encoder,
    "fitted_states": states,
    "fitted_encoder": fitted_encoder,
    "fitted_reader": fitted_reader,
    "refreshed": reloaded,
    "sum": lambda lm, folder: SumEnergy.of([states(lm, folder), linear(lm, folder), last_token], [0.5, 2.0, 1.0]),
    "function": lambda lm, folder: last_token,
    "module": lambda lm, folder: BagOfTokens(lm.vocab_size),
    "texts": lambda lm, folder: TextEnergy(lambda texts: [float(len(text)) for text in texts]),
}


def test_every_kind_of_energy_is_here():
    assert set(ENERGY_KINDS) <= set(KINDS)


@pytest.mark.filterwarnings("ignore::lexergy.models.joint.sampling.UnreliableWeightsWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_the_energy_of_an_ended_text_does_not_depend_on_the_padding_after_it(kind, lm, tmp_path):
    joint = ResidualEBM(lm.ending(END), KINDS[kind](lm, tmp_path))
    energies = []
    for length in (4, LONGEST):
        drawn = joint.generate([6, 7], num_candidates=80, max_new_tokens=length, seed=1).candidates
        energies.append({candidate.tokens: candidate.energy for candidate in drawn if candidate.tokens[-1] == END})
    short, long = energies
    assert {len(tokens) for tokens in short} >= {1, 2, 3}
    for tokens, energy in short.items():
        assert long[tokens] == pytest.approx(energy, abs=1e-4)
        alone = joint.score(torch.tensor([[6, 7]]), torch.tensor([[tokens]]))
        assert float(alone) == pytest.approx(energy, abs=1e-4)
