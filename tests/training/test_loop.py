import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from torch import nn

from lexergy.errors import LexergyError
from lexergy.models.architectures.scratch import build_causal_lm, build_masked_lm
from lexergy.training.loop import train
from lexergy.training.objectives.language import LanguageModelling, MaskedLanguageModelling
from toys.processes import launch
from toys.training import Interrupted, ToyEnergy, long_config, toy_config, toy_objective, train_toy

SCRIPT = Path(__file__).parents[1] / "toys" / "training.py"


def same_weights(first: nn.Module, second: nn.Module) -> bool:
    return all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


class Valley:
    """Training pushes one weight up steadily; the validation loss is lowest at 0.25."""

    num_examples = 4

    def loss(self, model, indices, generator):
        return -model.weight.sum(), {}

    def evaluate(self, model):
        return {"loss": (model.weight.item() - 0.25) ** 2}


class OneWeight(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))


def test_an_energy_learns(tmp_path):
    energy, result = train_toy(toy_config(learning_rate=0.03, max_steps=100, evaluate_every=50), tmp_path)
    assert result.history[0].validation["loss"] > 1.3
    assert result.validation["loss"] < 0.9
    assert result.validation["accuracy"] > 0.75
    assert not energy.training
    # The model holds the weights that were measured.
    assert toy_objective().evaluate(energy) == result.validation


@pytest.mark.parametrize("kind", ["causal", "masked"])
def test_language_models_learn(kind, tmp_path):
    stream = torch.arange(700) % 7
    shape = {"vocab_size": 8, "hidden_size": 16, "num_layers": 1, "num_heads": 2, "max_length": 16, "seed": 0}
    if kind == "causal":
        model, objective = build_causal_lm(**shape), LanguageModelling(stream, stream, 16)
    else:
        model = build_masked_lm(**shape)
        objective = MaskedLanguageModelling(stream, stream, 16, mask_token=7, vocab_size=8)
    config = toy_config(learning_rate=0.02, max_steps=120, evaluate_every=120)
    result = train(model, objective, config, tmp_path, progress=False)
    assert result.history[0].validation["loss"] > 1.9
    assert result.validation["loss"] < (0.1 if kind == "causal" else 1.0)


@pytest.mark.parametrize("settings", [{}, {"gradient_accumulation": 2, "weight_decay": 0.1, "patience": 2}])
def test_interrupted_anywhere_it_ends_the_same(settings, tmp_path):
    config = toy_config(**settings)
    whole, expected = train_toy(config, tmp_path / "whole")
    folder = tmp_path / "interrupted"
    moments = random.Random(0)
    for _ in range(6):
        with pytest.raises(KeyboardInterrupt):
            train(ToyEnergy(0.1), Interrupted(moments.randrange(12)), config, folder, progress=False)
    resumed, result = train_toy(config, folder)
    assert result == expected
    assert same_weights(resumed, whole)
    for name in ("whole", "interrupted"):
        assert [path.name for path in (tmp_path / name).iterdir()] == ["history.json"]
    texts = [(tmp_path / name / "history.json").read_text() for name in ("whole", "interrupted")]
    assert texts[0] == texts[1]


