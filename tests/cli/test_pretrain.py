"""`lexergy pretrain` on tiny models of every kind."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file

from lexergy.cli.main import run_command
from toys.commands import CLOZE_MODELS, output_of


def test_pretraining_again_only_reads(cloze_run, cloze_recipe_file, capsys):
    before = {path: path.stat().st_mtime_ns for path in cloze_run.rglob("*.safetensors")}
    output = output_of(["pretrain", cloze_recipe_file, "--out", cloze_run, "--json"], capsys)
    result = json.loads(output.out)
    assert list(result["models"]) == CLOZE_MODELS
    assert set(result["models"]["electric"]["validation"]) == {"classifier_loss", "noise_loss", "accuracy", "log_z"}
    assert "stage" not in output.err
    assert before == {path: path.stat().st_mtime_ns for path in cloze_run.rglob("*.safetensors")}


def test_pretraining_prints_a_column_for_each_model(cloze_run, cloze_recipe_file, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    out = output_of(["pretrain", cloze_recipe_file, "--out", cloze_run], capsys).out
    assert all(name in out for name in CLOZE_MODELS)
    assert "log Z" in out


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("kind: two-tower", "kind: three-tower", "models.two-tower.kind"),
        ("noise_size: 1", "noises: 1", "unknown key `models.electric.noises`"),
        ("model: two-tower", "model: masked-lm", "expected a two-tower model that stands before it"),
        ("rising_steps: 2", "rising_steps: 5", "comes to its full strength"),
        ("noise_size: 1", "noise_size: 1, noise: {model: two-tower, rising_steps: 1}", "in place of `noise_size`"),
        ("kind: masked-lm,", "kind: masked-lm, noise_size: 0.5,", "leave it out for masked-lm"),
        ("  electra:", "  tokens:", "names its folder"),
        ("kind: masked-lm,", "kind: masked-lm, encoder: some,", "`encoder` is for Electric and ELECTRA"),
    ],
    ids=["kind", "key", "not-towers", "rises-too-long", "two-noises", "noise", "name", "encoder"],
)
def test_mistakes_in_a_recipe_name_their_key(cloze_recipe_file, tmp_path, capsys, old, new, message):
    path = tmp_path / "mistaken.yaml"
    path.write_text(cloze_recipe_file.read_text().replace(old, new, 1))
    assert run_command(["pretrain", str(path)]) == 2
    assert message in capsys.readouterr().err


def test_a_finished_noise_is_the_model_of_that_name(cloze_run):
    finished = load_file(cloze_run / "two-tower" / "model.safetensors")
    beside = load_file(cloze_run / "finished" / "noise" / "model.safetensors")
    assert finished.keys() == beside.keys()
    assert all(torch.equal(value, beside[name]) for name, value in finished.items())
    manifest = json.loads((cloze_run / "finished" / "stage.json").read_text())
    assert list(manifest["built_from"]) == ["tokens", "two-tower"]


def test_an_encoder_of_another_width_is_told_so(cloze_run, cloze_recipe_file, tmp_path, capsys):
    path = tmp_path / "wider.yaml"
    path.write_text(cloze_recipe_file.read_text().replace("/encoder, hidden_size: 16", "/encoder, hidden_size: 32"))
    folder = shutil.copytree(cloze_run, tmp_path / "run")
    assert run_command(["pretrain", str(path), "--out", str(folder)]) == 2
    assert "`hidden_size` is 32 and that of the encoder" in capsys.readouterr().err
