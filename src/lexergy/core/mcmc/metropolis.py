"""Metropolis-Hastings on token sequences, with the masked conditionals of a language model as proposals.

A kernel is a pure function (state, block, uniforms) -> (state, what happened) on many chains at once. The energy
and the conditionals are any callables, so a kernel can be checked exactly on a space small enough to enumerate.

A block must be chosen without looking at the tokens (`core.mcmc.sweeps` does so): the proposal then has the same
block on its way back, and both ways see the same context, y outside the block.

Source: Goyal 2021 (thesis), Sections 6.3, 6.4 and 6.8. Its Algorithm 4 prints E_new / E_old in the acceptance ratio;
the text defines it with phi = exp(-E), which is what makes the target stationary and what is computed here.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from lexergy.core.decoding import Decoding, draw, pick, truncated_log_probs
from lexergy.core.vocabulary import NEVER

UNTRUNCATED = Decoding()

Energy: TypeAlias = Callable[[Tensor], Tensor]
"""Tokens (N, L) -> energies (N,)."""

Conditionals: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""Tokens (N, L) and a block of them (N, L) bool -> logits (M, V) at the M positions of the blocks, row by row, left to
right, each given the tokens outside its row's block."""


class ChainState(NamedTuple):
    """Where the chains are: all that the next step needs."""

    tokens: Tensor  # (C, L)
    energy: Tensor  # (C,) float64, of these tokens; NaN where a step had no use for it


class Transition(NamedTuple):
    """What a step did to each chain."""

    proposed: Tensor  # (C,) bool: its block was not empty
    accepted: Tensor  # (C,) bool
    novel: Tensor  # (C,) bool: accepted, and another sequence than before
    log_ratio: Tensor  # (C,) float64, log of phi(y') q(y; y') / (phi(y) q(y'; y))


class Proposal(NamedTuple):
    tokens: Tensor  # (C, L)
    log_forward: Tensor  # (C,) float64, log q(y'; y)
    log_reverse: Tensor  # (C,) float64, log q(y; y'), -inf where there is no way back


def initial_state(tokens: Tensor, energy: Energy) -> ChainState:  # (C, L)
    """Chains at `tokens`, with their energies."""
    return ChainState(tokens, energy(tokens).double())


def propose(
    tokens: Tensor,  # (C, L)
    block: Tensor,  # (C, L) bool
    uniforms: Tensor,  # (C, L)
    conditionals: Conditionals,
    decoding: Decoding = UNTRUNCATED,
) -> Proposal:
    """Draw the block's tokens independently of each other given the rest.

    q(y'; y) = prod_{i in I} p_mlm(y'_i | y outside I), Section 6.4.1, sharpened or cut off by `decoding`.
    """
    rows, places = block.nonzero(as_tuple=True)  # (M,) each, row by row
    zeros = torch.zeros(len(tokens), dtype=torch.double, device=tokens.device)
    if len(rows) == 0:
        return Proposal(tokens, zeros, zeros)
    active = block.any(dim=1)
    log_probs = truncated_log_probs(conditionals(tokens[active], block[active]), decoding)  # (M, V)
    numbers = uniforms.to(log_probs.device)[rows, places].unsqueeze(-1)
    drawn = draw(log_probs.clamp_min(NEVER), numbers, UNTRUNCATED).tokens
    return Proposal(
        tokens.index_put((rows, places), drawn),
        zeros.index_add(0, rows, pick(log_probs, drawn).double()),
        zeros.index_add(0, rows, pick(log_probs, tokens[rows, places]).double()),
    )


