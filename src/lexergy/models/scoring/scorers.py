"""One way to score a text, whatever the model: Electric, two towers, causal LMs, masked LMs."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from lexergy.core.batches import batches_by_length
from lexergy.core.cloze_nce import electra_log_prob
from lexergy.errors import LexergyError
from lexergy.models.causal.lm import CausalLM
from lexergy.models.causal.log_probs import token_log_prob
from lexergy.models.causal.prefix_tree import PrefixTree, prefix_trees, reads_trees, tree_logits
from lexergy.models.cloze import ElectricModel, TwoTowerModel
from lexergy.models.loading.devices import default_device, device_of
from lexergy.models.loading.sources import CAUSAL_LMS, resolve_encoder
from lexergy.models.loading.tokenizer import END_OF_TEXT, load_tokenizer, text_ends
from lexergy.models.masked.lm import MaskedLM, logits_at
from lexergy.models.scoring.frequencies import load_frequencies

TOKENS_AT_ONCE = 2**13
PADDED_TOKENS_AT_ONCE_CPU = 2**10  # of mixed lengths: small batches need little padding and stay in the caches
LOGITS_AT_ONCE = 2**26
NOISE_FOLDER = "noise"

SHARED_ENOUGH = 1.3  # tokens for each node of the tree of their prefixes

TokenScores = Callable[[Tensor], Tensor]  # rows (B, L), ends included -> log-scores (B, n) of what is between the ends
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

    def score(self, texts: Sequence[str]) -> list[TextScore]: ...

    def log_frequencies(self, texts: Sequence[str]) -> list[list[float]]: ...


class _Row(NamedTuple):
    text: int
    tokens: list[int]


class Scorer:
    """log-scores of texts: `scorer.score(texts)`.

    `kind` says what a score is: PLL = sum_t log p(x_t | x_\\t) (Electric: -sum_t E(x)_t, Sec. 3.2, Clark et al. 2020;
    masked LM: each token masked in turn, Salazar et al. 2020), or the log-likelihood sum_t log p(x_t | x_<t) of a
    causal LM. `passes` is the number of passes through the transformer that it takes. A text stands between the model's
    start and end tokens, which are read but not scored.

    Rows of one batch have the same length, so that nothing is padded and batching changes no score; only behind a text
    that is read left to right, and so without an end token, padding is not seen and does no harm. Where many such texts
    begin alike they are read as trees, each beginning once (`prefix_tree`). A text longer than the model reads at once
    is read in pieces, each with a token of context at its ends; each token is scored once.
    """

    def __init__(
        self,
        kind: str,
        tokenizer: PreTrainedTokenizerBase,
        token_scores: TokenScores,
        *,
        start: int,
        end: int | None,
        max_length: int | None = None,
        passes: str = "1",
        tokens_at_once: int = TOKENS_AT_ONCE,
        tree_scores: TreeScores | None = None,
    ) -> None:
        self.kind = kind
        self.tokenizer = tokenizer
        self.passes = passes
        self.frequencies: Tensor | None = None  # (V,), log p of each token without its context
        self._token_scores = token_scores
        self._tree_scores = tree_scores
        self._start, self._end = start, [] if end is None else [end]
        self._reads_left_to_right = end is None
        self._tokens_at_once = tokens_at_once
        self._longest = None if max_length is None else max_length - 1 - len(self._end)

    @torch.inference_mode()
    def score(self, texts: Sequence[str]) -> list[TextScore]:
        """The scores of the texts, in their order."""
        if not texts:
            return []
        encoded = self.tokenizer(
            list(texts),
            add_special_tokens=False,
            return_offsets_mapping=True,
            return_attention_mask=False,
            verbose=False,
        )
        rows = [_Row(number, row) for number, ids in enumerate(encoded["input_ids"]) for row in self._rows(ids)]
        scores = self._row_scores([row.tokens for row in rows])
        parts: list[list[list[float]]] = [[] for _ in texts]
        for row, values in zip(rows, scores, strict=True):
            parts[row.text].append(values)
        return [
            TextScore(tuple(value for part in found for value in part), tuple(map(tuple, spans)), max(1, len(found)))
            for found, spans in zip(parts, encoded["offset_mapping"], strict=True)
        ]

    def _row_scores(self, rows: list[list[int]]) -> list[list[float]]:
        """Of the tokens between a row's ends."""
        if self._tree_scores is not None:
            trees = list(prefix_trees(rows))
            if sum(map(len, rows)) >= SHARED_ENOUGH * sum(map(len, trees)):
                return self._scores_by_tree(trees, self._tree_scores)
        scores: list[list[float]] = [[] for _ in rows]
        for batch in batches_by_length(
            [len(row) for row in rows], self._tokens_at_once, equal=not self._reads_left_to_right
        ):
            longest = max(len(rows[index]) for index in batch)
            padded = [rows[index] + [self._start] * (longest - len(rows[index])) for index in batch]
            found = self._token_scores(torch.tensor(padded)).double().tolist()  # of tokens (B, L)
            for index, values in zip(batch, found, strict=True):
                scores[index] = values[: len(rows[index]) - 1 - len(self._end)]
        return scores

    @staticmethod
    def _scores_by_tree(trees: list[PrefixTree], tree_scores: TreeScores) -> list[list[float]]:
        scores: dict[int, list[float]] = {}
        for tree in trees:
            found = tree_scores(tree).double().tolist()
            for place, path in tree.paths.items():
                scores[place] = [found[node] for node in path[1:]]
        return [scores[place] for place in range(len(scores))]

    def log_frequencies(self, texts: Sequence[str]) -> list[list[float]]:
        """log p(x_t) of each token without its context, where its `frequencies` are known."""
        if self.frequencies is None:
            raise LexergyError(
                f"how frequent tokens are is not known beside this model, which gives {self.kind}; expected one of "
                "`lexergy pretrain`, which keeps them, or an n-gram LM."
            )
        if not texts:
            return []
        encoded = self.tokenizer(list(texts), add_special_tokens=False, return_attention_mask=False, verbose=False)
        frequencies = self.frequencies.tolist()
        return [[frequencies[token] for token in ids] for ids in encoded["input_ids"]]

    def _rows(self, ids: list[int]) -> Iterator[list[int]]:
        """The text between its ends, cut into rows that share their ends."""
        sequence = [self._start, *ids, *self._end]
        size = self._longest or max(1, len(ids))
        for first in range(0, len(ids), size):
            yield sequence[first : min(first + size, len(ids)) + 1 + len(self._end)]


