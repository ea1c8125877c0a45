"""Models that name each other can be moved together; nothing tells whose folders they were in."""

import json
import shutil
from pathlib import Path

import torch

from lexergy import CausalLM, SumEnergy
from lexergy.models.energies import EnergyModel, LinearEnergy
from lexergy.models.energies.tokens import LinearEnergyConfig
from lexergy.models.loading.places import located, portable
from lexergy.testing import EnumerableLM


def test_a_path_is_written_from_where_it_is_read(tmp_path, monkeypatch):
    (tmp_path / "models" / "lm").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    written = portable("models/lm", "runs/mine/energy")
    assert written == "../../../models/lm"
    monkeypatch.chdir("/")
    assert located(written, tmp_path / "runs/mine/energy") == str((tmp_path / "models/lm").resolve())
    for name in ("smollm2-135m", "someone/model", "openai:http://localhost:1"):
        assert located(portable(name, tmp_path), tmp_path) == name
    assert portable("/proc", tmp_path) == "/proc"  # nothing in common


def test_a_reference_to_an_lm_is_moved_with_it(tmp_path, monkeypatch):
    EnumerableLM().save_pretrained(tmp_path / "here" / "model")
    monkeypatch.chdir(tmp_path / "here")
    CausalLM.from_pretrained("model").save_pretrained("run/lm")
    assert str(tmp_path) not in Path("run/lm/lexergy_lm.json").read_text()
    shutil.move(tmp_path / "here", tmp_path / "there")
    monkeypatch.chdir(tmp_path)
    tokens = torch.tensor([[1, 2, 3, 4]])
    moved = CausalLM.from_pretrained(tmp_path / "there" / "run" / "lm")
    expected = EnumerableLM().log_prob(tokens, prefix_length=2)
    torch.testing.assert_close(moved.log_prob(tokens, prefix_length=2), expected, rtol=0, atol=1e-5)


def test_the_parts_of_a_sum_elsewhere(tmp_path):
    LinearEnergy(LinearEnergyConfig(vocab_size=7)).save_pretrained(tmp_path / "here" / "first" / "linear")
    SumEnergy.of([tmp_path / "here" / "first" / "linear"]).save_pretrained(tmp_path / "here" / "second" / "sum")
    config = json.loads((tmp_path / "here" / "second" / "sum" / "config.json").read_text())
    assert config["parts"] == ["../../first/linear"]
    shutil.move(tmp_path / "here", tmp_path / "there")
    assert len(EnergyModel.from_pretrained(tmp_path / "there" / "second" / "sum").parts) == 1
