"""Local residuals of no meaning, large enough to be seen, and what they do to an LM, written in probabilities."""

import numpy as np
import torch
from torch import Tensor

from lexergy import CausalLM
from lexergy.core.local_residuals.ngrams import find, kneser_ney
from lexergy.models.causal.local_residuals import AdapterResidual, LocalResidual, NgramResidual, UnigramResidual


def toy_residuals(lm: CausalLM, *kinds: str, order: int = 3, seed: int = 0) -> list[LocalResidual]:
    """Of each kind, or of these."""
    generator = torch.Generator().manual_seed(seed)
    vocab_size, width = lm.model.get_output_embeddings().weight.shape
    probs = np.arange(1, vocab_size + 1) / np.arange(1, vocab_size + 1).sum()
    text = np.random.default_rng(seed).choice(vocab_size, 40 * vocab_size, p=probs)
    weights = torch.tensor([0.9, 0.3, 0.5, 0.7][:order])
    every = {
        "unigram": UnigramResidual(torch.randn(vocab_size, generator=generator), 0.6),
        "adapter": AdapterResidual(
            torch.randn(vocab_size, 2, generator=generator), torch.randn(2, width, generator=generator) / width
        ),
        "ngram": NgramResidual(kneser_ney([text], order, vocab_size), vocab_size, weights),
    }
    return [every[kind] for kind in kinds or every]


@torch.no_grad()
def corrected_log_probs(lm: CausalLM, rows: Tensor) -> Tensor:  # (B, L) -> (B, L, V)
    """log P(w | x_<=t) after each token of rows, from the frozen model's logits and states; any LM's."""
    frozen = lm._frozen_model
    logits = frozen(rows).logits.double()
    parts = {residual.kind: residual for residual in lm.residuals}
    if "unigram" in parts:
        logits = logits + parts["unigram"].strength * parts["unigram"].log_ratio.double()
    if "adapter" in parts:
        states = frozen.base_model(rows).last_hidden_state.double()  # (B, L, D)
        logits = logits + states @ parts["adapter"].down.double().T @ parts["adapter"].up.double().T
    logits[..., list(lm.forbidden_tokens)] = -torch.inf
    probs = logits.softmax(-1)
    if "ngram" in parts:
        probs = _mixed(parts["ngram"], probs, rows)
    probs[..., list(lm.forbidden_tokens)] = 0
    return (probs / probs.sum(-1, keepdim=True)).log()


def _mixed(residual: NgramResidual, probs: Tensor, rows: Tensor) -> Tensor:  # (B, L, V), (B, L) -> (B, L, V)
    flat = probs.flatten(0, 1)
    matches = find(residual.levels, _before(rows, residual.context_length), flat.shape[-1])
    ngram = matches.left.double().unsqueeze(-1) * flat
    for numbers, tokens, own in matches.entries:
        ngram.index_put_((numbers, tokens), own.double(), accumulate=True)
    weight = residual.weights[matches.length].double().unsqueeze(-1)
    return ((1 - weight) * flat + weight * ngram).view(probs.shape)


def _before(rows: Tensor, width: int) -> Tensor:  # (B, L) -> (B L, width)
    """The tokens up to each place, its own last; -1 where there is none."""
    before = [[-1] * width + row[: place + 1] for row in rows.tolist() for place in range(rows.shape[1])]
    return torch.tensor([tokens[-width:] for tokens in before])
