"""Weights in parts on two processes: the same losses, whole checkpoints, and a whole model at the end."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from torch.distributed.fsdp import CPUOffloadPolicy

from lexergy.errors import LexergyError
from lexergy.training.loop import train
from lexergy.training.sharding import layer_classes, sharding_plugin
from toys.processes import launch
from toys.training import Interrupted, ToyEnergy, toy_config, toy_lm, train_toy, train_toy_lm

SCRIPT = Path(__file__).parents[1] / "toys" / "training.py"


@pytest.fixture(scope="module")
def sharded(tmp_path_factory):
    """What two processes wrote: an energy that was interrupted and resumed, and an LM."""
    folder = tmp_path_factory.mktemp("sharded")
    launch(SCRIPT, "sharded", folder, ACCELERATE_USE_FSDP="true")
    return folder


@pytest.mark.parametrize("kind", ["energy", "lm"])
def test_sharded_weights_learn_as_whole_ones(kind, sharded, tmp_path):
    if kind == "energy":
        model, alone = train_toy(toy_config(gradient_accumulation=2), tmp_path, dropout=0.0)
    else:
        model, alone = train_toy_lm(tmp_path)
    history = json.loads((sharded / kind / "history.json").read_text())
    for record, expected in zip(history, alone.history, strict=True):
        assert record["loss"] == pytest.approx(expected.loss, abs=1e-5)
        assert record["validation"] == pytest.approx(expected.validation, abs=1e-5)
    assert history[-1]["validation"]["loss"] < history[0]["validation"]["loss"] - 0.1
    for rank in (0, 1):  # both processes end with the whole model and its best weights
        weights = load_file(sharded / f"{kind}-{rank}.safetensors")
        torch.testing.assert_close(weights, dict(model.named_parameters()), atol=1e-5, rtol=0)


def test_each_process_holds_its_part_and_a_killed_training_goes_on(sharded):
    whole = {name: list(value.shape) for name, value in toy_lm().get_submodule("model.layers.0").named_parameters()}
    facts = [json.loads((sharded / f"facts-{rank}.json").read_text()) for rank in (0, 1)]
    assert facts[0]["held"] == facts[1]["held"]
    assert facts[0]["held"] == {name: [rows // 2, *rest] for name, (rows, *rest) in whole.items()}
    # 11 steps of two parts and 2 evaluations came before; the last checkpoint is of step 8.
    assert facts[0]["calls"] == facts[1]["calls"] == 2 * (30 - 8) + 4


def test_processes_part_before_they_end(sharded):
    assert [json.loads((sharded / f"bound-{rank}.json").read_text()) for rank in (0, 1)] == [False, False]


def test_processes_write_checkpoints_that_go_on_without_them(sharded, tmp_path):
    folder = shutil.copytree(sharded / "half", tmp_path / "half")
    energy, spared = ToyEnergy(), Interrupted(1000)
    train(energy, spared, toy_config(gradient_accumulation=2), folder, progress=False)
    assert 1000 - spared.calls == 2 * (30 - 8) + 4
    together = load_file(sharded / "energy-0.safetensors")
    torch.testing.assert_close(dict(energy.named_parameters()), together, atol=1e-5, rtol=0)


def test_layers_are_gathered_and_the_rest_is_one_piece():
    assert layer_classes(nn.Sequential(toy_lm())) == ["LlamaDecoderLayer"]
    assert layer_classes(ToyEnergy()) == []


def test_the_launcher_may_ask_for_more(monkeypatch):
    """Version and layers are ours; the rest is the launcher's, as Accelerate reads it."""
    monkeypatch.setenv("FSDP_VERSION", "1")
    monkeypatch.setenv("FSDP_RESHARD_AFTER_FORWARD", "full_shard")
    monkeypatch.setenv("FSDP_OFFLOAD_PARAMS", "true")
    monkeypatch.setenv("FSDP_CPU_RAM_EFFICIENT_LOADING", "true")
    plugin = sharding_plugin("bf16")
    assert plugin.fsdp_version == 2
    assert isinstance(plugin.cpu_offload, CPUOffloadPolicy)
    assert not plugin.cpu_ram_efficient_loading
    assert plugin.mixed_precision_policy.param_dtype == torch.bfloat16
    assert plugin.mixed_precision_policy.reduce_dtype == torch.float32
    monkeypatch.setenv("FSDP_ACTIVATION_CHECKPOINTING", "true")
    with pytest.raises(LexergyError, match="activation checkpointing; expected none"):
        sharding_plugin("no")
