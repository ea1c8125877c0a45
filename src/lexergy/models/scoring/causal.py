"""The log-likelihood of texts by a causal LM."""

from pathlib import Path

import torch
from torch import Tensor

from lexergy.errors import LexergyError
from lexergy.models.causal.lm import CausalLM
from lexergy.models.causal.log_probs import token_log_prob
from lexergy.models.causal.prefix_tree import PrefixTree, longest_in_trees, reads_trees, tree_logits
from lexergy.models.causal.text_starts import start_of_text
from lexergy.models.loading.devices import tokens_at_once
from lexergy.models.loading.sources import CAUSAL_LMS
from lexergy.models.scoring.frequencies import load_frequencies
from lexergy.models.scoring.scorer import Scorer, TreeScores
from lexergy.models.scoring.source import ModelSource

ROWS_IN_CACHE = 32  # of logits: a sum over many more is written to memory and read again


def matches(source: ModelSource) -> bool:
    return _has_own_loader(source.name) or source.architecture.endswith(("ForCausalLM", "LMHeadModel"))


def load(source: ModelSource) -> Scorer:
    scorer = causal_scorer(CausalLM.from_pretrained(source.name))
    if not _has_own_loader(source.name):
        scorer.frequencies = load_frequencies(source.folder)
    return scorer


def _has_own_loader(name: str) -> bool:
    """Whether only `CausalLM` knows where its folder is."""
    return name in CAUSAL_LMS or name.endswith(".gguf") or (Path(name) / "lexergy_lm.json").is_file()


def causal_scorer(lm: CausalLM) -> Scorer:
    """log p(x_t | x_<t) of each token; the first is predicted from the LM's start token, or from end-of-text."""
    if lm.tokenizer is None:
        raise LexergyError(f"the LM {lm.source} has no tokenizer; expected one beside its weights.")
    start = start_of_text(lm)

    def token_scores(rows: Tensor, is_token: Tensor) -> Tensor:  # no token sees the padding behind it
        rows = rows.to(lm.device)
        return token_log_prob(
            lambda chunk: lm.correct(lm.reader().read(chunk).logits[:, :-1], lm.contexts(chunk)[:, 1:-1]),
            rows,
            rows[:, 1:],
            lm.vocab_size,
            torch.float32,
        )

    return Scorer(
        "log-likelihood",
        lm.need_tokenizer(),
        token_scores,
        edges=([start], []),
        max_length=getattr(lm.model.config.get_text_config(), "max_position_embeddings", None),
        tokens_at_once=tokens_at_once(lm.model),
        tree_scores=_tree_scores_of(lm) if lm.precision == "float32" and reads_trees(lm.model, lm.device) else None,
        longest_in_trees=longest_in_trees(lm.model),
        networks=(lm.model,),
    )


def _tree_scores_of(lm: CausalLM) -> TreeScores:
    def tree_scores(tree: PrefixTree) -> Tensor:  # (N,)
        inner = tree.inner_nodes()
        before = tree.contexts(inner, lm.context_length).to(lm.device)
        logits = lm.correct(tree_logits(lm.model, tree, inner, lm.device), before)  # (n, V)
        log_sums = torch.cat([rows.logsumexp(-1) for rows in logits.split(ROWS_IN_CACHE)])  # (n,)
        place_of = {node: place for place, node in enumerate(inner)}
        parents = torch.tensor([place_of.get(parent, 0) for parent in tree.parents], device=lm.device)
        tokens = torch.tensor(tree.tokens, device=lm.device)
        return (logits[parents, tokens] - log_sums[parents]).cpu()

    return tree_scores
