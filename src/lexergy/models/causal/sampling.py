"""Drawing many continuations of each prefix, each with its log-probability under the law it was drawn from."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel

from lexergy.core.decoding import Decoding, draw
from lexergy.core.random import uniforms
from lexergy.core.vocabulary import VocabularySummary, summarise
from lexergy.models.causal.state_features import StateFeatures, pool_statistics, token_statistics

if TYPE_CHECKING:
    from lexergy.models.causal.lm import CausalLM


class Samples(NamedTuple):
    """Continuations, on the CPU."""

    tokens: Tensor  # (B, K, C); after a stop token, padded with it
    log_prob: Tensor  # (B, K) float64, under exactly the law they were drawn from
    lengths: Tensor  # (B, K), the stop token included
    features: Tensor | None  # (B, K, F), when asked for


class RepeatedPrefix:
    """Continuations of a model whose attention cannot share a prefix: each row carries its own copy of its memory."""

    def __init__(self, model: PreTrainedModel, prefix: Tensor, num_samples: int) -> None:
        self.model = model
        output = model.base_model(input_ids=prefix, use_cache=True)
        # Recurrent models call their memory `cache_params`.
        name = "cache_params" if "cache_params" in output else "past_key_values"
        if hasattr(output[name], "batch_repeat_interleave"):
            output[name].batch_repeat_interleave(num_samples)
        else:
            output = model.base_model(input_ids=prefix.repeat_interleave(num_samples, 0), use_cache=True)
        self._past = {name: output[name]}

    def feed(self, tokens: Tensor, *, model: PreTrainedModel | None = None, **kwargs: Any) -> Any:
        return (model or self.model)(input_ids=tokens, use_cache=True, **self._past, **kwargs)


class PooledStates:
    """Running sums of hidden states and token statistics over the tokens of R continuations.

    The first `given` tokens of each are in the pool already; steps and lengths count from there.
    """

    def __init__(self, features: StateFeatures, states: Tensor, statistics: Tensor, given: int = 0) -> None:
        self.features = features
        self.states = states  # (R, layers, D)
        self.statistics = statistics  # (R, C, 4)
        self.given = given

    @classmethod
    def empty(
        cls, features: StateFeatures, num_rows: int, max_length: int, hidden_size: int, device: torch.device
    ) -> "PooledStates":
        states = torch.zeros(num_rows, len(features.layers), hidden_size, device=device)
        return cls(features, states, torch.zeros(num_rows, max_length, 4, device=device))

    def rows(self, some: slice) -> "PooledStates":
        """Some of the rows; what is added to them is added here."""
        return PooledStates(self.features, self.states[some], self.statistics[some], self.given)

    def continued(self, num_samples: int, max_length: int) -> "PooledStates":
        """A pool for K continuations of each row that have the row's tokens before their own."""
        states = self.states.repeat_interleave(num_samples, 0)
        statistics = self.statistics.repeat_interleave(num_samples, 0)
        room = torch.nn.functional.pad(statistics, (0, 0, 0, max_length))  # (R K, C + new, 4)
        return PooledStates(self.features, states, room, statistics.shape[1])

    def add_statistics(self, step: int, logits: Tensor, tokens: Tensor, summary: VocabularySummary) -> None:
        self.statistics[:, self.given + step] = token_statistics(logits, tokens, summary)

    def add_states(self, hidden_states: Sequence[Tensor], inside: Tensor) -> None:
        """hidden_states: per layer (R, T, D); inside (R, T): which of the tokens count."""
        for place, layer in enumerate(self.features.layers):
            self.states[:, place] += (hidden_states[layer].float() * inside.unsqueeze(-1)).sum(1)

    def pooled(self, lengths: Tensor) -> Tensor:
        """(R, F): means over each continuation, layers first, then the statistics."""
        lengths = lengths + self.given
        means = self.states / lengths.view(-1, 1, 1)
        statistics = pool_statistics(self.statistics, lengths, self.features.statistics)
        return torch.cat((means.flatten(1), statistics), -1)


def sample_batch(
    lm: "CausalLM",
    prefix: Tensor,  # (B, P)
    streams: Sequence[int],
    first_sample: int,
    num_samples: int,
    max_new_tokens: int,
    decoding: Decoding,
    seed: int,
    stop_token: int | None,
    features: StateFeatures | None,
    given_length: int,
) -> Samples:
    """All K samples of all B prefixes as one batch of R = B * K rows."""
    num_rows = len(prefix) * num_samples
    pool = None
    if features is not None:
        pool = lm.pooled_given(prefix, given_length, features).continued(num_samples, max_new_tokens)
    first_logits, rows = lm.continuations(prefix, num_samples, max_new_tokens)
    logits = first_logits.repeat_interleave(num_samples, 0)  # (R, V)
    tokens = torch.full((num_rows, max_new_tokens), stop_token or 0, device=prefix.device)
    log_prob = torch.zeros(num_rows, dtype=torch.float64, device=prefix.device)
    lengths = torch.full((num_rows,), max_new_tokens, device=prefix.device)
    alive = torch.ones(num_rows, dtype=torch.bool, device=prefix.device)
    reads_states = features is not None and bool(features.layers)
    for step in range(max_new_tokens):
        lm.forbid_(logits, allowed=stop_token)
        numbers = uniforms(seed, streams, step, first_sample, num_samples).flatten().to(logits.device)
        summary = None if pool is None else summarise(logits)  # read once for the draw and the statistics
        drawn = draw(logits, numbers, decoding, summary)
        chosen = torch.where(alive, drawn.tokens, stop_token or 0)
        tokens[:, step] = chosen
        log_prob += drawn.log_prob.masked_fill(~alive, 0)
        if pool is not None and summary is not None:
            pool.add_statistics(step, logits, chosen, summary)
        counted = alive
        if stop_token is not None:
            ended = alive & (chosen == stop_token)
            lengths[ended] = step + 1
            alive = alive & ~ended
        last = step == max_new_tokens - 1 or (stop_token is not None and not alive.any())
        if last and not reads_states:
            break
        output: Any = rows.feed(
            chosen.unsqueeze(-1),
            model=lm.model.base_model if last else None,  # nothing follows the last token: no LM head
            output_hidden_states=reads_states,
        )
        if pool is not None and reads_states:
            pool.add_states(output.hidden_states, counted.unsqueeze(-1))
        if last:
            break
        logits = output.logits[:, -1].float()
    shape = (len(prefix), num_samples)
    return Samples(
        tokens.view(*shape, -1).cpu(),
        log_prob.view(shape).cpu(),
        lengths.view(shape).cpu(),
        None if pool is None else pool.pooled(lengths).view(*shape, -1).cpu(),
    )
