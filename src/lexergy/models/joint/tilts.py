"""Fitting what particles are drawn from: how much each next token adds to the energy, guessed before it is fed."""

from collections.abc import Sequence

import torch
from torch import Tensor

from lexergy.core.estimation import proposals
from lexergy.core.estimation.proposals import NUM_LIKELIHOOD_TERMS, TokenTilt, likelihood_terms
from lexergy.core.estimation.smc import Twist, proportional_twist
from lexergy.core.vocabulary import VocabularySummary
from lexergy.errors import LexergyError
from lexergy.models.causal.lm import CausalLM, weights_of
from lexergy.models.causal.sampling import Written
from lexergy.models.causal.states import PooledStates
from lexergy.models.joint.smc import check_particles
from lexergy.models.joint.steering import energy_so_far
from lexergy.models.joint.weights import ROWS_PER_BATCH, WeighedLM


class TokensSeen:
    """Of each token that was drawn: features, less their mean under the LM, and what it added to the energy."""

    def __init__(self, joint: WeighedLM, prefix: Tensor, embeddings: Tensor) -> None:
        self.features: list[Tensor] = []  # (N_t, D + 3) each
        self.added: list[Tensor] = []  # (N_t,) each, t E(x_<=t) - (t - 1) E(x_<t)
        self.rows: list[Tensor] = []  # (N_t,) each, which rows they are of
        self._joint, self._prefix, self._embeddings = joint, prefix, embeddings
        self._mean, self._entropy, self._sum_before = torch.empty(0), torch.empty(0), torch.zeros(1)

    def proposal(self, step: int, logits: Tensor, summary: VocabularySummary) -> None:
        """Nothing is proposed; the means of the features are noted."""
        _, entropy, variance = summary.moments()
        of_likelihood = torch.stack((-entropy, variance + entropy**2, -(entropy**2)), -1)  # E[l], E[l^2], E[l H]
        of_token = logits.softmax(-1) @ self._embeddings
        self._mean, self._entropy = torch.cat((of_token, of_likelihood.to(of_token)), -1), entropy

    def after(self, length: int, written: Written, pool: PooledStates | None) -> None:
        assert pool is not None  # since the energy reads states
        energy = energy_so_far(self._joint, self._prefix, length, written, pool).flatten()  # (R,)
        log_prob = pool.statistics[:, length - 1, 0]
        terms = likelihood_terms(log_prob, self._entropy.to(log_prob))
        features = torch.cat((self._embeddings[written.tokens[:, length - 1]], terms), -1) - self._mean
        alive = (written.lengths >= length).cpu()
        self.features.append(features.cpu()[alive])
        self.added.append((length * energy - self._sum_before)[alive])
        self.rows.append(alive.nonzero().squeeze(-1))
        self._sum_before = length * energy


def fit_tilt(
    joint: WeighedLM,
    prefix: Tensor,  # (B, P)
    *,
    length: int,
    num_samples: int,
    seed: int,
    prefix_ids: Sequence[int],
    twist: Twist | None,
) -> tuple[TokenTilt, float]:
    """What tokens add to the energy, as a linear function of their embedding and likelihood, and how much it explains.

    A token counts as strongly as the twist counts the text that it is a part of: s_t = b_t / t.
    """
    check_particles(joint, num_samples, 1)
    if length < 2:
        raise LexergyError(f"`length` is {length}; expected at least 2: a tilt is fitted on tokens that others follow.")
    lm = weights_of(joint.lm)
    embeddings = _embeddings(lm)  # (V, D)
    features, added, groups = [], [], []
    at_once = max(1, ROWS_PER_BATCH // num_samples)
    for start in range(0, len(prefix), at_once):
        rows = prefix[start : start + at_once]
        seen = TokensSeen(joint, rows, embeddings)
        lm.sample(
            rows,
            num_samples=num_samples,
            max_new_tokens=length,
            seed=seed,
            prefix_ids=prefix_ids[start : start + at_once],
            features=joint.energy.features,
            resampler=seen,
        )
        features += seen.features
        added += seen.added
        groups += [start + row // num_samples for row in torch.cat(seen.rows).tolist()]
    fit = proposals.fit_tilt(torch.cat(features), torch.cat(added), groups)
    weights = fit.weights.to(embeddings)
    slope = (twist or proportional_twist(length)).slope
    return (
        TokenTilt(
            of_token=embeddings @ weights[:-NUM_LIKELIHOOD_TERMS],
            of_likelihood=weights[-NUM_LIKELIHOOD_TERMS:],
            strength=slope / torch.arange(1, length + 1),
        ),
        fit.explained,
    )


def _embeddings(lm: CausalLM) -> Tensor:  # (V, D)
    table = lm.model.get_input_embeddings().weight.detach()[: lm.vocab_size].float()
    return table - table.mean(0)
