"""How a network is sent to another process: with all that transformers remembers of its class elsewhere.

transformers notes at a model's construction, in a table of the process, which outputs can be recorded, and records
hidden states with hooks that belong to the process. Both are made anew where the model arrives.
"""

from typing import Any

from torch import nn
from transformers import PreTrainedModel
from transformers.utils import output_capturing

from lexergy.runs.transport import REDUCERS

_HOOKED = "_output_capturing_hooks_installed"
_HOOKS = ("_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called")


def _reduce(module: nn.Module) -> Any:
    state: dict[str, Any] = dict(module.__getstate__())
    state.pop(_HOOKED, None)
    recording = [
        key for key, hook in state["_forward_hooks"].items() if hook.__module__ == output_capturing.__name__
    ]  # what installs them
    for hooks in _HOOKS if recording else ():
        state[hooks] = type(state[hooks])((key, hook) for key, hook in state[hooks].items() if key not in recording)
    return _empty, (type(module),), state


def _empty(kind: type[nn.Module]) -> nn.Module:
    if issubclass(kind, PreTrainedModel):
        output_capturing._CAN_RECORD_REGISTRY[str(kind)] = kind._can_record_outputs
    return kind.__new__(kind)


REDUCERS[nn.Module] = _reduce
