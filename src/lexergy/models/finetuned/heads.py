"""What is put on an encoder for a task: a linear layer on a pooled state, or a span with its beginning and end."""

import torch
from torch import Tensor, nn

from lexergy.core.spans import Spans, best_spans
from lexergy.models.finetuned.rows import Batch

NEVER = -1e9  # finite, so that a row without any context still has a gradient


class SequenceHead(nn.Module):
    """W pool(h) + b, with the mean over tokens, or the first token's state as ELECTRA has it (App. B).

    The mean is the default: the models pre-trained here never learn the state of a text's first token.
    """

    def __init__(self, width: int, num_outputs: int, pooling: str) -> None:
        super().__init__()
        self.pooling = pooling
        self.output = nn.Linear(width, num_outputs)

    def forward(self, states: Tensor, batch: Batch) -> Tensor:  # (B, L, D) -> (B, n)
        if self.pooling == "first":
            return self.output(states[:, 0])
        attended = batch.attended.unsqueeze(-1).to(states)
        return self.output((states * attended).sum(1) / attended.sum(1))


class SpanHead(nn.Module):
    """log p(start) + log p(end | start) of an answer, as XLNet and ELECTRA have it (App. B, Clark et al. 2020).

    p(start) = softmax(w . h_s), p(end | start) = softmax(v . norm(tanh(A h_e + B h_s))), both over the context and the
    row's first token. The first token stands for "no answer here", in place of the paper's separate classifier.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.start = nn.Linear(width, 1)
        self.from_end = nn.Linear(width, width)
        self.from_start = nn.Linear(width, width, bias=False)
        self.norm = nn.LayerNorm(width)
        self.end = nn.Linear(width, 1)

    def start_log_prob(self, states: Tensor, batch: Batch) -> Tensor:  # (B, L, D) -> (B, L)
        return self._log_softmax(self.start(states).squeeze(-1), batch)

    def end_log_prob(self, states: Tensor, batch: Batch, starts: Tensor) -> Tensor:  # (B, L, D), (B, k) -> (B, k, L)
        chosen = states.gather(1, starts.unsqueeze(-1).expand(-1, -1, states.shape[-1]))  # (B, k, D)
        joined = self.from_end(states).unsqueeze(1) + self.from_start(chosen).unsqueeze(2)  # (B, k, L, D)
        return self._log_softmax(self.end(self.norm(joined.tanh())).squeeze(-1), batch)

    def loss(self, states: Tensor, batch: Batch, spans: Tensor) -> Tensor:  # (B, L, D), (B, 2) -> (B,)
        """-(log p(start) + log p(end | start)) / 2; a row without the answer has the span (0, 0)."""
        starts, ends = spans[:, :1], spans[:, 1:]
        start = self.start_log_prob(states, batch).gather(1, starts).squeeze(1)
        end = self.end_log_prob(states, batch, starts).squeeze(1).gather(1, ends).squeeze(1)
        return -(start + end) / 2

    def best(self, states: Tensor, batch: Batch, *, num_starts: int, max_tokens: int) -> tuple[Spans, Tensor]:
        """The best spans of the context from its likeliest starts, and log p of no answer (B,)."""
        start = self.start_log_prob(states, batch)
        inside = start.masked_fill(~batch.context, -torch.inf)
        top, starts = inside.topk(min(num_starts, inside.shape[1]), dim=1)  # (B, k)
        spans = best_spans(top, starts, self.end_log_prob(states, batch, starts), batch.context, max_tokens)
        none = torch.zeros_like(starts[:, :1])
        return spans, start[:, 0] + self.end_log_prob(states, batch, none)[:, 0, 0]

    def _log_softmax(self, logits: Tensor, batch: Batch) -> Tensor:  # (B, L) or (B, k, L)
        possible = batch.context.clone()
        possible[:, 0] = True
        if logits.ndim == 3:
            possible = possible.unsqueeze(1)
        return logits.float().masked_fill(~possible, NEVER).log_softmax(-1)
