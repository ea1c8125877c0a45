"""Sums: the fit of the coefficients against its theory, and the sum as an energy like any other."""

import json
import math
import shutil
from pathlib import Path

import pytest
import torch
from torch import Tensor

from lexergy.core.fitting.combination import fit_combination
from lexergy.core.losses import nce_loss
from lexergy.errors import LexergyError
from lexergy.models.causal.lm import CausalLM
from lexergy.models.causal.state_features import StateFeatures
from lexergy.models.energies import EnergyModel, Lora, StatesEnergy, SumEnergy, TextEnergy, TransformerEnergy, as_energy
from lexergy.models.joint.model import ResidualEBM
from lexergy.testing import assert_energy_contract
from toys.energies import BagOfTokens, wake
from toys.language_models import random_tokens

PREFIX, CONTINUATIONS = random_tokens(2, 4), random_tokens(2, 3, 5, seed=1)


def normal(rows: int, *means: float, seed: int) -> Tensor:  # (rows, n)
    noise = torch.randn(rows, len(means), dtype=torch.double, generator=torch.Generator().manual_seed(seed))
    return noise + torch.tensor(means, dtype=torch.double)


# -- the coefficients ----------------------------------------------------------------------------------------


def test_the_log_ratio_is_found():
    """x+ ~ N(m, 1), x- ~ N(0, 1): log p-/p+ = m^2/2 - m . x, and each part shows one coordinate in its own unit."""
    mean, unit = torch.tensor([1.0, -0.5]).double(), torch.tensor([30.0, 0.2]).double()
    data, noise = normal(40_000, 1.0, -0.5, seed=0), normal(40_000, 0.0, 0.0, seed=1)
    fitted = fit_combination(data, noise)
    assert fitted.constant == pytest.approx(float(mean.square().sum() / 2), abs=0.03)  # 2 to 3 standard errors
    torch.testing.assert_close(fitted.coefficients, -mean, rtol=0, atol=0.03)
    scaled = fit_combination(data * unit, noise * unit)
    torch.testing.assert_close(scaled.coefficients * unit, fitted.coefficients, rtol=0, atol=2e-3)


@pytest.mark.parametrize("negatives", [1, 3])
def test_the_gradient_vanishes(negatives):
    data, noise = normal(60, -1.0, -0.3, 0.2, seed=2), normal(60 * negatives, 0.5, 0.1, 0.0, seed=3)
    fitted = fit_combination(data, noise)
    constant = torch.tensor(fitted.constant, dtype=torch.double, requires_grad=True)
    coefficients = fitted.coefficients.clone().requires_grad_()
    prior = (coefficients - 1 / 3).square().sum() / (2 * 60)
    loss = nce_loss(constant + data @ coefficients, constant + noise @ coefficients) + prior
    for gradient in torch.autograd.grad(loss, [constant, coefficients]):
        assert gradient.abs().max() < 1e-6


def test_parts_that_say_the_same_share_the_coefficient():
    data, noise = normal(500, -1.0, seed=4), normal(500, 0.0, seed=5)
    one = fit_combination(data, noise)
    two = fit_combination(data.expand(-1, 2), noise.expand(-1, 2))
    assert two.coefficients[0] == pytest.approx(float(two.coefficients[1]), abs=1e-6)
    assert float(two.coefficients.sum()) == pytest.approx(float(one.coefficients[0]), abs=0.02)


def test_pairs_that_are_told_apart_perfectly_have_a_finite_answer():
    fitted = fit_combination(-normal(50, 20.0, seed=6), normal(50, 20.0, seed=7))
    assert 0 < float(fitted.coefficients[0]) < 3
    assert abs(fitted.constant) < 3


def test_what_cannot_be_fitted_is_refused():
    good = normal(3, 0.0, 0.0, seed=8)
    with pytest.raises(LexergyError, match="NaN or infinite"):
        fit_combination(good, good * math.nan)
    with pytest.raises(LexergyError, match=r"\(3, 2\) for people's text and \(3, 1\)"):
        fit_combination(good, good[:, :1])


# -- the energy ----------------------------------------------------------------------------------------------


def states(lm: CausalLM, *layers: int, seed: int = 0) -> StatesEnergy:
    energy = StatesEnergy.for_lm(lm, layers, dropout=0.5)
    energy.head[-1].weight.data.normal_(std=0.1, generator=torch.Generator().manual_seed(seed))
    return energy.eval()


@pytest.fixture
def folders(byte_lm: CausalLM, tmp_path: Path) -> list[Path]:
    """A run's folder with its LM and three energies, one of which needs the LM beside it."""
    shutil.copytree(str(byte_lm.source), tmp_path / "run" / "lm")
    found = [tmp_path / "run" / name for name in ("low", "high", "unit")]
    states(byte_lm, 1).save_pretrained(found[0])
    states(byte_lm, 2, 0, seed=1).save_pretrained(found[1])
    unit = TransformerEnergy.from_causal_lm(tmp_path / "run" / "lm", lora=Lora(rank=1))
    wake(unit).save_pretrained(found[2])
    return found


