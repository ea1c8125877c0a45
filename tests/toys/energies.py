"""Energies as training would leave them."""

from typing import TypeVar

import torch

from lexergy.models.energies import EnergyModel

Kind = TypeVar("Kind", bound=EnergyModel)


def wake(energy: Kind, seed: int = 0) -> Kind:
    """Give random weights to what starts at zero (head, n-gram input, LoRA's B), as training would."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in energy.named_parameters():
        if parameter.requires_grad and not parameter.any():
            # Large adapters make the sums of float32 so ill-conditioned that nothing could be compared.
            parameter.data.normal_(std=0.03 if "lora_" in name else 1, generator=generator)
    return energy.eval()
