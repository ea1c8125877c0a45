"""A language model that writes right to left: what comes before a given suffix."""

from pathlib import Path
from typing import Any

from torch import Tensor
from transformers import PreTrainedTokenizerBase

from lexergy.errors import LexergyError
from lexergy.models.causal.lm import CausalLM
from lexergy.models.causal.samples import Samples


class RightToLeftLM:
    """A causal LM of reversed text, its tokens turned round on the way in and out (Sec. 3.2, "Real or fake", 2020).

    p(x | suffix) = prod_t p_LM(x_t | x_>t, suffix), t running from the last token of x to its first. Everything
    here is in reading order; `lm` has the model's order.

    Examples:
        >>> import torch
        >>> from lexergy import CausalLM, RightToLeftLM
        >>> from lexergy.testing import EnumerableLM
        >>> lm = RightToLeftLM(CausalLM(EnumerableLM().model, direction="right_to_left"))
        >>> before = lm.sample(torch.tensor([[1, 2]]), num_samples=3, max_new_tokens=4, seed=0)
        >>> rows = torch.cat([before.tokens[0], torch.tensor([[1, 2]] * 3)], dim=1)  # in reading order
        >>> torch.allclose(lm.log_prob(rows, suffix_length=2), before.log_prob[0], atol=1e-4)
        True
    """

    def __init__(self, lm: CausalLM) -> None:
        if lm.direction != "right_to_left":
            raise LexergyError(
                "the LM reads left to right; expected one of reversed text: `lm.train.direction: right_to_left`, or "
                'CausalLM(model, direction="right_to_left").'
            )
        self.lm = lm

    @classmethod
    def from_pretrained(cls, source: str | Path, **options: Any) -> "RightToLeftLM":
        """Load the `lm` folder of a right-to-left LM; options as those of `CausalLM.from_pretrained`."""
        return cls(CausalLM.from_pretrained(source, direction="right_to_left", **options))

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase | None:
        return self.lm.tokenizer

    @property
    def vocab_size(self) -> int:
        return self.lm.vocab_size

    def fingerprint(self) -> str:
        """A hash of configuration, direction and weights, for provenance."""
        return self.lm.fingerprint()

    def sample(self, suffix_tokens: Tensor, **options: Any) -> Samples:  # (B, S) -> tokens (B, K, C)
        """Draw K texts that come before each suffix; options as those of `CausalLM.sample`.

        Where an end token ends a text it stands, and pads, at the beginning.
        """
        samples = self.lm.sample(suffix_tokens.flip(-1), **options)
        return samples._replace(tokens=samples.tokens.flip(-1))

    def log_prob(self, tokens: Tensor, *, suffix_length: int) -> Tensor:
        """log p(text | suffix) of rows (B, L), of which the last `suffix_length` tokens are given: (B,) float64."""
        return self.token_log_prob(tokens, suffix_length=suffix_length).sum(-1)

    def token_log_prob(self, tokens: Tensor, *, suffix_length: int) -> Tensor:
        """log p(x_t | x_>t) of each token before the suffix of rows (B, L): (B, L - S) float64."""
        return self.lm.token_log_prob(tokens.flip(-1), prefix_length=suffix_length).flip(-1)
