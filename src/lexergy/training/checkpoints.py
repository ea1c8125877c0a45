"""Where a training stands, in one safetensors file whose header carries the JSON part."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from lexergy.errors import LexergyError
from lexergy.files import atomic_path, canonical_json, remove
from lexergy.training.sharding import own_part, whole

CHECKPOINT_FOLDER = "checkpoint"
STATE_FILE = "state.safetensors"

Group = dict[str, Tensor]


@dataclass(frozen=True)
class HistoryRecord:
    """One evaluation, with the means of training's own numbers since the one before it."""

    step: int
    learning_rate: float
    loss: float | None  # of training; none before the first step
    training: dict[str, float]
    validation: dict[str, float]


@dataclass
class TrainingState:
    """All that a training remembers besides tensors."""

    step: int = 0
    best_step: int = 0
    best_loss: float = float("inf")
    evaluations_since_best: int = 0
    history: list[HistoryRecord] = field(default_factory=list)
    sums: dict[str, float] = field(default_factory=dict)  # of loss and metrics since the last record
    num_summed: int = 0
    loss_scaler: dict[str, float] = field(default_factory=dict)  # of fp16

    @classmethod
    def from_dict(cls, content: dict) -> "TrainingState":
        history = [HistoryRecord(**record) for record in content.pop("history")]
        return cls(history=history, **content)


@dataclass(frozen=True)
class Checkpoint:
    """A moment between two steps: tensors by parameter name, in groups such as `best` or `exp_avg`."""

    state: TrainingState
    groups: dict[str, Group]


def trainable_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """What is trained and saved, by name: the parameters that require a gradient, tied ones once."""
    trainable = {name: value for name, value in model.named_parameters() if value.requires_grad}
    if not trainable:
        raise LexergyError(
            "the model has no parameter that requires a gradient; expected at least one; "
            "call `requires_grad_()` on what should be trained."
        )
    return trainable


def snapshot(parameters: Mapping[str, Tensor]) -> Group:
    """A copy in main memory of what this process holds."""
    return {name: own_part(parameter.detach()).to("cpu", copy=True) for name, parameter in parameters.items()}


def restore(parameters: dict[str, nn.Parameter], values: Group) -> None:
    """Put a snapshot back."""
    with torch.no_grad():
        for name, parameter in parameters.items():
            own_part(parameter).copy_(values[name])


def optimizer_groups(optimizer: torch.optim.Optimizer, parameters: dict[str, nn.Parameter]) -> dict[str, Group]:
    """The optimiser's own tensors (Adam: `exp_avg`, `exp_avg_sq`, `step`) by parameter name."""
    groups: dict[str, Group] = {}
    for name, parameter in parameters.items():
        for key, value in optimizer.state.get(parameter, {}).items():
            groups.setdefault(key, {})[name] = value
    return groups


def restore_optimizer(
    optimizer: torch.optim.Optimizer, parameters: dict[str, nn.Parameter], groups: dict[str, Group]
) -> None:
    """Give each parameter its tensors back, by position as torch's state_dict counts them."""
    names = {parameter: name for name, parameter in parameters.items()}
    ordered = [names[parameter] for group in optimizer.param_groups for parameter in group["params"]]
    state = {
        position: {key: values[name] for key, values in groups.items() if name in values}
        for position, name in enumerate(ordered)
    }
    filled = {position: values for position, values in state.items() if values}
    optimizer.load_state_dict({"state": filled, "param_groups": optimizer.state_dict()["param_groups"]})


def gathered(groups: Mapping[str, Mapping[str, Tensor]], *, keep: bool) -> dict[str, Group]:
    """Whole tensors in main memory; all processes take part, and those that do not `keep` them get none."""
    wholes: dict[str, Group] = {group: {} for group in groups}
    for group, values in groups.items():
        for name, value in values.items():
            tensor = whole(value.detach())
            if keep:
                wholes[group][name] = tensor.cpu().contiguous()
    return wholes


def save_checkpoint(folder: Path, checkpoint: Checkpoint, fingerprint: dict) -> None:
    """Replace the checkpoint in `folder` wholly or not at all."""
    tensors = {
        f"{group}/{name}": tensor for group, values in checkpoint.groups.items() for name, tensor in values.items()
    }
    metadata = {"state": json.dumps(asdict(checkpoint.state)), "fingerprint": canonical_json(fingerprint)}
    with atomic_path(folder / CHECKPOINT_FOLDER / STATE_FILE) as partial:
        save_file(tensors, partial, metadata)


def load_checkpoint(folder: Path, fingerprint: dict) -> Checkpoint | None:
    """The checkpoint in `folder`, none where training starts; one of another training is an error."""
    path = folder / CHECKPOINT_FOLDER / STATE_FILE
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata()
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (not a mapping)
    except (SafetensorError, OSError) as error:
        raise LexergyError(
            f"{path} cannot be read ({error}); expected a whole checkpoint; remove it to start again."
        ) from None
    if metadata["fingerprint"] != canonical_json(fingerprint):
        raise LexergyError(
            f"{path} belongs to a training with other settings, data or parameters; expected the same; "
            "restore them to go on, or remove the file to start again."
        )
    groups: dict[str, Group] = {}
    for key, tensor in tensors.items():
        group, name = key.split("/", 1)
        groups.setdefault(group, {})[name] = tensor
    return Checkpoint(TrainingState.from_dict(json.loads(metadata["state"])), groups)


def remove_checkpoint(folder: Path) -> None:
    if (folder / CHECKPOINT_FOLDER).exists():
        remove(folder / CHECKPOINT_FOLDER)
