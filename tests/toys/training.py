"""A small energy, data that it can learn, and a training of it; run as a script by the tests of processes."""

import sys
from pathlib import Path

import torch
from torch import Tensor, nn

from lexergy.recipes.training import TrainingRecipe
from lexergy.training.loop import TrainingResult, train
from lexergy.training.objectives.contrastive import ContrastiveData, NoiseContrastive

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


if __name__ == "__main__":
    task, path = sys.argv[1], Path(sys.argv[2])
    if task == "long":
        train_toy(long_config(checkpoint_every=1), path)
    elif task == "shared":
        train_toy(toy_config(gradient_accumulation=2), path, dropout=0.0)