def metropolis_step(
    state: ChainState,
    block: Tensor,  # (C, L) bool
    uniforms: Tensor,  # (C, 1 + L) in [0, 1): the first accepts, the others propose
    *,
    energy: Energy,
    conditionals: Conditionals,
    decoding: Decoding = UNTRUNCATED,
    temperature: float = 1.0,
) -> tuple[ChainState, Transition]:
    """One step towards p(y) = exp(-E(y) / temperature) / Z: propose the block, accept with min(1, ratio).

    ratio = exp(-(E(y') - E(y)) / temperature) q(y; y') / q(y'; y), Section 6.3.

    The current energy is known, and the energy of a proposal is asked for only where the answer matters: not where
    it is the current sequence again, and not where it has no way back. The latter happens under a nucleus: when the
    current token lies outside the nucleus of its context, q(y; y') = 0 for every other y', so that the step must
    stay. That leaves the target stationary (nothing flows there from the nucleus either), but a chain that starts in
    such a place moves only after its context has changed: it may be slow, or never get everywhere.
    """
    proposal = propose(state.tokens, block, uniforms[:, 1:], conditionals, decoding)
    differs = (proposal.tokens != state.tokens).any(dim=1)
    needed = differs & (proposal.log_reverse > -torch.inf)
    new_energy = state.energy.clone()
    if needed.any():
        new_energy[needed] = energy(proposal.tokens[needed]).double()
    log_ratio = (state.energy - new_energy) / temperature + (proposal.log_reverse - proposal.log_forward)
    accepted = uniforms[:, 0].to(log_ratio.device) < log_ratio.exp()
    moved = ChainState(
        torch.where(accepted[:, None], proposal.tokens, state.tokens),
        torch.where(accepted, new_energy, state.energy),
    )
    proposed = block.any(dim=1)
    return moved, Transition(proposed, accepted & proposed, accepted & differs, log_ratio)


def degenerate_gibbs_step(
    state: ChainState,
    block: Tensor,  # (C, L) bool
    uniforms: Tensor,  # (C, 1 + L), the first unused
    *,
    conditionals: Conditionals,
    decoding: Decoding = UNTRUNCATED,
) -> tuple[ChainState, Transition]:
    """Take every proposal (Wang & Cho 2019): a baseline, which samples from no energy's distribution.

    Masked conditionals need not be those of any joint distribution (Section 6.2.1), so what the chain settles on
    depends on the order of its positions. Energies are not looked at: where a chain moved, its energy becomes NaN.
    """
    proposal = propose(state.tokens, block, uniforms[:, 1:], conditionals, decoding)
    differs = (proposal.tokens != state.tokens).any(dim=1)
    proposed = block.any(dim=1)
    moved = ChainState(proposal.tokens, state.energy.masked_fill(differs, torch.nan))
    return moved, Transition(proposed, proposed, differs, torch.full_like(state.energy, torch.inf))


def mask_predict(
    tokens: Tensor,  # (C, L); what stands at free positions does not matter
    free: Tensor,  # (C, L) bool
    conditionals: Conditionals,
    iterations: int,
) -> Tensor:  # (C, L)
    """Fill the free positions greedily, again and again where the model was least sure: a baseline, not a sampler.

    In iteration i of I the round(N (I - i) / I) least probable of a row's N tokens are masked and predicted at once;
    the others keep the probability that they had when they were predicted (Ghazvininejad et al. 2019). One iteration
    is the thesis's warm start.
    """
    log_probs = torch.full(tokens.shape, -torch.inf, dtype=torch.double, device=tokens.device).masked_fill(~free, 0)
    count = free.sum(dim=1, keepdim=True)  # (C, 1)
    for iteration in range(iterations):
        unsure = log_probs.masked_fill(~free, torch.inf).argsort(dim=1, stable=True).argsort(dim=1)  # (C, L), ranks
        num_masked = (count * (iterations - iteration) / iterations).round().clamp_min(1)
        block = free & (unsure < num_masked)
        if not block.any():
            break
        active = block.any(dim=1)
        best = conditionals(tokens[active], block[active]).double().log_softmax(-1).max(dim=1)  # (M,)
        rows, places = block.nonzero(as_tuple=True)
        tokens = tokens.index_put((rows, places), best.indices)
        log_probs = log_probs.index_put((rows, places), best.values)
    return tokens
