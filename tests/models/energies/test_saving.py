"""Every kind of energy comes back bit for bit; a damaged folder is explained in a line or two."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from lexergy.errors import LexergyError
from lexergy.models.causal.lm import CausalLM
from lexergy.models.energies import (
    BiLSTMEnergy,
    BiLSTMEnergyConfig,
    EnergyModel,
    LinearEnergy,
    LinearEnergyConfig,
    Lora,
    NgramTables,
    ReaderEnergy,
    StatesEnergy,
    TransformerEnergy,
    as_energy,
)
from toys.energies import wake
from toys.language_models import random_tokens

KINDS = [
    "states",
    "unit",
    "unit-lora",
    "bit-unmasked",
    "bit-masked-lm",
    "bit-lora",
    "encoder",
    "encoder-lora",
    "fitted-encoder",
    "fitted-reader",
    "linear",
    "bilstm",
]
TABLES = NgramTables(orders=(2, 3), buckets=64, width=4)


def make(kind: str, lm: CausalLM, masked_lm_folder: Path, encoder_folder: Path) -> EnergyModel:
    lora = Lora(rank=2, alpha=4) if kind.endswith("lora") else None
    if kind == "states":
        energy = StatesEnergy.for_lm(lm, (1, 2), hidden_units=4, dropout=0.1)
        energy.fit_standardisation(torch.randn(9, 40, generator=torch.Generator().manual_seed(0)))
        energy.head[-1].weight.data.fill_(0.5)
        return energy.eval()
    if kind == "linear":
        return wake(LinearEnergy(LinearEnergyConfig(vocab_size=257)))
    if kind == "bilstm":
        return wake(BiLSTMEnergy(BiLSTMEnergyConfig(vocab_size=257, embedding_size=6, hidden_size=5, num_layers=2)))
    if kind == "fitted-encoder":
        return wake(ReaderEnergy.from_encoder(encoder_folder, (0, 2)))
    if kind == "fitted-reader":
        return wake(ReaderEnergy.from_causal_lm(lm, (0, 2)))
    if kind.startswith("encoder"):
        return wake(TransformerEnergy.from_encoder(encoder_folder, lora=lora, pooling="sequence"))
    if kind in ("bit-masked-lm", "bit-lora"):
        return wake(TransformerEnergy.from_masked_lm(masked_lm_folder, lora=lora, ngram_tables=TABLES))
    causal = kind != "bit-unmasked"
    return wake(TransformerEnergy.from_causal_lm(lm, causal=causal, lora=lora, ngram_tables=TABLES))


@pytest.mark.parametrize("kind", KINDS)
def test_round_trip_is_bitwise(
    kind: str, byte_lm: CausalLM, byte_masked_lm_folder: Path, syllable_encoder_folder: Path, tmp_path: Path
) -> None:
    energy = make(kind, byte_lm, byte_masked_lm_folder, syllable_encoder_folder)
    energy.save_pretrained(tmp_path / "energy")
    state = torch.random.get_rng_state()
    loaded = EnergyModel.from_pretrained(tmp_path / "energy")
    assert torch.equal(torch.random.get_rng_state(), state)
    assert type(loaded) is type(energy)
    assert not loaded.training
    assert loaded.features == energy.features
    trainable = {name for name, parameter in energy.named_parameters() if parameter.requires_grad}
    assert trainable == {name for name, parameter in loaded.named_parameters() if parameter.requires_grad}
    expected = energy.state_dict()
    assert loaded.state_dict().keys() == expected.keys()
    assert all(torch.equal(value, expected[name]) for name, value in loaded.state_dict().items())
    prefix, continuations = random_tokens(2, 5), random_tokens(2, 3, 6, seed=1)
    features = torch.randn(2, 3, 40, generator=torch.Generator().manual_seed(1)) if kind == "states" else None
    with torch.no_grad():
        one, other = (as_energy(each, byte_lm).score(prefix, continuations, features) for each in (energy, loaded))
    assert one.std() > 0
    assert torch.equal(one, other)
    assert not list((tmp_path / "energy").glob("*.bin"))


def test_lora_file_holds_adapters_and_head_only(byte_lm: CausalLM, tmp_path: Path) -> None:
    full, small = (
        TransformerEnergy.from_causal_lm(byte_lm),
        TransformerEnergy.from_causal_lm(byte_lm, lora=Lora(rank=1)),
    )
    full.save_pretrained(tmp_path / "full")
    small.save_pretrained(tmp_path / "small")
    sizes = [sum(file.stat().st_size for file in (tmp_path / name).glob("*.safetensors")) for name in ("full", "small")]
    trained = sum(parameter.numel() for parameter in small.parameters() if parameter.requires_grad)
    assert sizes[1] < 4 * trained + 8192 < sizes[0]
    assert all("lora_" in name or name.startswith("head.") for name in small.saved_state())


def test_run_folder_can_be_moved_with_a_lora_energy_beside_its_lm(byte_lm: CausalLM, tmp_path: Path) -> None:
    shutil.copytree(str(byte_lm.source), tmp_path / "run" / "lm")
    energy = wake(TransformerEnergy.from_causal_lm(tmp_path / "run" / "lm", lora=Lora(rank=1)))
    energy.save_pretrained(tmp_path / "run" / "energy")
    assert energy.config.backbone_source == str(tmp_path / "run" / "lm")
    (tmp_path / "run").rename(tmp_path / "moved")
    loaded = EnergyModel.from_pretrained(tmp_path / "moved" / "energy")
    assert loaded.config.backbone_source == str(tmp_path / "moved" / "lm")
    shutil.rmtree(tmp_path / "moved" / "lm")
    with pytest.raises(LexergyError, match="lm"):
        EnergyModel.from_pretrained(tmp_path / "moved" / "energy")


def test_full_energy_needs_nothing_but_its_own_folder(
    syllable_encoder_folder: Path, byte_lm: CausalLM, tmp_path: Path
) -> None:
    shutil.copytree(syllable_encoder_folder, tmp_path / "encoder")
    wake(TransformerEnergy.from_encoder(tmp_path / "encoder")).save_pretrained(tmp_path / "energy")
    shutil.rmtree(tmp_path / "encoder")
    energy = as_energy(EnergyModel.from_pretrained(tmp_path / "energy"), byte_lm)
    assert energy.score(random_tokens(1, 4), random_tokens(1, 2, 4)).shape == (1, 2)


def test_damaged_folders_are_explained(byte_lm: CausalLM, tmp_path: Path) -> None:
    folder = tmp_path / "energy"
    with pytest.raises(LexergyError, match=r"no energy at .*energy': config\.json not found"):
        EnergyModel.from_pretrained(folder)
    StatesEnergy.for_lm(byte_lm, (1,)).save_pretrained(folder)
    with pytest.raises(LexergyError, match="'lexergy_states'; expected a TransformerEnergy"):
        TransformerEnergy.from_pretrained(folder)
    weights = folder / "model.safetensors"
    whole = weights.read_bytes()
    for length in (0, 5, len(whole) - 1):
        weights.write_bytes(whole[:length])
        with pytest.raises(LexergyError, match=r"model\.safetensors` cannot be read") as caught:
            EnergyModel.from_pretrained(folder)
        assert str(caught.value).count("\n") == 0
    StatesEnergy.for_lm(byte_lm, (1, 2)).save_pretrained(tmp_path / "other")
    shutil.copy(tmp_path / "other" / "model.safetensors", weights)
    with pytest.raises(LexergyError, match=r"do not fit its config\.json"):
        EnergyModel.from_pretrained(folder)
    weights.unlink()
    with pytest.raises(LexergyError, match=r"model\.safetensors not found"):
        EnergyModel.from_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "llama"}))
    with pytest.raises(LexergyError, match="model of type 'llama'; expected an energy"):
        EnergyModel.from_pretrained(folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(LexergyError, match=r"config\.json` cannot be read"):
        EnergyModel.from_pretrained(folder)
