"""A small energy, data that it can learn, and a training of it; run as a script by the tests of processes."""

import atexit
import json
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from lexergy.models.architectures.scratch import build_causal_lm
from lexergy.recipes.sections.training import TrainingRecipe
from lexergy.training.loop import TrainingResult, train
from lexergy.training.objectives.contrastive import ContrastiveData, NoiseContrastive
from lexergy.training.objectives.language import LanguageModelling
from lexergy.training.sharding import own_part

VOCAB = 11


class ToyEnergy(nn.Module):
    """Mean of embeddings over the sequence, a frozen layer, dropout, a scalar."""

    def __init__(self, dropout: float = 0.0, seed: int = 0) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.embedding = nn.Embedding(VOCAB, 8)
            self.frozen = nn.Linear(8, 8)
            self.head = nn.Sequential(nn.Dropout(dropout), nn.Linear(8, 1))
        self.frozen.requires_grad_(False)

    def score(self, prefix: Tensor, continuations: Tensor, features: Tensor | None = None) -> Tensor:
        prefix = prefix[:, None].expand(-1, continuations.shape[1], -1)  # (B, K, P)
        tokens = torch.cat([prefix, continuations], dim=-1)  # (B, K, L)
        return self.head(self.frozen(self.embedding(tokens).mean(dim=-2))).squeeze(-1)


def toy_data(rows: int, seed: int, num_negatives: int = 3) -> ContrastiveData:
    """People write small tokens, the language model any."""
    generator = torch.Generator().manual_seed(seed)
    return ContrastiveData(
        prefixes=torch.randint(VOCAB, (rows, 3), generator=generator),
        continuations=torch.randint(VOCAB // 2, (rows, 5), generator=generator),
        negatives=torch.randint(VOCAB, (rows, num_negatives, 5), generator=generator),
    )


def toy_objective() -> NoiseContrastive:
    return NoiseContrastive(toy_data(50, seed=1), toy_data(20, seed=2))


def toy_config(**changes: object) -> TrainingRecipe:
    settings = {
        "learning_rate": 0.01,
        "max_steps": 30,
        "warmup_steps": 5,
        "batch_size": 8,
        "evaluate_every": 7,
        "checkpoint_every": 4,
        "seed": 3,
    }
    return TrainingRecipe.model_validate({**settings, **changes})


def long_config(checkpoint_every: int) -> TrainingRecipe:
    return toy_config(max_steps=200, evaluate_every=50, checkpoint_every=checkpoint_every)


def train_toy(config: TrainingRecipe, folder: Path, dropout: float = 0.1) -> tuple[ToyEnergy, TrainingResult]:
    model = ToyEnergy(dropout)
    return model, train(model, toy_objective(), config, folder, progress=False)


class Interrupted(NoiseContrastive):
    """An objective that is interrupted at its n-th call, be it for a loss or an evaluation."""

    def __init__(self, calls: int) -> None:
        super().__init__(toy_data(50, seed=1), toy_data(20, seed=2))
        self.calls = calls

    def loss(self, *arguments: object) -> tuple[Tensor, dict[str, float]]:
        self._count()
        return super().loss(*arguments)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        self._count()
        return super().evaluate(model)

    def _count(self) -> None:
        self.calls -= 1
        if self.calls < 0:
            raise KeyboardInterrupt


class Watched(LanguageModelling):
    """A language model's objective that remembers how much of the first layer this process holds."""

    held: ClassVar[dict[str, list[int]]] = {}

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        layer = model.get_submodule("model.layers.0")
        self.held.update({name: list(own_part(value).shape) for name, value in layer.named_parameters()})
        return super().evaluate(model)


def toy_lm() -> nn.Module:
    """Two layers, each gathered on its own where weights are sharded, below tied embeddings."""
    return build_causal_lm(vocab_size=7, hidden_size=16, num_layers=2, num_heads=2, max_length=16, seed=0)


def train_toy_lm(folder: Path) -> tuple[nn.Module, TrainingResult]:
    stream = torch.arange(700) % 7
    # With so large an epsilon Adam's steps follow the gradient's scale: a sum over processes is no mean.
    model, config = toy_lm(), toy_config(learning_rate=0.02, max_steps=12, adam_epsilon=0.03, max_grad_norm=None)
    return model, train(model, Watched(stream, stream, 16), config, folder, progress=False)


def train_sharded(folder: Path) -> None:
    """An energy, interrupted and resumed, and a language model; each process writes what it saw and ends with."""
    energy, spared, rank = ToyEnergy(), Interrupted(1000), os.environ["RANK"]
    config = toy_config(gradient_accumulation=2)
    with suppress(KeyboardInterrupt):
        train(ToyEnergy(), Interrupted(25), config, folder / "energy", progress=False)
    if rank == "0":
        shutil.copytree(folder / "energy", folder / "half")
    train(energy, spared, config, folder / "energy", progress=False)
    lm, _ = train_toy_lm(folder / "lm")
    facts = {"calls": 1000 - spared.calls, "held": Watched.held}
    (folder / f"facts-{rank}.json").write_text(json.dumps(facts))
    for name, model in {"energy": energy, "lm": lm}.items():
        weights = {key: value.detach().clone() for key, value in model.named_parameters()}
        save_file(weights, folder / f"{name}-{rank}.safetensors")


def note_parting(folder: Path) -> None:
    """Whether this process, when it ends, is still bound to the others."""
    (folder / f"bound-{os.environ.get('RANK')}.json").write_text(json.dumps(torch.distributed.is_initialized()))


if __name__ == "__main__":
    task, path = sys.argv[1], Path(sys.argv[2])
    atexit.register(note_parting, path)  # what is registered first is called last
    if task == "long":
        train_toy(long_config(checkpoint_every=1), path)
    elif task == "shared":
        train_toy(toy_config(gradient_accumulation=2), path, dropout=0.0)
    elif task == "sharded":
        train_sharded(path)
