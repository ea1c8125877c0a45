"""Which runtime feeds tokens to an LM's continuations: decided once for each LM, whatever the number of rows.

On AVX2 cores OpenVINO needs less time than torch at every number of rows, from 1 (two thirds of it) through 8 (a
third) to 256 (nine tenths), so that there is nothing to choose by.
"""

from importlib.util import find_spec
from typing import Any, Protocol

from torch import Tensor
from transformers import PreTrainedModel

from lexergy.errors import LexergyError
from lexergy.models.causal.llama_rows import LlamaContinuations, is_plain_llama
from lexergy.models.causal.shared_prefix import Continuations, SharedPrefix
from lexergy.recipes.runtime import Runtime

WORTH_COMPILING = 2**20  # parameters: below, loading and compiling take longer than most samplers run


class Rows(Protocol):
    """R continuations, each fed token by token."""

    def feed(self, tokens: Tensor, *, model: PreTrainedModel | None = None, output_hidden_states: bool = False) -> Any:
        """Feed (R, 1): an output with `logits` (R, 1, V), and `hidden_states`, per layer (R, 1, D), where asked for."""


def uses_openvino(model: PreTrainedModel, runtime: Runtime) -> bool:
    """Whether OpenVINO computes the steps; refuses where it is asked for and cannot."""
    if runtime == "torch":
        return False
    installed, plain = find_spec("openvino") is not None, is_plain_llama(model)
    if runtime == "auto":
        return installed and plain and model.num_parameters() >= WORTH_COMPILING
    if not plain:
        raise LexergyError(
            f"`runtime` is openvino and the LM is a {type(model).__name__} in {model.dtype} on {model.device}; "
            "expected a Llama without biases in float32 on the CPU; leave the runtime out, and torch does it."
        )
    if not installed:
        raise LexergyError("the runtime openvino needs OpenVINO; run `pip install 'lexergy[openvino]'`.")
    return True


def continuations_of(model: Any, prefix: SharedPrefix, num_rows: int, max_length: int, runtime: Runtime) -> Rows:
    """Rows that can be fed token by token, on the runtime that is asked for."""
    if uses_openvino(model, runtime):
        from lexergy.models.causal.openvino_rows import OpenVinoContinuations

        return OpenVinoContinuations(model, prefix, num_rows, max_length)
    rows: Any = LlamaContinuations if is_plain_llama(model) else Continuations
    return rows(model, prefix, num_rows, max_length)
