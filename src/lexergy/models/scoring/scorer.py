"""One way to score a text, whatever the model: tokens between edges, batched by length or read as trees."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from lexergy.core.batches import BATCH_COST, batches_by_length
from lexergy.errors import LexergyError
from lexergy.models.causal.prefix_tree import PrefixTree, prefix_trees
from lexergy.models.inference.linears import fast_linears
from lexergy.models.loading.devices import TOKENS_AT_ONCE_CPU
from lexergy.models.scoring.frequencies import WordFrequencies

SHARED_ENOUGH = 1.3  # tokens for each node of the tree of their prefixes

# Rows (B, L), edges included; (B, L) bool, False on the padding behind them -> (B, n) of what is between the edges.
TokenScores = Callable[[Tensor, Tensor], Tensor]
TreeScores = Callable[[PrefixTree], Tensor]  # log-scores (N,) of the nodes, whatever those of the roots


@dataclass(frozen=True)
class TextScore:
    """The log-score of each token of a text, and where in the text the token stands."""

    log_scores: tuple[float, ...]
    spans: tuple[tuple[int, int], ...]
    num_pieces: int = 1  # more than 1: the text is longer than the model reads at once

    @property
    def log_score(self) -> float:
        """Their sum: the log-likelihood, or the pseudo-log-likelihood; 0 for an empty text."""
        return float(sum(self.log_scores))


class TextScorer(Protocol):
    """Whatever scores texts, and says how: see `Scorer`."""

    kind: str
    passes: str
    edition: str  # names a change of the scores that one model gives, so that those kept from before are not used

    def score(self, texts: Sequence[str]) -> list[TextScore]: ...

    def log_frequencies(self, texts: Sequence[str]) -> list[list[float]]: ...


class _Row(NamedTuple):
    text: int
    tokens: list[int]


class Scorer:
    """log-scores of texts: `scorer.score(texts)`.

    `kind` says what a score is: PLL = sum_t log p(x_t | x_\\t) (Electric: -sum_t E(x)_t, Sec. 3.2, Clark et al. 2020;
    masked LM: each token masked in turn, Salazar et al. 2020), or the log-likelihood sum_t log p(x_t | x_<t) of a
    causal LM. `passes` is the number of passes through the transformer that it takes. A text stands between its
    `edges`, the tokens before and after it, which are read but not scored.

    Texts of similar length are read together (`core.batches`): padding stands behind a text and is not seen by it, so
    that batching changes no score. Where many texts of a causal LM begin alike they are read as trees, each beginning
    once (`prefix_tree`). A text longer than the model reads at once is read in pieces, each with a token of context in
    the place of an edge; each token is scored once.
    """

    edition = ""

    def __init__(
        self,
        kind: str,
        tokenizer: PreTrainedTokenizerBase,
        token_scores: TokenScores,
        *,
        edges: tuple[Sequence[int], Sequence[int]],
        max_length: int | None = None,
        passes: str = "1",
        tokens_at_once: int = TOKENS_AT_ONCE_CPU,
        batch_cost: float = BATCH_COST,
        tree_scores: TreeScores | None = None,
        longest_in_trees: int | None = None,
        networks: Sequence[nn.Module] = (),
    ) -> None:
        self.kind = kind
        self.tokenizer = tokenizer
        self.passes = passes
        self.frequencies: Tensor | None = None  # (V,), log p of each token without its context
        self._token_scores = token_scores
        self._tree_scores = tree_scores
        self._longest_in_trees = longest_in_trees  # tokens of a text, edges included; None: any
        self._networks = networks  # whose linear layers compute
        self._before, self._after = edges
        self._num_edges = sum(map(len, edges))
        self._tokens_at_once = tokens_at_once
        self._batch_cost = batch_cost
        self._longest = None if max_length is None else max_length - self._num_edges

    @torch.inference_mode()
    def score(self, texts: Sequence[str]) -> list[TextScore]:
        """The scores of the texts, in their order."""
        if not texts:
            return []
        encoded = self._encode(texts)
        rows = [_Row(number, row) for number, ids in enumerate(encoded["input_ids"]) for row in self._rows(ids)]
        with fast_linears(*self._networks):
            scores = self._row_scores([row.tokens for row in rows])
        parts: list[list[list[float]]] = [[] for _ in texts]
        for row, values in zip(rows, scores, strict=True):
            if any(map(math.isnan, values)):
                raise LexergyError(
                    f"the model gave NaN to a token of the text {texts[row.text][:60]!r}; expected numbers; its "
                    "weights may be damaged: fetch or train it again."
                )
            parts[row.text].append(values)
        return [
            TextScore(tuple(value for part in values for value in part), tuple(map(tuple, spans)), max(1, len(values)))
            for values, spans in zip(parts, encoded["offset_mapping"], strict=True)
        ]

    def _row_scores(self, rows: list[list[int]]) -> list[list[float]]:
        """Of the tokens between a row's edges."""
        fit = self._longest_in_trees is None or max(map(len, rows), default=0) <= self._longest_in_trees
        if self._tree_scores is not None and fit:
            trees = list(prefix_trees(rows))
            if sum(map(len, rows)) >= SHARED_ENOUGH * sum(map(len, trees)):
                return self._scores_by_tree(trees, self._tree_scores)
        scores: list[list[float]] = [[] for _ in rows]
        lengths = [len(row) for row in rows]
        for batch in batches_by_length(lengths, self._tokens_at_once, batch_cost=self._batch_cost):
            padded, is_token = _padded([rows[index] for index in batch])
            batch_scores = self._token_scores(padded, is_token).double().tolist()
            for index, values in zip(batch, batch_scores, strict=True):
                scores[index] = values[: lengths[index] - self._num_edges]
        return scores

    @staticmethod
    def _scores_by_tree(trees: list[PrefixTree], tree_scores: TreeScores) -> list[list[float]]:
        scores: dict[int, list[float]] = {}
        for tree in trees:
            node_scores = tree_scores(tree).double().tolist()
            for place, path in tree.paths.items():
                scores[place] = [node_scores[node] for node in path[1:]]
        return [scores[place] for place in range(len(scores))]

    def log_frequencies(self, texts: Sequence[str]) -> list[list[float]]:
        """log p(x_t) of each token without its context: by the model's own `frequencies`, else by those of words."""
        if self.frequencies is None:
            words = WordFrequencies()
            spans = self._encode(texts)["offset_mapping"] if texts else []
            return [words.of_tokens(text, places) for text, places in zip(texts, spans, strict=True)]
        frequencies = self.frequencies.tolist()
        tokens = self._encode(texts)["input_ids"] if texts else []
        return [[frequencies[token] for token in ids] for ids in tokens]

    def _encode(self, texts: Sequence[str]) -> Any:
        return self.tokenizer(
            list(texts),
            add_special_tokens=False,
            return_offsets_mapping=True,
            return_attention_mask=False,
            verbose=False,
        )

    def _rows(self, ids: list[int]) -> Iterator[list[int]]:
        """The text between its edges, cut into rows that share their ends."""
        sequence = [*self._before, *ids, *self._after]
        size = self._longest or max(1, len(ids))
        for first in range(0, len(ids), size):
            yield sequence[first : min(first + size, len(ids)) + self._num_edges]


def _padded(rows: Sequence[list[int]]) -> tuple[Tensor, Tensor]:  # (B, L), (B, L) bool
    """Rows filled up with their own first token, and which of it all is theirs."""
    longest = max(map(len, rows))
    padded = torch.tensor([[*row, *row[:1] * (longest - len(row))] for row in rows])
    return padded, torch.tensor([[True] * len(row) + [False] * (longest - len(row)) for row in rows])


def max_length_of(tokenizer: PreTrainedTokenizerBase, *models: Any) -> int | None:
    """How many tokens all of them read at once."""
    limits = [getattr(model.config, "max_position_embeddings", None) for model in models]
    return min((limit for limit in (*limits, tokenizer.model_max_length) if limit), default=None)
