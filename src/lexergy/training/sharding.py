"""Trainings too big for one device: each process keeps a part of every weight, gradient and moment (FSDP).

`accelerate launch --use_fsdp` asks for it. A layer is gathered from all processes when it computes, and let go after.
What a training remembers of a weight is the part that this process holds; what it writes is whole.
"""

from copy import deepcopy

import torch
from accelerate import Accelerator, FullyShardedDataParallelPlugin, PartialState
from accelerate.state import AcceleratorState
from accelerate.utils import DistributedType
from torch import Tensor, nn
from torch.distributed.fsdp import MixedPrecisionPolicy
from torch.distributed.tensor import DTensor, distribute_tensor

from lexergy.errors import LexergyError

PRECISIONS = {"no": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def sharding_plugin(mixed_precision: str) -> FullyShardedDataParallelPlugin:
    """FSDP's second version, layer by layer; other settings, such as offloading, are those of the launcher."""
    plugin = FullyShardedDataParallelPlugin(
        fsdp_version=2,
        reshard_after_forward=True,
        auto_wrap_policy="transformer_based_wrap",
        mixed_precision_policy=MixedPrecisionPolicy(PRECISIONS[mixed_precision], reduce_dtype=torch.float32),
        # It would leave the weights of every other model empty on all processes but the first.
        cpu_ram_efficient_loading=False,
    )
    if plugin.activation_checkpointing:
        raise LexergyError(
            "the launcher asks for FSDP's activation checkpointing; expected none, since Accelerate computes layers "
            "again with other dropout masks; lower `batch_size` and raise `gradient_accumulation` instead."
        )
    return plugin


def shard_on_cpus(accelerator: Accelerator, plugin: FullyShardedDataParallelPlugin) -> None:
    """Accelerate shards on GPUs and the like only; torch on CPUs too."""
    if accelerator.distributed_type == DistributedType.MULTI_CPU:
        PartialState._shared_state["distributed_type"] = DistributedType.FSDP
        AcceleratorState._shared_state |= {"distributed_type": DistributedType.FSDP, "fsdp_plugin": plugin}


def copy_to_shard(model: nn.Module) -> nn.Module:
    """A copy that may be cut up, in main memory like the model, which stays whole and gets the weights in the end."""
    return deepcopy(model.cpu())


def layer_classes(model: nn.Module) -> list[str]:
    """What is gathered at once: the layers that transformers names so; the rest of the model is one piece."""
    named = {name for module in model.modules() for name in getattr(module, "_no_split_modules", None) or ()}
    return sorted(named & {type(module).__name__ for module in model.modules()})


def own_part(tensor: Tensor) -> Tensor:
    """What this process holds of a tensor: all of it, where nothing is sharded."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def whole(tensor: Tensor) -> Tensor:
    """The tensor from the parts of all processes, which must all ask for it."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def cut_up(tensor: Tensor, parameter: Tensor) -> Tensor:
    """A whole tensor sharded as the parameter is, where all processes have the whole one."""
    if not isinstance(parameter, DTensor) or tensor.shape != parameter.shape:
        return tensor
    on_device = tensor.to(parameter.to_local().device)
    return distribute_tensor(on_device, parameter.device_mesh, parameter.placements, src_data_rank=None)


def put_together(part: Tensor, parameter: Tensor) -> Tensor:
    """The sharded tensor of which each process has, anywhere in its memory, the part that it has of the parameter."""
    if not isinstance(parameter, DTensor):
        return part
    return DTensor.from_local(
        part.to(parameter.to_local().device),
        parameter.device_mesh,
        parameter.placements,
        run_check=False,
        shape=parameter.shape,
        stride=parameter.stride(),
    )
