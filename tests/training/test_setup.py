import pytest

from lexergy.errors import LexergyError
from lexergy.recipes.sections.training import TrainingRecipe
from lexergy.training.setup import build_accelerator


def test_processes_that_do_not_know_of_each_other_are_refused(monkeypatch, tmp_path):
    """They would all take themselves for the first and write the same files."""
    config = TrainingRecipe(learning_rate=1.0, max_steps=1, batch_size=2)
    assert build_accelerator(config, tmp_path).num_processes == 1
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(LexergyError, match="2 processes were launched and Accelerate sees 1"):
        build_accelerator(config, tmp_path)
