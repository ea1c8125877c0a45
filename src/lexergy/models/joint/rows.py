"""Algorithm 1 for many prefixes at once: candidates from the LM, one of them for each prefix by its energy."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from lexergy.core.estimation import importance, partition
from lexergy.core.random import uniforms
from lexergy.errors import LexergyError
from lexergy.models.causal.sampling import Samples

if TYPE_CHECKING:
    from lexergy.models.joint.model import ResidualEBM


class JointRows(NamedTuple):
    """One continuation of each of B prefixes, and the n candidates' weights that it was chosen by."""

    tokens: Tensor  # (B, C)
    log_prob: Tensor  # (B,) float64, the LM's, under the law that the candidates were drawn from
    energy: Tensor  # (B,) float64
    features: Tensor | None  # (B, F), for an energy that reads the LM's states
    base_tokens: Tensor  # (B, C), the first candidate: a plain sample of the LM
    base_log_prob: Tensor  # (B,)
    base_energy: Tensor  # (B,)
    log_weights: Tensor  # (B, n) float64, -E of all candidates

    @property
    def log_z(self) -> Tensor:  # (B,)
        """T_n, the lower bound of log Z (Eq. 4, Deng et al. 2020)."""
        return partition.lower_bound(self.log_weights)

    @property
    def ess(self) -> Tensor:  # (B,)
        return importance.effective_sample_size(self.log_weights)


def sample_rows(
    joint: "ResidualEBM",
    prefix: Tensor,  # (B, P)
    *,
    num_candidates: int,
    max_new_tokens: int,
    seed: int = 0,
    prefix_ids: Sequence[int] | None = None,
    rows_per_batch: int = 256,
    **decoding: Any,
) -> JointRows:
    """Draw x_i ~ P_LM and keep x_i with probability proportional to exp(-E(x_i)), for each prefix.

    `decoding` is what `CausalLM.sample` takes (top_k, top_p, temperature). With one candidate this is the LM.
    `rows_per_batch` changes speed, never results.
    """
    if num_candidates < 1:
        raise LexergyError(f"`num_candidates` is {num_candidates}; expected at least 1; 256 is a good start.")
    ids = list(range(len(prefix)) if prefix_ids is None else prefix_ids)
    prefixes = max(1, rows_per_batch // num_candidates)
    groups = []
    for start in range(0, len(prefix), prefixes):
        group = slice(start, start + prefixes)
        samples, energy, chosen = draw_candidates(
            joint,
            prefix[group],
            num_candidates=num_candidates,
            max_new_tokens=max_new_tokens,
            seed=seed,
            prefix_ids=ids[group],
            rows_per_batch=rows_per_batch,
            **decoding,
        )
        first = torch.zeros_like(chosen)
        groups.append(
            JointRows(
                pick(samples.tokens, chosen),
                pick(samples.log_prob, chosen),
                pick(energy, chosen),
                None if samples.features is None else pick(samples.features, chosen),
                pick(samples.tokens, first),
                pick(samples.log_prob, first),
                pick(energy, first),
                -energy,
            )
        )
    return _join(groups)


class Candidates(NamedTuple):
    """n continuations of each of B prefixes, their energies, and the one drawn by them."""

    samples: Samples
    energy: Tensor  # (B, n) float64
    chosen: Tensor  # (B,)


def draw_candidates(
    joint: "ResidualEBM",
    prefix: Tensor,  # (B, P)
    *,
    num_candidates: int,
    max_new_tokens: int,
    seed: int,
    prefix_ids: Sequence[int],
    **sampling: Any,
) -> Candidates:
    """Algorithm 1, Deng et al. 2020, with all its candidates kept; the first one is a plain sample of the LM."""
    samples = joint.lm.sample(
        prefix,
        num_samples=num_candidates,
        max_new_tokens=max_new_tokens,
        seed=seed,
        prefix_ids=prefix_ids,
        features=joint.energy.features,
        **sampling,
    )
    energy = joint.score(prefix, samples.tokens, samples.features).double()
    # The sampler's own numbers are those of steps 0 .. max_new_tokens - 1.
    numbers = uniforms(seed, prefix_ids, max_new_tokens, 0, 1)  # (B, 1)
    return Candidates(samples, energy, importance.resample(-energy, numbers).squeeze(-1))


def pick(values: Tensor, chosen: Tensor) -> Tensor:  # (B, n, ...), (B,) -> (B, ...)
    return values[torch.arange(len(chosen)), chosen]


def _join(groups: list[JointRows]) -> JointRows:
    columns: list[Any] = [None if column[0] is None else torch.cat(column) for column in zip(*groups, strict=True)]
    return JointRows(*columns)
