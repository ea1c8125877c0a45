"""Where weights lie: a private matter of each model, since tensors come in from anywhere and go out on the CPU."""

import torch
from torch import nn


def default_device() -> torch.device:
    """A GPU where there is one: under `accelerate launch`, this process's own."""
    return torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")


def device_of(model: nn.Module) -> torch.device:
    """That of its weights; of a module without any, the CPU."""
    weight = next(model.parameters(), None)
    return torch.device("cpu") if weight is None else weight.device
