"""The accelerator and the optimiser that a configuration asks for."""

import atexit
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator, DistributedDataParallelKwargs
from accelerate.state import AcceleratorState, is_initialized
from accelerate.utils import parse_flag_from_env
from torch import nn

from lexergy.errors import LexergyError
from lexergy.recipes.sections.training import TrainingRecipe
from lexergy.training.sharding import shard_on_cpus, sharding_plugin
from lexergy.training.tracking import tracker_folder


def build_accelerator(config: TrainingRecipe, folder: Path) -> Accelerator:
    plugin = sharding_plugin(config.mixed_precision) if parse_flag_from_env("ACCELERATE_USE_FSDP") else None
    if is_initialized():  # Accelerate remembers a process's first training, from which this one may differ
        AcceleratorState._shared_state |= {"_mixed_precision": config.mixed_precision, "fsdp_plugin": plugin}
    else:
        atexit.register(_leave_processes)
    accelerator = Accelerator(
        fsdp_plugin=plugin,
        log_with=list(config.trackers) or None,
        project_dir=tracker_folder(folder),
        mixed_precision=config.mixed_precision,
        gradient_accumulation_steps=config.gradient_accumulation,
        # An encoder may have weights that an energy never reads, such as a pooler.
        kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=True)],
    )
    if plugin is not None:
        shard_on_cpus(accelerator, plugin)
    launched = int(os.environ.get("WORLD_SIZE", "1"))
    if accelerator.num_processes != launched:  # they would train apart and write the same files
        raise LexergyError(
            f"{launched} processes were launched and Accelerate sees {accelerator.num_processes}; expected the same; "
            "start them with `accelerate launch`, or on CPUs set ACCELERATE_USE_CPU=true."
        )
    if config.mixed_precision == "fp16" and accelerator.scaler is None:
        raise LexergyError(
            f"`mixed_precision` is fp16 on {accelerator.device.type}; expected a GPU; choose bf16 or no."
        )
    return accelerator


def _leave_processes() -> None:
    """Part from the other processes in order: threads that still listen to them may abort a process that ends."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def build_optimizer(
    parameters: Mapping[str, nn.Parameter], config: TrainingRecipe, rate_factors: Mapping[str, float]
) -> torch.optim.Optimizer:
    """Adam, or AdamW which spares vectors; each group's `rate_factor` multiplies the learning rate."""
    settings: dict[str, Any] = {
        "lr": config.learning_rate,
        "betas": config.adam_betas,
        "eps": config.adam_epsilon,
        "fused": True,  # on a CPU seven times faster with large embedding tables
    }
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, value in parameters.items():
        decay = config.weight_decay if value.ndim >= 2 else 0.0
        groups.setdefault((rate_factors.get(name, 1.0), decay), []).append(value)
    listed = [
        {"params": values, "rate_factor": factor, "weight_decay": decay} for (factor, decay), values in groups.items()
    ]
    kind = torch.optim.AdamW if config.weight_decay else torch.optim.Adam
    return kind(listed, **settings)
