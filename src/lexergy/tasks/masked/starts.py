"""Where chains begin: alike, drawn, or so far apart that they can tell whether they have mixed."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from lexergy.core.decoding import Decoding
from lexergy.core.mcmc.metropolis import ChainState, degenerate_gibbs_step, mask_predict, propose
from lexergy.core.mcmc.sweeps import Order, Schedule, Step, run_chains
from lexergy.core.random import uniforms
from lexergy.models.masked.lm import MaskedLM

START_STEP = 2**62  # address of the random numbers of the start, which no sweep uses
START_SWEEPS = 2  # of a start by degenerate Gibbs sampling
ITERATIONS = 10  # of Mask-Predict
HOT = Decoding(temperature=2.0)
STREAMS = 2**32  # random streams that the chains of one sentence may use

StartName: TypeAlias = Literal["sampled", "greedy", "gibbs", "dispersed"]
DISPERSED = ("greedy", "Mask-Predict", "random", "hot")  # of the chains of a sentence in turn


def start_chains(
    lm: MaskedLM,
    tokens: Tensor,  # (C, L)
    free: Tensor,  # (C, L) bool
    start: StartName,
    decoding: Decoding,
    order: Order,
    *,
    seed: int,
    chain_ids: Sequence[int],
) -> Tensor:  # (C, L)
    """All masks filled: `sampled` draws each of them, `greedy` takes the likeliest tokens (the thesis's warm start).

    Greedy chains of a sentence all start alike; `gibbs` goes on from there for two sweeps that take every proposal, as
    for Table 6.6 of the thesis. `dispersed` chains begin, in turn, greedily, at Mask-Predict's translation, at tokens
    drawn uniformly from the vocabulary, and after two sweeps of Gibbs sampling at temperature 2: some above the
    energies of the target and some below, as R-hat wants its chains (Gelman and Rubin 1992).
    """
    numbers = uniforms(seed, chain_ids, START_STEP, 0, tokens.shape[1])

    def gibbs(rows: Tensor, decoding: Decoding) -> Tensor:
        filled = mask_predict(tokens[rows], free[rows], lm.conditionals, iterations=1)
        state = ChainState(filled, torch.zeros(len(filled), dtype=torch.double))
        # Random numbers that the walk itself does not use.
        streams = [STREAMS // 2 + chain_ids[row] for row in rows.tolist()]
        blocks = Schedule(sweeps=START_SWEEPS, order=order)
        *_, last = run_chains(state, free[rows], blocks, gibbs_step(lm, decoding), seed=seed, chain_ids=streams)
        return last.state.tokens

    fill: dict[str, Callable[[Tensor], Tensor]] = {
        "sampled": lambda rows: propose(tokens[rows], free[rows], numbers[rows], lm.conditionals).tokens,
        "greedy": lambda rows: mask_predict(tokens[rows], free[rows], lm.conditionals, iterations=1),
        "Mask-Predict": lambda rows: mask_predict(tokens[rows], free[rows], lm.conditionals, ITERATIONS),
        "random": lambda rows: _any_tokens(lm, tokens[rows], free[rows], numbers[rows]),
        "hot": lambda rows: gibbs(rows, HOT),
        "gibbs": lambda rows: gibbs(rows, decoding),
    }
    names = DISPERSED if start == "dispersed" else (start,)
    turns = torch.tensor([chain % STREAMS % len(names) for chain in chain_ids])
    filled = tokens.clone()
    for turn, name in enumerate(names):
        rows = (turns == turn).nonzero().squeeze(1)
        if len(rows):
            filled[rows] = fill[name](rows)
    return filled


def gibbs_step(lm: MaskedLM, decoding: Decoding) -> Step:
    """Every proposal is taken, whatever the target's temperature."""
    gibbs = partial(degenerate_gibbs_step, conditionals=lm.conditionals, decoding=decoding)
    return lambda state, block, numbers, temperature: gibbs(state, block, numbers)


def _any_tokens(lm: MaskedLM, tokens: Tensor, free: Tensor, numbers: Tensor) -> Tensor:
    """Tokens drawn uniformly from the vocabulary, special ones left out."""
    every = torch.arange(lm.vocab_size)
    words = every[~torch.isin(every, lm.special_tokens)]
    return torch.where(free, words[(numbers * len(words)).long()].to(tokens.device), tokens)
