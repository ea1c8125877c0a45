"""Hidden states of many continuations of a prefix, the prefix being run once (models/shared_prefix.py)."""

from typing import Any

from torch import Tensor
from transformers import PreTrainedModel

from lexergy.models.causal.runtimes.shared_prefix import Continuations, prefill

Inputs = dict[str, Tensor]  # what a backbone reads: `input_ids` (N, L) or `inputs_embeds` (N, L, D)


class SharedStates:
    """The last hidden states of B prefixes, and of any number of continuations of each."""

    def __init__(self, backbone: PreTrainedModel, prefix: Inputs) -> None:
        output, self._shared = prefill(backbone, prefix.get("input_ids"), **_embeddings(prefix))
        self.before: Tensor = output["last_hidden_state"]  # (B, P, D)
        self._backbone = backbone

    def after(self, continuations: Inputs) -> Tensor:
        """(B k, C, D), of k continuations of each prefix in turn."""
        rows, length = next(iter(continuations.values())).shape[:2]
        fed = Continuations(self._backbone, self._shared, rows, length)
        output = fed.feed(continuations.get("input_ids"), **_embeddings(continuations))
        return output["last_hidden_state"]


def _embeddings(inputs: Inputs) -> dict[str, Any]:
    return {name: value for name, value in inputs.items() if name != "input_ids"}
