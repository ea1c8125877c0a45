import pytest
import torch
from safetensors import safe_open

from lexergy.errors import LexergyError
from lexergy.training.checkpoints import (
    CHECKPOINT_FOLDER,
    STATE_FILE,
    Checkpoint,
    HistoryRecord,
    TrainingState,
    load_checkpoint,
    optimizer_groups,
    remove_checkpoint,
    restore_optimizer,
    save_checkpoint,
    trainable_parameters,
)
from toys.training import ToyEnergy

FINGERPRINT = {"seed": 1}


def a_checkpoint() -> Checkpoint:
    record = HistoryRecord(2, 0.1, 0.1 + 0.2, {"accuracy": 1 / 3}, {"loss": 2 / 3})
    state = TrainingState(step=3, best_step=2, best_loss=2 / 3, history=[record], sums={"loss": 0.7}, num_summed=1)
    return Checkpoint(state, {"parameters": {"a/b": torch.randn(2, 3)}, "step": {"a/b": torch.tensor(3.0)}})


def test_what_is_saved_is_loaded_exactly(tmp_path):
    saved = a_checkpoint()
    save_checkpoint(tmp_path, saved, FINGERPRINT)
    loaded = load_checkpoint(tmp_path, FINGERPRINT)
    assert loaded.state == saved.state
    for group in ("parameters", "step"):
        assert torch.equal(loaded.groups[group]["a/b"], saved.groups[group]["a/b"])
    assert [path.name for path in (tmp_path / CHECKPOINT_FOLDER).iterdir()] == [STATE_FILE]
    remove_checkpoint(tmp_path)
    assert load_checkpoint(tmp_path, FINGERPRINT) is None
    assert list(tmp_path.iterdir()) == []


def test_another_training_or_a_truncated_file_is_refused(tmp_path):
    save_checkpoint(tmp_path, a_checkpoint(), FINGERPRINT)
    with pytest.raises(LexergyError, match="other settings"):
        load_checkpoint(tmp_path, {"seed": 2})
    path = tmp_path / CHECKPOINT_FOLDER / STATE_FILE
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(LexergyError, match="cannot be read"):
        load_checkpoint(tmp_path, FINGERPRINT)


def test_an_interrupted_write_leaves_the_old_checkpoint(tmp_path, monkeypatch):
    first = a_checkpoint()
    save_checkpoint(tmp_path, first, FINGERPRINT)

    def half_written(tensors, path, metadata):
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr("lexergy.training.checkpoints.save_file", half_written)
    with pytest.raises(KeyboardInterrupt):
        save_checkpoint(tmp_path, a_checkpoint(), FINGERPRINT)
    assert [path.name for path in (tmp_path / CHECKPOINT_FOLDER).iterdir()] == [STATE_FILE]
    loaded = load_checkpoint(tmp_path, FINGERPRINT)
    assert torch.equal(loaded.groups["parameters"]["a/b"], first.groups["parameters"]["a/b"])


def test_an_optimizer_with_groups_gets_its_moments_back():
    energy = ToyEnergy()
    parameters = trainable_parameters(energy)
    # Matrices first, as with weight decay: not the order of the parameters' names.
    ordered = sorted(parameters.values(), key=lambda value: -value.ndim)
    groups = [{"params": ordered[:1]}, {"params": ordered[1:]}]
    saved = torch.optim.AdamW([dict(group) for group in groups])
    for number, parameter in enumerate(parameters.values()):
        parameter.grad = torch.full_like(parameter, number + 1.0)
    saved.step()
    fresh = torch.optim.AdamW([dict(group) for group in groups])
    restore_optimizer(fresh, parameters, optimizer_groups(saved, parameters))
    for parameter in parameters.values():
        for key, value in saved.state[parameter].items():
            assert torch.equal(fresh.state[parameter][key], value)


def test_frozen_parameters_are_not_trained_and_a_frozen_model_is_refused(tmp_path):
    energy = ToyEnergy()
    assert set(trainable_parameters(energy)) == {"embedding.weight", "head.1.weight", "head.1.bias"}
    with pytest.raises(LexergyError, match="requires a gradient"):
        trainable_parameters(energy.requires_grad_(False))


def test_the_file_is_readable_by_any_safetensors_reader(tmp_path):
    save_checkpoint(tmp_path, a_checkpoint(), FINGERPRINT)
    with safe_open(tmp_path / CHECKPOINT_FOLDER / STATE_FILE, framework="numpy") as file:
        assert set(file.keys()) == {"parameters/a/b", "step/a/b"}
        assert set(file.metadata()) == {"state", "fingerprint"}
