"""Which runtime feeds tokens to an LM's continuations: decided once for each LM.

On two AVX2 cores OpenVINO needs a third of torch's time for a step of 1 or 8 rows, seven tenths for 64 and about as
much for 256, so that there is nothing to choose by. How it keeps the weights depends on the rows of the whole call,
before they are divided into batches and chunks, which never change a result.
"""

import logging
import weakref
from collections.abc import Collection
from importlib.util import find_spec
from typing import Any, Protocol

from torch import Tensor
from transformers import PreTrainedModel

from lexergy.errors import LexergyError
from lexergy.models.causal.runtimes.llama_rows import LlamaContinuations, is_plain_llama
from lexergy.models.causal.runtimes.shared_prefix import Continuations, Prefilled, SharedPrefix, prefill
from lexergy.models.inference.linears import fast_linears
from lexergy.recipes.sections.runtime import Precision, Runtime

WORTH_COMPILING = 2**20  # parameters: below, loading and compiling take longer than most samplers run
PROCESSORS: dict[Precision, str] = {"bfloat16": "AVX-512 BF16 or AMX", "int8": "AVX-512 VNNI or AVX-VNNI"}
INSTALL = "pip install 'lexergy[openvino]'"
logger = logging.getLogger(__name__)


class Rows(Protocol):
    """R = B * W continuations, W for each of B prefixes in turn, each fed token by token."""

    has_own_threads: bool  # beside torch's

    def feed(self, tokens: Tensor, *, model: PreTrainedModel | None = None, output_hidden_states: bool = False) -> Any:
        """Feed (R, 1): an output with `logits` (R, 1, V), and `hidden_states`, by layer (R, 1, D), where asked for."""

    def fork(self, parents: Tensor) -> None:
        """There are as many rows as `parents` (B * W',), each of which goes on from what that row has been fed.

        They are of the same prefix, and never more than at the beginning.
        """


def uses_openvino(model: PreTrainedModel, runtime: Runtime, precision: Precision = "float32") -> bool:
    """Whether OpenVINO computes the steps; refuses where it is asked for and cannot."""
    if precision != "float32":
        _check_precision(model, runtime, precision)
        return True
    if runtime == "torch":
        return False
    installed, plain = find_spec("openvino") is not None, is_plain_llama(model)
    if runtime == "auto":
        return installed and plain and model.num_parameters() >= WORTH_COMPILING
    if not plain:
        raise LexergyError(f"`runtime` is openvino and {_other(model)}; leave the runtime out, and torch does it.")
    if not installed:
        raise LexergyError(f"the runtime openvino needs OpenVINO; run `{INSTALL}`.")
    return True


def _check_precision(model: PreTrainedModel, runtime: Runtime, precision: Precision) -> None:
    remedy = "leave the precision out, and it is float32"
    if runtime == "torch":
        raise LexergyError(f"`precision` is {precision} and `runtime` torch; expected openvino; {remedy}.")
    if not is_plain_llama(model):
        raise LexergyError(f"`precision` is {precision} and {_other(model)}; {remedy}.")
    if find_spec("openvino") is None:
        raise LexergyError(f"an LM in {precision} needs OpenVINO; run `{INSTALL}`, or {remedy}.")
    from lexergy.models.causal.runtimes.openvino_steps import computes_in

    if not computes_in(precision):
        raise LexergyError(
            f"`precision` is {precision}, of which this processor has no products; expected one with "
            f"{PROCESSORS[precision]}; {remedy}."
        )


def _other(model: PreTrainedModel) -> str:
    return (
        f"the LM is a {type(model).__name__} in {model.dtype} on {model.device}; "
        "expected a Llama without biases in float32 on the CPU"
    )


class Steps(Protocol):
    """A runtime with a model: it runs prefixes, rows that continue them, and whole rows."""

    name: str

    def prefill(self, prefix: Tensor) -> Prefilled:
        """Run prefixes (B, P)."""

    def rows(self, prefix: SharedPrefix, num_rows: int, max_length: int) -> Rows:
        """R = B * K rows that continue them, K of each in turn, by so many tokens at most."""

    def reading(self, prefix: SharedPrefix, num_rows: int, max_length: int) -> Rows:
        """The same for given texts, which are fed several tokens at once, (R, T)."""

    def read(self, rows: Tensor, with_states: bool = False) -> Any:
        """Whole rows (B, L): an output with `logits` (B, L, V), and `hidden_states`, by layer (B, L, D)."""

    def last_states(self, rows: Tensor) -> Tensor:
        """Those that the output layer reads, (B, L) -> (B, L, D)."""

    def logits(self, states: Tensor) -> Tensor:
        """Those of last states, (n, D) -> (n, V) float32."""


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

    def reading(self, prefix: SharedPrefix, num_rows: int, max_length: int) -> Rows:
        return Continuations(self.model, prefix, num_rows, max_length)

    def read(self, rows: Tensor, with_states: bool = False) -> Any:
        with fast_linears(self.model):
            return self.model(input_ids=rows, output_hidden_states=with_states, use_cache=False)

    def last_states(self, rows: Tensor) -> Tensor:
        with fast_linears(self.model):
            return self.model.base_model(input_ids=rows, use_cache=False).last_hidden_state

    def logits(self, states: Tensor) -> Tensor:
        head = self.model.get_output_embeddings()
        return head(states.to(head.weight)).float()


_NOT_COMPILED: weakref.WeakSet[PreTrainedModel] = weakref.WeakSet()


def steps_of(
    model: Any, runtime: Runtime, num_rows: int, precision: Precision = "float32", layers: Collection[int] = ()
) -> Steps:
    """The model on the runtime that is asked for, as it is best for a call of so many rows.

    Its hidden states have those of these `layers`, and may have others.
    """
    may_be_torch = runtime == "auto" and precision == "float32"
    if not uses_openvino(model, runtime, precision) or (may_be_torch and model in _NOT_COMPILED):
        return TorchSteps(model)
    try:
        from lexergy.models.causal.runtimes.openvino_steps import compiled

        return compiled(model, num_rows, precision, layers)
    except (ImportError, RuntimeError, TypeError) as error:
        # Its attention is an experimental operator, which another version may have in another form.
        said = str(error).strip().splitlines() or [type(error).__name__]
        reason = f"OpenVINO could not compile the LM ({said[-1]})"
        if not may_be_torch:
            raise LexergyError(
                f"{reason}; expected the version that Lexergy is tested with; run `{INSTALL}`."
            ) from error
        logger.warning("%s; torch computes its steps, more slowly. Remedy: %s", reason, INSTALL)
        _NOT_COMPILED.add(model)
        return TorchSteps(model)
