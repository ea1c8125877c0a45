"""Hidden states of many continuations of a prefix, the prefix being run once (models/shared_prefix.py)."""

import torch
from torch import Tensor
from transformers import PreTrainedModel

from lexergy.models.shared_prefix import Continuations, prefill

Inputs = dict[str, Tensor]  # what a backbone reads: `input_ids` (N, L) or `inputs_embeds` (N, L, D)


class SharedStates:
    """The last hidden states of B prefixes, and of any number of continuations of each."""

    def __init__(self, backbone: PreTrainedModel, prefix: Inputs) -> None:
        output, self._shared = prefill(backbone, prefix.get("input_ids"), **_embeddings(prefix))  # type: ignore[arg-type]
        self.before: Tensor = output["last_hidden_state"]  # (B, P, D)
        self._backbone = backbone

    def after(self, continuations: Inputs) -> Tensor:
        """(B k, C, D), of k continuations of each prefix in turn."""
        rows, length = next(iter(continuations.values())).shape[:2]
        fed = Continuations(self._backbone, self._shared, rows, length)
        output = fed.feed(continuations.get("input_ids"), **_embeddings(continuations))  # type: ignore[arg-type]
        return output["last_hidden_state"]


def is_shareable(backbone: PreTrainedModel) -> bool:
    """Whether the backbone's attention can be split: tried on a few tokens against the plain forward pass."""
    if not backbone._can_set_attn_implementation():
        return False
    tokens = (
        torch.arange(12, device=backbone.device).view(2, 6)
        * 7919
        % backbone.config.get_text_config().vocab_size
    )
    plain = backbone(input_ids=tokens, use_cache=False).last_hidden_state
    try:
        states = SharedStates(backbone, {"input_ids": tokens[:, :3]}).after({"input_ids": tokens[:, 3:]})
    except (AttributeError, IndexError, KeyError, NotImplementedError, RuntimeError, TypeError, ValueError):
        return False
    return torch.allclose(states, plain[:, 3:], atol=1e-2, rtol=1e-2)


def window_of(backbone: PreTrainedModel) -> int | None:
    """The most tokens that a backbone's attention looks back at; None without such a limit."""
    return getattr(backbone.config.get_text_config(), "sliding_window", None)


def _embeddings(inputs: Inputs) -> Inputs:
    return {name: value for name, value in inputs.items() if name != "input_ids"}
