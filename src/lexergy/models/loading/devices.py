"""Where weights lie: a private matter of each model, since tensors come in from anywhere and go out on the CPU."""

import torch
from torch import nn

TOKENS_AT_ONCE_CPU = 2**11  # what a layer writes of so many is still in the caches when the next one reads it
TOKENS_AT_ONCE = 2**13


def default_device() -> torch.device:
    """A GPU where there is one: under `accelerate launch`, this process's own."""
    return torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")


def device_of(model: nn.Module) -> torch.device:
    """That of its weights; of a module without any, the CPU."""
    weight = next(model.parameters(), None)
    return torch.device("cpu") if weight is None else weight.device


def tokens_at_once(model: nn.Module) -> int:
    """How many tokens a model should read in one pass: bounds the memory, changes no result."""
    return TOKENS_AT_ONCE_CPU if device_of(model).type == "cpu" else TOKENS_AT_ONCE
