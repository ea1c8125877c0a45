"""Low-rank adapters on a frozen backbone, with peft: an energy becomes a file of a megabyte or two."""

from dataclasses import dataclass

from peft import LoraConfig, inject_adapter_in_model
from peft.tuners.lora import LoraLayer
from torch import nn

from lexergy.errors import LexergyError


@dataclass(frozen=True)
class Lora:
    """W + (alpha / rank) B A on each of the target modules, with B = 0 at the start (Hu et al. 2021)."""

    rank: int = 8
    alpha: float = 16.0
    target_modules: str | tuple[str, ...] = "all-linear"

    def __post_init__(self) -> None:
        if not isinstance(self.target_modules, str):
            object.__setattr__(self, "target_modules", tuple(self.target_modules))
        if self.rank < 1:
            raise LexergyError(f"LoRA `rank` is {self.rank}; expected at least 1; leave LoRA out to train all weights.")


def add_lora(backbone: nn.Module, lora: Lora) -> None:
    """Put adapters into the backbone, in place; they are all of it that stays trainable."""
    targets = lora.target_modules
    config = LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,  # type: ignore[arg-type]
        target_modules=targets if isinstance(targets, str) else list(targets),
    )
    try:
        inject_adapter_in_model(config, backbone)
    except ValueError as error:
        names = sorted({name.rpartition(".")[2] for name, _ in backbone.named_modules() if name})
        raise LexergyError(
            f"LoRA `target_modules` is {targets!r}, which is not in this model; expected 'all-linear' or "
            f"some of {', '.join(name for name in names if not name.isdigit())}."
        ) from error
    for name, parameter in backbone.named_parameters():
        parameter.requires_grad_(is_adapter(name))


def merge_lora(backbone: nn.Module) -> None:
    """Add the adapters to the weights, in place, and leave the plain layers that were there before."""
    adapted = {name: module for name, module in backbone.named_modules() if isinstance(module, LoraLayer)}
    for name, module in adapted.items():
        module.merge()  # type: ignore[attr-defined]
        parent, _, child = name.rpartition(".")
        setattr(backbone.get_submodule(parent), child, module.get_base_layer())


def is_adapter(parameter_name: str) -> bool:
    """Whether a parameter belongs to an adapter rather than to the frozen backbone."""
    return "lora_" in parameter_name