def test_a_resumed_training_goes_on_instead_of_starting_again(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train(ToyEnergy(0.1), Interrupted(20), toy_config(), tmp_path, progress=False)
    spared = Interrupted(10**6)
    train(ToyEnergy(0.1), spared, toy_config(), tmp_path, progress=False)
    # 17 steps and 3 evaluations happened; the last checkpoint is of step 16.
    assert 10**6 - spared.calls == (30 - 16) + 3


def test_killed_it_ends_the_same(tmp_path):
    process = subprocess.Popen([sys.executable, SCRIPT, "long", tmp_path / "killed"])
    checkpoint = tmp_path / "killed" / "checkpoint" / "state.safetensors"
    while not checkpoint.exists():
        assert process.poll() is None
        time.sleep(0.01)
    time.sleep(0.3)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert checkpoint.exists()
    assert not (tmp_path / "killed" / "history.json").exists()
    (checkpoint.parent / ".state.safetensors.999999999.abcd1234.partial").write_bytes(b"half")
    resumed, result = train_toy(long_config(checkpoint_every=100), tmp_path / "killed")
    whole, expected = train_toy(long_config(checkpoint_every=100), tmp_path / "whole")
    assert result == expected
    assert same_weights(resumed, whole)
    assert [path.name for path in (tmp_path / "killed").iterdir()] == ["history.json"]


def test_two_processes_train_as_one(tmp_path):
    launch(SCRIPT, "shared", tmp_path)
    together = json.loads((tmp_path / "history.json").read_text())
    _, alone = train_toy(toy_config(gradient_accumulation=2), tmp_path / "alone", dropout=0.0)
    for record, expected in zip(together, alone.history, strict=True):
        assert record["loss"] == pytest.approx(expected.loss, abs=1e-5)
        assert record["validation"] == pytest.approx(expected.validation, abs=1e-5)


def test_accumulated_batches_equal_one_large_batch(tmp_path):
    large, _ = train_toy(toy_config(batch_size=16), tmp_path / "large", dropout=0.0)
    small, _ = train_toy(toy_config(batch_size=8, gradient_accumulation=2), tmp_path / "small", dropout=0.0)
    for a, b in zip(large.parameters(), small.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=0)


def test_the_best_weights_are_kept_and_patience_ends_the_training(tmp_path):
    config = toy_config(
        learning_rate=0.1, schedule="constant", warmup_steps=0, evaluate_every=1, patience=3, max_steps=50
    )
    model = OneWeight()
    result = train(model, Valley(), config, tmp_path, progress=False)
    # Adam moves by the rate: 0.1, 0.2, 0.3, ...; 0.2 and 0.3 tie but for rounding.
    assert result.best_step in (2, 3)
    assert model.weight.item() == pytest.approx(0.1 * result.best_step, abs=1e-5)
    assert (model.weight.item() - 0.25) ** 2 == result.validation["loss"]
    assert result.steps == result.best_step + 3
    assert result.stopped_early


def test_patience_starts_anew_with_each_improvement(tmp_path):
    class Scripted(Valley):
        losses = iter([5.0, 6.0, 4.0, 4.0, 7.0, 1.0])

        def evaluate(self, model):
            return {"loss": next(self.losses)}

    config = toy_config(evaluate_every=1, patience=2)
    result = train(OneWeight(), Scripted(), config, tmp_path, progress=False)
    assert (result.best_step, result.steps) == (2, 4)


def test_the_best_weights_survive_an_interruption(tmp_path):
    class Interruptible(Valley):
        def evaluate(self, model):
            if model.weight.item() > last:
                raise KeyboardInterrupt
            return super().evaluate(model)

    config = toy_config(
        learning_rate=0.1,
        schedule="constant",
        warmup_steps=0,
        evaluate_every=1,
        checkpoint_every=1,
        max_steps=9,
    )
    last = 0.65
    with pytest.raises(KeyboardInterrupt):
        train(OneWeight(), Interruptible(), config, tmp_path, progress=False)
    last = 2.0
    model = OneWeight()
    result = train(model, Interruptible(), config, tmp_path, progress=False)
    assert result.best_step in (2, 3)
    assert model.weight.item() == pytest.approx(0.1 * result.best_step, abs=1e-5)


def test_a_training_that_only_harms_leaves_the_model_as_it_was(tmp_path):
    model = OneWeight()
    model.weight.data.fill_(0.25)
    result = train(model, Valley(), toy_config(), tmp_path, progress=False)
    assert result.best_step == 0
    assert model.weight.item() == 0.25
    assert not result.stopped_early


def test_the_last_weights_are_kept_where_they_are_asked_for_and_patience_still_counts(tmp_path):
    config = toy_config(
        learning_rate=0.1, schedule="constant", warmup_steps=0, evaluate_every=1, patience=3, max_steps=50, keep="last"
    )
    model = OneWeight()
    result = train(model, Valley(), config, tmp_path, progress=False)
    assert result.best_step == result.steps
    assert result.steps in (5, 6)  # three after the best, 2 or 3
    assert model.weight.item() == pytest.approx(0.1 * result.steps, abs=1e-5)
    assert (model.weight.item() - 0.25) ** 2 == result.validation["loss"]


def test_gradients_are_clipped_together(tmp_path):
    """With epsilon far above the gradient Adam's step is proportional to it: clipping shortens both alike."""

    class Slope:
        num_examples = 1

        def loss(self, model, indices, generator):
            return 3 * model.first.sum() + 4 * model.second.sum(), {}

        def evaluate(self, model):
            return {"loss": -abs(model.first.item())}

    def moves(limit):
        model = nn.Module()
        model.first, model.second = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))
        config = toy_config(
            max_grad_norm=limit,
            adam_epsilon=1e6,
            max_steps=1,
            warmup_steps=0,
            learning_rate=1.0,
            batch_size=1,
        )
        train(model, Slope(), config, tmp_path, progress=False)
        return torch.tensor([model.first.item(), model.second.item()]) * -1e6

    torch.testing.assert_close(moves(None), torch.tensor([3.0, 4.0]), rtol=1e-4, atol=0)
    torch.testing.assert_close(moves(1.0), torch.tensor([0.6, 0.8]), rtol=1e-4, atol=0)
    torch.testing.assert_close(moves(10.0), torch.tensor([3.0, 4.0]), rtol=1e-4, atol=0)


