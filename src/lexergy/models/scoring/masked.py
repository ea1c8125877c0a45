"""The pseudo-log-likelihood of texts by a masked LM: -E_local of `MaskedLM`, token by token."""

from torch import Tensor

from lexergy.models.loading.devices import tokens_at_once
from lexergy.models.masked.lm import MaskedLM
from lexergy.models.scoring.frequencies import load_frequencies
from lexergy.models.scoring.scorer import Scorer, max_length_of
from lexergy.models.scoring.source import ModelSource

BATCH_COST_OF_N_PASSES = 2  # in tokens of the text, each of which stands in as many passes as the text has


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
    can_pad = lm.pad_token != lm.mask_token

    def token_scores(rows: Tensor, is_token: Tensor) -> Tensor:  # (B, L) each -> (B, n)
        padded = rows.masked_fill(~is_token, lm.pad_token)
        return lm.token_log_prob(padded)[:, len(before) : rows.shape[1] - len(after)]

    scorer = Scorer(
        "masked-LM PLL",
        lm.tokenizer,
        token_scores,
        edges=(before, after),
        max_length=max_length_of(lm.tokenizer, lm.model),
        passes="n",
        tokens_at_once=tokens_at_once(lm.model),
        batch_cost=BATCH_COST_OF_N_PASSES if can_pad else 0,
        networks=(lm.model,),
    )
    scorer.edition = "special tokens are no values"
    return scorer
