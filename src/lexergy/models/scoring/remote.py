"""The log-likelihood of texts by an LM that runs elsewhere, where its server gives log-probabilities of prompts."""

from torch import Tensor

from lexergy.errors import LexergyError
from lexergy.models.causal.language_model import LanguageModel
from lexergy.models.causal.text_starts import start_of_text
from lexergy.models.remote.opening import open_lm
from lexergy.models.scoring.scorer import Scorer
from lexergy.models.scoring.source import ModelSource
from lexergy.recipes.sections.remote import is_remote


def matches(source: ModelSource) -> bool:
    return is_remote(source.name)


def load(source: ModelSource) -> Scorer:
    lm = open_lm(source.name)
    return remote_scorer(lm.ending() if lm.may_end else lm)


def remote_scorer(lm: LanguageModel) -> Scorer:
    """log p(x_t | x_<t) of each token; the first is predicted from the LM's start token, or from end-of-text."""
    if lm.unscored is not None:
        raise LexergyError(
            f"{lm.source} scores no texts: {lm.unscored}; expected a server that gives log-probabilities of prompts "
            "(Lexergy's own, vLLM), or an LM in this process."
        )

    def token_scores(rows: Tensor, is_token: Tensor) -> Tensor:  # (B, L) each -> (B, L - 1)
        if lm.start_token is not None:
            return lm.token_log_prob(rows[:, 1:], prefix_length=0)
        return lm.token_log_prob(rows, prefix_length=1)

    return Scorer(
        "log-likelihood",
        lm.need_tokenizer(),
        token_scores,
        edges=([start_of_text(lm)], []),
        max_length=lm.max_length,
    )