def test_weight_decay_spares_vectors(tmp_path):
    class Nothing:
        num_examples = 1

        def loss(self, model, indices, generator):
            return 0 * sum(parameter.sum() for parameter in model.parameters()), {}

        def evaluate(self, model):
            return {"loss": model.weight.abs().sum().item()}

    model = nn.Linear(2, 2)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    config = toy_config(learning_rate=0.5, weight_decay=0.1, max_steps=1, warmup_steps=0, batch_size=1)
    train(model, Nothing(), config, tmp_path, progress=False)
    torch.testing.assert_close(model.weight.detach(), 0.95 * before["weight"])
    assert torch.equal(model.bias, before["bias"])


def test_bf16_trains_near_float32_with_float32_weights(tmp_path):
    exact, expected = train_toy(toy_config(), tmp_path / "no", dropout=0.0)
    model, result = train_toy(toy_config(mixed_precision="bf16"), tmp_path / "bf16", dropout=0.0)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert result.validation["loss"] == pytest.approx(expected.validation["loss"], abs=0.02)
    assert not same_weights(exact, model)
    assert "forward" not in vars(model)


def test_fp16_without_a_gpu_is_refused(tmp_path):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    with pytest.raises(LexergyError, match="mixed_precision"):
        train_toy(toy_config(mixed_precision="fp16"), tmp_path)


def test_only_trained_parameters_are_in_the_checkpoint(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train(ToyEnergy(), Interrupted(20), toy_config(), tmp_path, progress=False)
    with safe_open(tmp_path / "checkpoint" / "state.safetensors", framework="pt") as file:
        names = set(file.keys())
    trained = ("embedding.weight", "head.1.weight", "head.1.bias")
    groups = ("parameters", "best", "exp_avg", "exp_avg_sq", "step")
    assert names == {f"{group}/{name}" for group in groups for name in trained}


def test_frozen_weights_and_the_global_generator_are_left_alone(tmp_path):
    before = torch.get_rng_state()
    energy, _ = train_toy(toy_config(), tmp_path)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(energy.frozen.weight, ToyEnergy().frozen.weight)
    assert not torch.equal(energy.embedding.weight, ToyEnergy().embedding.weight)


def test_dropout_masks_differ_from_step_to_step(tmp_path):
    class Recording:
        num_examples = 1
        seen: list[float]

        def loss(self, model, indices, generator):
            self.seen.append(model.head[0](torch.ones(64)).sum().item())
            return model.head[1].weight.sum(), {}

        def evaluate(self, model):
            return {"loss": 0.0}

    objective = Recording()
    objective.seen = []
    train(ToyEnergy(0.5), objective, toy_config(max_steps=10, batch_size=1), tmp_path, progress=False)
    assert len(set(objective.seen)) > 3


@pytest.mark.parametrize("broken", ["loss", "gradient"])
def test_a_loss_that_is_not_a_number_ends_with_a_remedy(broken, tmp_path):
    class Broken(Valley):
        def loss(self, model, indices, generator):
            if broken == "loss":
                return model.weight.sum() * float("nan"), {}
            return model.weight.sqrt().sum(), {}  # the slope of sqrt at 0 is infinite

    with pytest.raises(LexergyError, match=f"{broken} of unit is not finite at step 1.*learning_rate"):
        train(OneWeight(), Broken(), toy_config(), tmp_path, progress=False, label="unit")


def test_other_settings_do_not_go_on_from_a_checkpoint(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train(ToyEnergy(0.1), Interrupted(20), toy_config(), tmp_path, progress=False)
    with pytest.raises(LexergyError, match="other settings"):
        train_toy(toy_config(learning_rate=0.02), tmp_path)
    train_toy(toy_config(checkpoint_every=5), tmp_path)


def test_the_history_says_how_it_went(tmp_path):
    _, result = train_toy(toy_config(), tmp_path)
    records = json.loads((tmp_path / "history.json").read_text())
    assert [record["step"] for record in records] == [0, 7, 14, 21, 28, 30]
    assert records[0]["loss"] is None
    assert set(records[1]["training"]) == {"accuracy", "energy_data", "energy_noise", "log_z"}
    assert records[-1]["validation"] == result.history[-1].validation


def test_progress_is_shown_on_stderr(tmp_path, capsys):
    train(ToyEnergy(), toy_objective(), toy_config(), tmp_path, label="states")
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "states 30/30" in printed.err
    assert "accuracy" in printed.err
