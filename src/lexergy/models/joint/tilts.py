"""Fitting what particles are drawn from: how much each next token adds to the energy, guessed before it is fed.

A token adds more than its own: after an unlikely one, the next are unlikely too. So the guess is of what it and those
after it add, over as many tokens as such an echo lasts.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from lexergy.core.estimation import proposals
from lexergy.core.estimation.proposals import NUM_LIKELIHOOD_TERMS, TokenTilt, likelihood_terms
from lexergy.core.vocabulary import VocabularySummary
from lexergy.errors import LexergyError
from lexergy.models.causal.lm import CausalLM, weights_of
from lexergy.models.causal.sampling import Written
from lexergy.models.causal.states import PooledStates
from lexergy.models.joint.smc import check_particles
from lexergy.models.joint.steering import energy_so_far
from lexergy.models.joint.weights import ROWS_PER_BATCH, WeighedLM

ECHO = 8  # tokens, the one that is drawn among them


class TokensSeen:
    """Of each token that was drawn: features, less their mean under the LM, and the energies around it."""

    def __init__(self, joint: WeighedLM, prefix: Tensor, num_samples: int, embeddings: Tensor) -> None:
        self.features: list[Tensor] = []  # (R, D + 3) each
        self.alive: list[Tensor] = []  # (R,) each, whether the row has this token
        self.sums = [torch.zeros(len(prefix) * num_samples, dtype=torch.double)]  # (R,) each, t E(x_<=t), t = 0, 1, ..
        self._joint, self._prefix, self._embeddings = joint, prefix, embeddings
        self._mean, self._entropy = torch.empty(0), torch.empty(0)

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
        self.features.append(features.cpu())
        self.alive.append((written.lengths >= length).cpu())
        sums = written.lengths.clamp(max=length).cpu() * energy
        self.sums.append(torch.where(self.alive[-1], sums, self.sums[-1]))

    def added(self) -> list[Tensor]:
        """What each token and its echo added to the sum over tokens that the energy is a mean of, (R,) each."""
        last = len(self.sums) - 1
        return [self.sums[min(place + ECHO, last)] - self.sums[place] for place in range(last)]


def fit_tilt(
    joint: WeighedLM,
    prefix: Tensor,  # (B, P)
    *,
    length: int,
    num_samples: int,
    seed: int,
    prefix_ids: Sequence[int],
) -> tuple[TokenTilt, float]:
    """What tokens add to the energy, as a linear function of their embedding and likelihood, and how much it explains.

    A token is one of T: s_t = 1 / T.
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
        seen = TokensSeen(joint, rows, num_samples, embeddings)
        lm.sample(
            rows,
            num_samples=num_samples,
            max_new_tokens=length,
            seed=seed,
            prefix_ids=prefix_ids[start : start + at_once],
            features=joint.energy.features,
            resampler=seen,
        )
        for own, sums, alive in zip(seen.features, seen.added(), seen.alive, strict=True):
            features.append(own[alive])
            added.append(sums[alive])
            groups += (start + alive.nonzero().squeeze(-1) // num_samples).tolist()
    fit = proposals.fit_tilt(torch.cat(features), torch.cat(added), groups)
    weights = fit.weights.to(embeddings)
    return (
        TokenTilt(
            of_token=embeddings @ weights[:-NUM_LIKELIHOOD_TERMS],
            of_likelihood=weights[-NUM_LIKELIHOOD_TERMS:],
            strength=torch.full((length,), 1 / length, dtype=torch.double),
        ),
        fit.explained,
    )


def _embeddings(lm: CausalLM) -> Tensor:  # (V, D)
    table = lm.model.get_input_embeddings().weight.detach()[: lm.vocab_size].float()
    return table - table.mean(0)
