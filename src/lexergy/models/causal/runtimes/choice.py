"""Which runtime feeds tokens to an LM's continuations: decided once for each LM.

On two AVX2 cores OpenVINO needs a third of torch's time for a step of 1 or 8 rows, seven tenths for 64 and about as
much for 256, so that there is nothing to choose by. How it keeps the weights depends on the rows of the whole call,
before they are divided into batches and chunks, which never change a result.
"""

from importlib.util import find_spec
from typing import Any, Protocol

from torch import Tensor
from transformers import PreTrainedModel

from lexergy.errors import LexergyError
from lexergy.models.causal.runtimes.llama_rows import LlamaContinuations, is_plain_llama
from lexergy.models.causal.runtimes.shared_prefix import Continuations, Prefilled, SharedPrefix, prefill
from lexergy.recipes.sections.runtime import Runtime

WORTH_COMPILING = 2**20  # parameters: below, loading and compiling take longer than most samplers run


class Rows(Protocol):
    """R continuations, each fed token by token."""

    def feed(self, tokens: Tensor, *, model: PreTrainedModel | None = None, output_hidden_states: bool = False) -> Any:
        """Feed (R, 1): an output with `logits` (R, 1, V), and `hidden_states`, per layer (R, 1, D), where asked for."""

    def reorder(self, index: Tensor) -> None:
        """Row r goes on from what row `index[r]` (R,), of the same prefix, has been fed."""


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


class Steps(Protocol):
    """A runtime with a model: it runs prefixes, and rows that continue them."""

    name: str

    def prefill(self, prefix: Tensor) -> Prefilled:
        """Run prefixes (B, P)."""

    def rows(self, prefix: SharedPrefix, num_rows: int, max_length: int) -> Rows:
        """R = B * K rows that continue them, K of each in turn, by so many tokens at most."""


class TorchSteps:
    """Torch itself."""

    name = "torch"

    def __init__(self, model: Any) -> None:
        self.model = model

    def prefill(self, prefix: Tensor) -> Prefilled:
        output, shared = prefill(self.model, prefix, logits_to_keep=1)
        return Prefilled(output.logits[:, -1].float(), shared)

    def rows(self, prefix: SharedPrefix, num_rows: int, max_length: int) -> Rows:
        rows: Any = LlamaContinuations if is_plain_llama(self.model) else Continuations
        return rows(self.model, prefix, num_rows, max_length)


def steps_of(model: Any, runtime: Runtime, num_rows: int) -> Steps:
    """The model on the runtime that is asked for, as it is best for a call of so many rows."""
    if not uses_openvino(model, runtime):
        return TorchSteps(model)
    from lexergy.models.causal.runtimes.openvino_rows import compiled

    return compiled(model, num_rows)
