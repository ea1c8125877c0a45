"""Who looks at texts while the LM writes them: their energies so far, and which of them go on."""

from collections.abc import Sequence

import torch
from torch import Tensor

from lexergy.core.estimation import smc
from lexergy.core.estimation.proposals import TokenTilt
from lexergy.core.estimation.smc import Population, Resampling
from lexergy.core.random import uniforms
from lexergy.core.vocabulary import VocabularySummary
from lexergy.models.causal.sampling import Written
from lexergy.models.causal.states import PooledStates
from lexergy.models.joint.weights import WeighedLM


class Steering:
    """Weighs the particles every few tokens by the energies of their texts so far, and resamples them."""

    def __init__(
        self,
        joint: WeighedLM,
        prefix: Tensor,  # (B, P)
        shape: tuple[int, int, int],  # B, M, K
        length: int,
        seed: int,
        streams: Sequence[int],
        resampling: Resampling,
        first_run: int,
        kept: Tensor | None,
    ) -> None:
        self.population = Population.start(*shape)
        self._joint, self._prefix, self._shape = joint, prefix, shape
        self._resampling, self._twist, self._tilt = resampling, resampling.twist_of(length), resampling.tilt_of(length)
        self._length, self._first_run, self._kept = length, first_run, kept is not None
        self._seed, self._streams = seed, streams

    def proposal(self, step: int, logits: Tensor, summary: VocabularySummary) -> Tensor | None:
        return None if self._tilt is None else self._tilt.tilted(step, logits, summary)

    def after(self, length: int, written: Written, pool: PooledStates | None) -> Tensor | None:
        if length % self._resampling.every:
            return None
        energy = energy_so_far(self._joint, self._prefix, length, written, pool).view(self._shape)
        alive = written.alive.view(self._shape).cpu()
        log_ratio = written.log_ratio.view(self._shape).cpu()  # part of what a text so far is worth
        # The sampler's own numbers are those of steps 0 .. T - 1, and that of the last choice stands at T.
        numbers = uniforms(self._seed, self._streams, self._length + length, self._first_run, self._shape[1])  # (B, M)
        before = self.population.num_resamplings
        self.population, ancestors = smc.resample(
            self.population.weighed(self._twist.log_twist(energy, log_ratio, length) + log_ratio),
            numbers,
            below=self._resampling.below,
            keep_first=self._kept,
            alive=alive,
        )
        if torch.equal(before, self.population.num_resamplings):
            return None
        rows = ancestors.flatten(0, 1)  # (B M, K)
        return (rows + self._shape[2] * torch.arange(len(rows))[:, None]).flatten().to(written.tokens.device)


class Seen:
    """What is known of texts after each token: their energies so far, and how their tokens were drawn."""

    def __init__(self, joint: WeighedLM, prefix: Tensor, shape: tuple[int, int], tilt: TokenTilt | None) -> None:
        self.partial: list[Tensor] = []  # (B, n) each
        self.alive: list[Tensor] = []  # (B, n) each
        self.log_ratio: list[Tensor] = []  # (B, n) each
        self._joint, self._prefix, self._shape, self._tilt = joint, prefix, shape, tilt

    def proposal(self, step: int, logits: Tensor, summary: VocabularySummary) -> Tensor | None:
        return None if self._tilt is None else self._tilt.tilted(step, logits, summary)

    def after(self, length: int, written: Written, pool: PooledStates | None) -> None:
        self.partial.append(energy_so_far(self._joint, self._prefix, length, written, pool).view(self._shape))
        self.alive.append(written.alive.view(self._shape).cpu())
        self.log_ratio.append(written.log_ratio.view(self._shape).cpu())


def energy_so_far(
    joint: WeighedLM,
    prefix: Tensor,  # (B, P)
    length: int,
    written: Written,  # of R rows
    pool: PooledStates | None,
) -> Tensor:  # (B, R / B) float64
    """E of each text as if it ended here, from the pools of states that the sampler keeps."""
    assert pool is not None  # since the energy reads states
    lengths = written.lengths.clamp(max=length)  # (R,)
    rows = (written.tokens[:, :length].cpu(), pool.pooled(lengths).cpu(), lengths.cpu())
    tokens, features, ends = (values.unflatten(0, (len(prefix), -1)) for values in rows)
    return joint.score(prefix, tokens, features, ends).double()