def features_of(lm: CausalLM, energy: EnergyModel) -> Tensor:  # (2, 3, F)
    rows = torch.cat([PREFIX[:, None].expand(-1, 3, -1), CONTINUATIONS], -1).flatten(0, 1)
    assert energy.features is not None
    return lm.state_features(rows, prefix_length=4, features=energy.features).unflatten(0, (2, 3))


def test_parts_are_weighed_and_read_their_own_layers(byte_lm: CausalLM, folders: list[Path]) -> None:
    energy = SumEnergy.of(folders, [0.5, 2.0, -1.0], 0.25)
    assert energy.features == StateFeatures((0, 1, 2))
    low, high, unit = (EnergyModel.from_pretrained(folder) for folder in folders)
    features = features_of(byte_lm, energy)
    with torch.no_grad():
        expected = (
            0.25
            + 0.5 * low.score(PREFIX, CONTINUATIONS, features_of(byte_lm, low))
            + 2 * high.score(PREFIX, CONTINUATIONS, features_of(byte_lm, high))
            - unit.score(PREFIX, CONTINUATIONS)
        )
        torch.testing.assert_close(energy.score(PREFIX, CONTINUATIONS, features), expected)
    torch.testing.assert_close(ResidualEBM(byte_lm, energy).score(PREFIX, CONTINUATIONS), expected)
    assert_energy_contract(energy, PREFIX, CONTINUATIONS, features)
    assert {name for name, weight in energy.named_parameters() if weight.requires_grad} == {"constant", "coefficients"}


def test_a_moved_run_is_found_again(byte_lm: CausalLM, folders: list[Path]) -> None:
    energy = SumEnergy.of(folders, [0.5, 2.0, -1.0], 0.25)
    run = folders[0].parent
    energy.save_pretrained(run / "total")
    assert energy.config.parts == [str(folder) for folder in folders]
    assert json.loads((run / "total" / "config.json").read_text())["parts"] == ["../low", "../high", "../unit"]
    assert (run / "total" / "model.safetensors").stat().st_size < 1000
    moved = run.rename(run.parent / "moved")
    loaded = EnergyModel.from_pretrained(moved / "total")
    assert isinstance(loaded, SumEnergy)
    assert not loaded.training
    assert not any(part.training for part in loaded.part_modules)
    features = features_of(byte_lm, energy)
    with torch.no_grad():
        one, other = (each.score(PREFIX, CONTINUATIONS, features) for each in (energy, loaded))
    assert torch.equal(one, other)
    shutil.rmtree(moved / "high")
    with pytest.raises(LexergyError, match=r"no energy at .*high"):
        EnergyModel.from_pretrained(moved / "total")


def test_parts_go_to_evaluation_mode_with_the_sum(byte_lm: CausalLM) -> None:
    part = states(byte_lm, 1)
    energy = SumEnergy.of([part]).train()
    assert part.training
    ResidualEBM(byte_lm, energy)
    assert not part.training


def test_functions_texts_and_modules_can_be_parts(byte_lm: CausalLM) -> None:
    bag, texts = BagOfTokens(), TextEnergy(lambda batch: [len(text) for text in batch])
    energy = as_energy(SumEnergy.of([lambda tokens: tokens[:, -1].float(), bag, texts], [1.0, 1.0, 3.0]), byte_lm)
    assert energy.features is None
    whole = torch.cat([PREFIX[:, None].expand(-1, 3, -1), CONTINUATIONS], -1)  # (2, 3, L)
    lengths = torch.tensor([len(text) for text in byte_lm.decode(whole)]).view(2, 3)
    expected = CONTINUATIONS[..., -1] + bag(whole.flatten(0, 1)).view(2, 3) + 3 * lengths
    torch.testing.assert_close(energy.score(PREFIX, CONTINUATIONS), expected)


def test_wrong_sums_are_explained(byte_lm: CausalLM, tmp_path: Path) -> None:
    with pytest.raises(LexergyError, match="at least one"):
        SumEnergy.of([])
    with pytest.raises(LexergyError, match="1 coefficients for 2 energies"):
        SumEnergy.of([states(byte_lm, 1), states(byte_lm, 2)], [1.0])
    with pytest.raises(LexergyError, match="the energy is a int"):
        SumEnergy.of([3])
    with pytest.raises(LexergyError, match=r"in no folder; .*`SumEnergy.of\(\[folder, ...\]\)`"):
        SumEnergy.of([states(byte_lm, 1)]).save_pretrained(tmp_path / "sum")
    with pytest.raises(LexergyError, match=r"got none; expected `features`"):
        SumEnergy.of([states(byte_lm, 1)]).score(PREFIX, CONTINUATIONS)