def load_scorer(source: str | Path) -> TextScorer:
    """The scorer of a folder, a Hub name, a GGUF file, `smollm2-135m`, `trigram`; what it holds decides the kind.

    Examples:
        >>> import tempfile
        >>> from lexergy import load_scorer
        >>> from lexergy.testing import EnumerableMaskedLM
        >>> folder = tempfile.mkdtemp()
        >>> EnumerableMaskedLM().save_pretrained(folder)
        >>> scorer = load_scorer(folder)
        >>> scorer.kind, scorer.passes
        ('masked-LM PLL', 'n')
        >>> score, = scorer.score(["the state of union"])
        >>> len(score.log_scores), score.log_score == sum(score.log_scores)
        (4, True)
    """
    from lexergy.models.scoring.ngram import NgramScorer  # which needs what stands above

    name = str(source)
    if name == NgramScorer.packaged_name or name.endswith(NgramScorer.suffixes):
        return NgramScorer.load(name)
    is_reference = (Path(name) / "lexergy_lm.json").is_file()
    if name in CAUSAL_LMS or name.endswith(".gguf") or is_reference:
        return causal_scorer(CausalLM.from_pretrained(name))
    folder = resolve_encoder(name).folder
    scorer = _folder_scorer(folder, name)
    scorer.frequencies = load_frequencies(folder)
    return scorer


