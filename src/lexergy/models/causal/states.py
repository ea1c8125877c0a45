"""Reading a frozen LM's states: pools of them over continuations, drawn or given."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from lexergy.core.batches import batches_by_length
from lexergy.core.ends import inside
from lexergy.core.vocabulary import VocabularySummary, summarise
from lexergy.errors import LexergyError
from lexergy.models.causal.frozen import FrozenModel
from lexergy.models.causal.log_probs import rows_at_once
from lexergy.models.causal.row_logits import logits_only_at, row_logits, shared_row_logits, whole_row_logits
from lexergy.models.causal.state_features import StateFeatures, pool_statistics, token_moments, token_statistics
from lexergy.models.inference.linears import fast_linears
from lexergy.models.inference.ragged import batches_of_tokens, reads_ragged, run_ragged
from lexergy.models.loading.devices import tokens_at_once

TOKENS_AT_ONCE = 2**9  # their logits are 100 MB with a vocabulary of 49,152


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

    def rows(self, chosen: slice) -> "PooledStates":
        """Some of the rows; what is added to them is added here."""
        return PooledStates(self.features, self.states[chosen], self.statistics[chosen], self.given)

    def continued(self, num_samples: int, max_length: int) -> "PooledStates":
        """A pool for K continuations of each row that have the row's tokens before their own."""
        states = self.states.repeat_interleave(num_samples, 0)
        statistics = self.statistics.repeat_interleave(num_samples, 0)
        room = torch.nn.functional.pad(statistics, (0, 0, 0, max_length))  # (R K, C + new, 4)
        return PooledStates(self.features, states, room, statistics.shape[1])

    def reorder(self, index: Tensor) -> None:  # (R,)
        """Row r goes on from what row `index[r]` has in its pool."""
        self.states, self.statistics = self.states[index], self.statistics[index]

    def add_statistics(self, step: int, logits: Tensor, tokens: Tensor, summary: VocabularySummary) -> None:
        self.statistics[:, self.given + step] = token_statistics(logits, tokens, summary)

    def add_states(self, hidden_states: Mapping[int, Tensor] | Sequence[Tensor], inside: Tensor) -> None:
        """hidden_states: by layer (R, T, D); inside (R, T): which of the tokens count."""
        for place, layer in enumerate(self.features.layers):
            self.states[:, place] += (hidden_states[layer].float() * inside.unsqueeze(-1)).sum(1)

    def pooled(self, lengths: Tensor) -> Tensor:
        """(R, F): means over each continuation, layers first, then the statistics."""
        lengths = lengths + self.given
        means = self.states / lengths.view(-1, 1, 1)
        statistics = pool_statistics(self.statistics, lengths, self.features.statistics)
        return torch.cat((means.flatten(1), statistics), -1)


def pooled_given(lm: FrozenModel, prefix: Tensor, given_length: int, features: StateFeatures) -> PooledStates:
    """States and statistics of the last tokens of prefixes (B, P), remembered as the prefixes themselves are."""
    if given_length == 0:
        return PooledStates.empty(features, len(prefix), 0, lm.hidden_size, lm.device)
    before = prefix.shape[1] - given_length

    def pool() -> PooledStates:
        rows = lm.check_rows(prefix, before)
        return _pool(lm, rows, before, features, torch.full((len(rows),), given_length, device=lm.device))

    return lm.remember("given", (given_length, features), prefix, pool)


def state_features(
    lm: FrozenModel, tokens: Tensor, prefix_length: int, features: StateFeatures, lengths: Tensor | None = None
) -> Tensor:
    """Of the continuations in rows (B, L), of which the first `lengths` (B,) tokens count: (B, F)."""
    features.check(lm.last_state_layer)
    tokens = lm.check_rows(tokens, prefix_length)
    lengths = (lm.lengths(tokens[:, prefix_length:]) if lengths is None else lengths).to(lm.device)
    return _pool(lm, tokens, prefix_length, features, lengths).pooled(lengths).cpu()


def _pool(
    lm: FrozenModel, tokens: Tensor, prefix_length: int, features: StateFeatures, lengths: Tensor
) -> PooledStates:
    length = tokens.shape[1] - prefix_length
    counted = inside(lengths, length)  # (B, C)
    pool = PooledStates.empty(features, len(tokens), length, lm.hidden_size, lm.device)
    done = 0
    for rows, logits, states in row_logits(lm, tokens, prefix_length, features.layers):
        part = pool.rows(slice(done, done + len(rows)))
        for step in range(length):
            distribution = logits[:, step]
            part.add_statistics(step, distribution, rows[:, prefix_length + step], summarise(distribution))
        part.add_states(states, counted[done : done + len(rows)])
        done += len(rows)
    return pool


def marked_features(
    lm: FrozenModel,
    tokens: Tensor,  # (R, L)
    marked: Tensor,  # (R, L) bool
    features: StateFeatures,
    shared_length: int = 0,
) -> Tensor:  # (R, F)
    """Of the marked tokens of each row, wherever they stand, at least one in each.

    Rows may begin with the same `shared_length` tokens, none of them marked, which are then run once. They are padded
    on the right, where no marked token sees it.
    """
    features.check(lm.last_state_layer)
    few = rows_at_once(tokens.shape[1] - shared_length, lm.vocab_size)
    parts = []
    for rows, marks in zip(tokens.split(few), marked[:, shared_length:].split(few), strict=True):
        _, logits, states = shared_row_logits(lm, rows, shared_length, features.layers)
        counts = marks.sum(1)  # (b,)
        predicted = logits[marks]  # (M, V)
        statistics = token_statistics(predicted, rows[:, shared_length:][marks], summarise(predicted))  # (M, 4)
        by_row = pad_sequence(statistics.split(counts.tolist()), batch_first=True)  # (b, C, 4)
        weight = (marks / counts.unsqueeze(1)).unsqueeze(-1)  # (b, T, 1)
        means = [(states[layer].float() * weight).sum(1) for layer in features.layers]
        parts.append(torch.cat((*means, pool_statistics(by_row, counts, features.statistics)), -1))
    return torch.cat(parts)


