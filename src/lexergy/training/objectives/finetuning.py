"""Fine-tuning: the mean loss of labelled rows, and learning rates that fall from layer to layer."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lexergy.errors import LexergyError
from lexergy.models.finetuned.model import FinetunedEncoder
from lexergy.models.finetuned.rows import Row, RowWriter
from lexergy.models.loading.devices import device_of
from lexergy.training.objectives.contrastive import EVALUATION_ROWS


@dataclass(frozen=True)
class LabelledRows:
    """Rows and what the model should answer: numbers of labels (N,), numbers (N,), or first and last tokens (N, 2)."""

    rows: Sequence[Row]
    targets: Tensor

    def __post_init__(self) -> None:
        if not self.rows or len(self.rows) != len(self.targets):
            raise LexergyError(f"there are {len(self.rows)} rows and {len(self.targets)} targets; expected as many.")


class Finetuning:
    """The mean over examples of `FinetunedEncoder.losses`."""

    def __init__(self, train: LabelledRows, validation: LabelledRows, writer: RowWriter) -> None:
        self.train = train
        self.validation = validation
        self.writer = writer

    @property
    def num_examples(self) -> int:
        return len(self.train.rows)

    def loss(
        self, model: FinetunedEncoder, indices: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, dict[str, float]]:
        return self._losses(model, self.train, indices).mean(), {}

    def evaluate(self, model: FinetunedEncoder) -> dict[str, float]:
        every = torch.arange(len(self.validation.rows)).split(EVALUATION_ROWS)
        losses = torch.cat([self._losses(model, self.validation, indices) for indices in every])
        return {"loss": float(losses.double().mean())}

    def _losses(self, model: FinetunedEncoder, data: LabelledRows, indices: Tensor) -> Tensor:  # (B,) -> (B,)
        device = device_of(model)
        batch = self.writer.batch([data.rows[index] for index in indices.tolist()]).to(device)
        return model.losses(batch, data.targets[indices].to(device))


def layer_rate_factors(model: FinetunedEncoder, decay: float) -> dict[str, float]:
    """Layer-wise learning-rate decay (App. B, Table 3, Clark et al. 2020): layer l of L learns at d^(L - l).

    The embeddings are layer 0; the head, and what comes after the last layer, learn at the full rate.
    """
    count = model.encoder.config.num_hidden_layers
    layers = next(
        (
            name
            for name, module in model.encoder.named_modules()
            if isinstance(module, nn.ModuleList) and len(module) == count
        ),
        None,
    )
    return {
        f"encoder.{name}": decay ** (count - _depth(name, layers, count))
        for name, _ in model.encoder.named_parameters()
    }


def _depth(name: str, layers: str | None, count: int) -> int:
    if layers is not None and name.startswith(f"{layers}."):
        return 1 + int(name.removeprefix(f"{layers}.").partition(".")[0])
    return 0 if "embed" in name else count