def _folder_scorer(folder: Path, name: str) -> Scorer:
    config = _config(folder)
    kind, architecture = config.get("model_type"), (config.get("architectures") or [""])[0]
    if kind == ElectricModel.config_class.model_type:
        model = _loaded(ElectricModel, folder)
        generator = None if model.config.is_law else _two_tower_generator(folder)
        return electric_scorer(model, load_tokenizer(folder), generator)
    if kind == TwoTowerModel.config_class.model_type:
        return two_tower_scorer(_loaded(TwoTowerModel, folder), load_tokenizer(folder))
    if architecture.endswith("ForMaskedLM"):
        masked = MaskedLM.from_pretrained(folder)
        return masked_scorer(masked.model, masked.tokenizer)
    if not architecture.endswith(("ForCausalLM", "LMHeadModel")):
        raise LexergyError(
            f"'{name}' holds a model of type {kind!r} ({architecture or 'no architecture named'}); expected Electric, "
            "a two-tower model, a causal LM or a masked LM with its head; choose another model."
        )
    return causal_scorer(CausalLM.from_pretrained(name))


def _two_tower_generator(folder: Path) -> TwoTowerModel:
    """The generator without which ELECTRA's classifier, or a residual energy, is no law of tokens."""
    noise = folder / NOISE_FOLDER
    if _config(noise).get("model_type") != TwoTowerModel.config_class.model_type:
        raise LexergyError(
            f"'{folder}' holds an ELECTRA without a two-tower generator in '{NOISE_FOLDER}'; expected an ELECTRA-TT or "
            "an Electric: the law of a masked generator is known at masks only."
        )
    return _loaded(TwoTowerModel, noise)


def electric_scorer(
    model: ElectricModel, tokenizer: PreTrainedTokenizerBase, generator: TwoTowerModel | None = None
) -> Scorer:
    """-E of each token, in one pass; with the `generator` of an ELECTRA-TT or a residual Electric, log p^ of both."""
    share = model.config.noise_share

    def token_scores(rows: Tensor) -> Tensor:
        energies = model(rows.to(device_of(model))).energies[:, 1:-1]
        if generator is None:
            return -energies.cpu()
        noise_log_prob = _two_tower_log_prob(generator, rows)
        if share is None:
            return noise_log_prob - energies.cpu()
        return electra_log_prob(energies.cpu(), noise_log_prob, share)

    kind = "Electric PLL" if share is None else "ELECTRA-TT PLL"
    start, end = text_ends(tokenizer)
    passes = "1" if generator is None else "1 + generator"
    return Scorer(
        kind,
        tokenizer,
        token_scores,
        start=start,
        end=end,
        max_length=_max_length(tokenizer, model.encoder, *([] if generator is None else generator.bodies)),
        passes=passes,
    )


def two_tower_scorer(model: TwoTowerModel, tokenizer: PreTrainedTokenizerBase) -> Scorer:
    """log q(x_t | x_\\t) of each token, in one pass of the two towers."""
    start, end = text_ends(tokenizer)
    limit = _max_length(tokenizer, model.bodies[0])
    return Scorer(
        "two-tower PLL",
        tokenizer,
        lambda rows: _two_tower_log_prob(model, rows),
        start=start,
        end=end,
        max_length=limit,
    )