def token_features(lm: FrozenModel, tokens: Tensor, features: StateFeatures) -> Tensor:
    """Of each token of rows (B, L) after the first: (B, L - 1, F)."""
    _check_moments(lm, features)
    tokens = lm.check_rows(tokens, 1)
    length = tokens.shape[1] - 1
    parts = []
    for rows in tokens.split(rows_at_once(length, lm.vocab_size)):
        _, logits, states = whole_row_logits(lm, rows, length, features.layers)
        distributions = logits.flatten(0, 1)  # (b C, V)
        statistics = token_statistics(distributions, rows[:, 1:].flatten(), summarise(distributions)).unflatten(
            0, (len(rows), -1)
        )
        parts.append(torch.cat((*(states[layer].float() for layer in features.layers), token_moments(statistics)), -1))
    return torch.cat(parts).cpu()


def _check_moments(lm: FrozenModel, features: StateFeatures) -> None:
    if features.statistics != "moments":
        raise LexergyError(f"`statistics` is {features.statistics!r}; a single token has only 'moments'.")
    features.check(lm.last_state_layer)


def token_features_of(lm: FrozenModel, rows: Sequence[Tensor], features: StateFeatures) -> list[Tensor]:
    """Of each token after the first of rows of any lengths (L,), at least 2: (L - 1, F) each.

    They are read end to end where the model can be (`inference.ragged`), and with rows of similar length where not.
    """
    lengths = [len(row) for row in rows]
    ragged = lm.precision == "float32" and reads_ragged(lm.model, causal=True)
    most = TOKENS_AT_ONCE if ragged else tokens_at_once(lm.model)
    batches = batches_of_tokens(lengths, most) if ragged else batches_by_length(lengths, most)
    read = _end_to_end if ragged else _padded
    by_place: dict[int, Tensor] = {}
    with fast_linears(lm.model):
        for places in batches:
            by_place.update(zip(places, read(lm, [rows[place] for place in places], features), strict=True))
    return [by_place[place] for place in range(len(rows))]


def _padded(lm: FrozenModel, rows: Sequence[Tensor], features: StateFeatures) -> list[Tensor]:
    # No token sees the padding behind it.
    read = token_features(lm, pad_sequence(list(rows), batch_first=True), features)  # (b, L - 1, F)
    return [own[: len(row) - 1] for own, row in zip(read, rows, strict=True)]


def _end_to_end(lm: FrozenModel, rows: Sequence[Tensor], features: StateFeatures) -> Sequence[Tensor]:
    _check_moments(lm, features)
    rows = [lm.check_rows(row[None], 1)[0] for row in rows]
    started = [lm.with_start(row[None])[0] for row in rows]
    # Of each row the tokens before another, the start token apart.
    ends = torch.tensor([len(row) for row in started]).cumsum(0)
    predicting = torch.cat([torch.arange(end - len(row), end - 1) for end, row in zip(ends, rows, strict=True)])
    with logits_only_at(lm.model, predicting):
        output = run_ragged(
            lm.model, started, causal=True, output_hidden_states=bool(features.layers), use_cache=False
        )  # (1, T, ...)
    before = torch.cat([lm.contexts(row[None])[0, 1:-1] for row in rows])
    logits = lm.correct(output.logits[0].float(), before)  # (T', V)
    statistics = token_statistics(logits, torch.cat([row[1:] for row in rows]), summarise(logits))
    states = [output.hidden_states[layer][0, predicting + 1].float() for layer in features.layers]
    return torch.cat((*states, token_moments(statistics)), -1).split([len(row) - 1 for row in rows])


def next_token_features(
    lm: FrozenModel, prefix: Tensor, tokens: Tensor, given_length: int, features: StateFeatures
) -> Tensor:
    """Of each token (M,) after each prefix (B, P): (B, M, F)."""
    features.check(lm.num_layers)
    prefix, count = lm.check_prefix(prefix, 1), len(tokens)
    pool = pooled_given(lm, prefix, given_length, features).continued(count, 1)
    first_logits, rows = lm.continuations(prefix, count, 1, features.layers)
    distributions = lm.correct(first_logits.clone(), lm.contexts(prefix)[:, -1])  # (B, V)
    summary = VocabularySummary(*(part.repeat_interleave(count, 0) for part in summarise(distributions)))
    fed = tokens.to(lm.device).repeat(len(prefix))  # (B M,)
    pool.add_statistics(0, distributions.repeat_interleave(count, 0), fed, summary)
    if features.layers:
        output: Any = rows.feed(fed.unsqueeze(-1), model=lm.model.base_model, output_hidden_states=True)
        pool.add_states(output.hidden_states, torch.ones(len(fed), 1, device=lm.device))
    return pool.pooled(torch.ones(len(fed), device=lm.device)).view(len(prefix), count, -1).cpu()
