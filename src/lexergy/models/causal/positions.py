"""Places of texts that a frozen LM has read: its last states, from which its logits come at little cost."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from lexergy.core.local_residuals.contexts import contexts
from lexergy.errors import LexergyError
from lexergy.models.causal.lm import CausalLM
from lexergy.models.causal.log_probs import pick_log_prob

POSITIONS_AT_ONCE = 256
_TOLERANCE = 1e-2


@dataclass(frozen=True)
class Positions:
    """The last tokens of rows, each with the state that predicts it; of a row's C tokens, those that are text."""

    rows: Tensor  # (B, L)
    states: Tensor  # (B, C, D)
    is_text: Tensor  # (B, C) bool

    def __len__(self) -> int:
        return int(self.is_text.sum())

    @property
    def tokens(self) -> Tensor:  # (N,)
        return self.rows[:, -self.states.shape[1] :][self.is_text]

    @property
    def flat_states(self) -> Tensor:  # (N, D)
        return self.states[self.is_text]

    def before(self, width: int) -> Tensor:  # (N, width)
        """The tokens before each."""
        return contexts(self.rows, width)[:, -self.states.shape[1] - 1 : -1][self.is_text]


@torch.inference_mode()
def last_states(lm: CausalLM, rows: Tensor, length: int) -> Tensor:  # (B, L) -> (B, C, D)
    """The states from which the output layer predicts the last `length` tokens of rows."""
    rows = lm.with_start(rows.to(lm.device))
    states = lm.reader().last_states(rows)
    return states[:, -length - 1 : -1].float().cpu()


@torch.inference_mode()
def check_output_layer(lm: CausalLM, rows: Tensor) -> None:  # (B, L)
    """Refuse a model that does more to its logits than its output layer does."""
    expected = lm.reader().read(lm.with_start(rows.to(lm.device))).logits[:, -2:-1].float()
    if not torch.allclose(_head(lm, last_states(lm, rows, 1)), expected, rtol=_TOLERANCE, atol=_TOLERANCE):
        raise LexergyError(
            f"the logits of {lm.source} are no linear function of its last states; expected an LM that ends with its "
            "output layer; leave `lm.residual` out."
        )


def position_logits(lm: CausalLM, positions: Positions) -> Iterator[tuple[Tensor, Tensor]]:
    """Tokens (n,) and the logits (n, V) that predict them, by the LM with its residuals, a few at a time."""
    parts = (positions.tokens, positions.flat_states, positions.before(lm.context_length))
    for tokens, states, before in zip(*(part.split(POSITIONS_AT_ONCE) for part in parts), strict=True):
        yield tokens.to(lm.device), lm.correct(_head(lm, states), before.to(lm.device))


def _head(lm: CausalLM, states: Tensor) -> Tensor:  # (n, D) -> (n, V)
    return lm.reader().logits(states)


@torch.inference_mode()
def position_log_probs(lm: CausalLM, positions: Positions) -> Tensor:  # (B, C) float64
    """log p_LM of each token, 0 where there is no text."""
    picked = torch.cat([pick_log_prob(logits, tokens) for tokens, logits in position_logits(lm, positions)]).cpu()
    return torch.zeros(positions.is_text.shape, dtype=torch.double).masked_scatter(positions.is_text, picked)
