"""The pseudo-log-likelihood of texts by a masked LM: -E_local of `MaskedLM`, token by token."""

from torch import Tensor

from lexergy.models.masked.lm import MaskedLM
from lexergy.models.scoring.frequencies import load_frequencies
from lexergy.models.scoring.scorer import Scorer, max_length_of
from lexergy.models.scoring.source import ModelSource


def matches(source: ModelSource) -> bool:
    return source.architecture.endswith("ForMaskedLM")


def load(source: ModelSource) -> Scorer:
    scorer = masked_scorer(MaskedLM.from_pretrained(source.folder))
    scorer.frequencies = load_frequencies(source.folder)
    return scorer


def masked_scorer(lm: MaskedLM) -> Scorer:
    """log p(x_t | x with t masked) of each token, in as many passes as there are tokens (Salazar et al. 2020).

    As in the energy: a text stands between the edges that the tokenizer itself puts around it, special tokens have
    probability zero, and one inside the text is not scored: it counts 0.
    """
    before, after = lm.edges

    def token_scores(rows: Tensor) -> Tensor:  # (B, L) -> (B, n)
        return lm.token_log_prob(rows)[:, len(before) : rows.shape[1] - len(after)]

    scorer = Scorer(
        "masked-LM PLL",
        lm.tokenizer,
        token_scores,
        edges=(before, after),
        max_length=max_length_of(lm.tokenizer, lm.model),
        passes="n",
    )
    scorer.edition = "special tokens are no values"
    return scorer