def causal_scorer(lm: CausalLM) -> Scorer:
    """log p(x_t | x_<t) of each token; the first is predicted from the LM's start token, or from end-of-text."""
    if lm.tokenizer is None:
        raise LexergyError(f"the LM {lm.source} has no tokenizer; expected one beside its weights.")
    start = lm.start_token
    if start is None:
        known = lm.tokenizer.get_vocab()
        candidates = (known.get(END_OF_TEXT), lm.tokenizer.bos_token_id, lm.tokenizer.eos_token_id)
        start = next((token for token in candidates if token is not None), None)
    if start is None:
        raise LexergyError(f"the LM {lm.source} has no token to start a text with; give a `start_token`.")

    def token_scores(rows: Tensor) -> Tensor:
        rows = rows.to(lm.device)
        return token_log_prob(
            lambda chunk: lm.forbid_(lm.model(input_ids=chunk, use_cache=False).logits[:, :-1]),
            rows,
            rows[:, 1:],
            lm.vocab_size,
            torch.float32,
        )

    return Scorer(
        "log-likelihood",
        lm.tokenizer,
        token_scores,
        start=start,
        end=None,
        max_length=getattr(lm.model.config.get_text_config(), "max_position_embeddings", None),
        tokens_at_once=PADDED_TOKENS_AT_ONCE_CPU if lm.device.type == "cpu" else TOKENS_AT_ONCE,
        tree_scores=_tree_scores_of(lm) if reads_trees(lm.model, lm.device) else None,
    )


def _tree_scores_of(lm: CausalLM) -> TreeScores:
    def tree_scores(tree: PrefixTree) -> Tensor:  # (N,)
        logits = lm.forbid_(tree_logits(lm.model, tree, lm.device))  # (N, V)
        parents = torch.tensor(tree.parents, device=lm.device).clamp(min=0)
        tokens = torch.tensor(tree.tokens, device=lm.device)
        return (logits[parents, tokens] - logits.logsumexp(-1)[parents]).cpu()

    return tree_scores


def masked_scorer(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Scorer:
    """log p(x_t | x with t masked) of each token, in as many passes as there are tokens."""
    mask = tokenizer.mask_token_id
    if mask is None:
        raise LexergyError("the tokenizer of the masked LM has no mask token; expected one; choose another model.")

    def token_scores(rows: Tensor) -> Tensor:  # (B, L) -> (B, n)
        num_rows, length = rows.shape
        num_inside = length - 2
        repeated = rows.repeat_interleave(num_inside, dim=0)  # (B n, L)
        chosen = torch.eye(length, dtype=torch.bool)[1:-1].repeat(num_rows, 1)  # (B n, L): one position in each
        at_once = max(1, min(TOKENS_AT_ONCE // length, LOGITS_AT_ONCE // model.config.vocab_size))
        parts = []
        for tokens, masked in zip(repeated.split(at_once), chosen.split(at_once), strict=True):
            logits = logits_at(model, tokens.masked_fill(masked, mask), masked)  # (R, V)
            parts.append(logits.gather(1, tokens[masked][:, None]).squeeze(1) - logits.logsumexp(-1))
        return torch.cat(parts).view(num_rows, num_inside)

    start, end = text_ends(tokenizer)
    limit = _max_length(tokenizer, model)
    return Scorer("masked-LM PLL", tokenizer, token_scores, start=start, end=end, max_length=limit, passes="n")


def _two_tower_log_prob(model: TwoTowerModel, rows: Tensor) -> Tensor:  # (B, n + 2) -> (B, n)
    rows = rows.to(device_of(model))
    vocab_size = model.config.body["vocab_size"]
    return token_log_prob(lambda chunk: model(chunk).logits, rows, rows[:, 1:-1], vocab_size, torch.float32)


def _max_length(tokenizer: PreTrainedTokenizerBase, *models: Any) -> int | None:
    """How many tokens all of them read at once."""
    limits = [getattr(model.config, "max_position_embeddings", None) for model in models]
    return min((limit for limit in (*limits, tokenizer.model_max_length) if limit), default=None)


def _config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def _loaded(kind: Any, folder: Path) -> Any:
    try:
        return kind.from_pretrained(folder).to(default_device()).eval()
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:160]
        raise LexergyError(
            f"the model in '{folder}' cannot be read ({reason}); expected what `save_pretrained` wrote; "
            "fetch or train it again."
        ) from error
