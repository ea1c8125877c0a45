"""Weights in a file: their pages are given back, and nothing is lost."""

import sys

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from lexergy.models.causal.runtimes.openvino_steps import compiled
from lexergy.models.inference.pages import SMAPS, give_back
from lexergy.models.loading.weights import load_causal_lm

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="pages are counted by Linux")
NUMBERS = torch.arange(2**20, dtype=torch.float32)  # 4 MB


@pytest.fixture
def model(tmp_path):
    save_file({"weight": NUMBERS, "other": NUMBERS + 1}, tmp_path / "model.safetensors")
    module = nn.Module()
    for name, weight in load_file(tmp_path / "model.safetensors").items():
        module.register_parameter(name, nn.Parameter(weight, requires_grad=False))
    return module


def resident(module) -> int:
    """Kilobytes of the weights' file in the memory of this process."""
    place, counted = min(weight.data_ptr() for weight in module.parameters()), False
    for line in SMAPS.read_text().splitlines():
        name, *values = line.split()
        if not name.endswith(":"):
            start, end = (int(part, 16) for part in name.split("-"))
            counted = start <= place < end
        elif name == "Rss:" and counted:
            return int(values[0])
    raise AssertionError("the weights are not mapped")


def test_pages_of_weights_go_and_come_again(model):
    assert torch.equal(model.weight, NUMBERS)
    assert torch.equal(model.other, NUMBERS + 1)
    assert resident(model) > 8000
    give_back(model)
    assert resident(model) < 100
    assert torch.equal(model.weight, NUMBERS)
    assert 4000 < resident(model) < 6000


def test_weights_that_were_changed_stay_as_they_are(model):
    model.weight[5] = -1
    give_back(model)
    assert model.weight[4:7].tolist() == [4, -1, 6]


def test_a_compiled_sampler_leaves_the_weights_in_their_file(byte_lm, tmp_path):
    byte_lm.model.save_pretrained(tmp_path)
    model = load_causal_lm(str(tmp_path)).model
    assert resident(model) > 0
    compiled(model, 1)
    assert resident(model) == 0
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, byte_lm.model.state_dict()[name])


def test_weights_without_a_file_stay_as_they_are():
    module = nn.Linear(512, 512)
    expected = module.weight.detach().clone()
    give_back(module)
    assert torch.equal(module.weight, expected)
