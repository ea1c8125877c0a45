"""Candidates from anywhere, weighed by the joint model: energies, weights, a draw and the best."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor

from lexergy.core.candidates import Candidate, GivenCandidate
from lexergy.core.ends import inside
from lexergy.core.estimation import importance
from lexergy.core.random import uniforms
from lexergy.errors import LexergyError
from lexergy.models.joint.sampling import heavy_tails, prompt_tokens
from lexergy.models.joint.weights import ROWS_PER_BATCH, WeighedLM

WeighedBy: TypeAlias = Literal["energy", "joint"]


@dataclass(frozen=True)
class Reranked:
    """Candidates of one prompt in the order given; `log_prob` is the LM's, untruncated, NaN where it tells none."""

    candidates: list[Candidate]
    best: int  # index of the largest weight; of equal ones the first
    drawn: int  # index of one drawn in proportion to the weights
    ess: float
    pareto_k: float
    warnings: tuple[str, ...]


class Measured(NamedTuple):
    """What continuations of one prefix are weighed by."""

    energy: Tensor  # (n,) float64
    log_prob: Tensor  # (n,) float64


def rerank(
    joint: WeighedLM,
    prompt: str | Sequence[int] | Tensor,
    candidates: Sequence[GivenCandidate],
    *,
    weigh_by: WeighedBy = "energy",
    seed: int = 0,
    stream: int = 0,
) -> Reranked:
    """Weigh continuations of one prompt; the random number of the draw depends on (seed, stream) alone.

    Which weight is right depends on where the candidates come from (importance sampling of P ~ P_LM exp(-E)):

    - drawn from the LM itself: w = exp(-E), `weigh_by="energy"` (Algorithm 1, Deng et al. 2020);
    - a list that nobody drew by lot: w = P_LM exp(-E), the joint model restricted to the list, `weigh_by="joint"`;
    - drawn from another distribution q, with `log_prob` = log q: w = P_LM exp(-E) / q.
    """
    prefix = prompt_tokens(joint.lm, prompt)  # (1, P)
    rows = [_tokens_of(joint, candidate, number) for number, candidate in enumerate(candidates)]
    if not rows:
        raise LexergyError("the list of candidates is empty; expected at least one continuation to weigh.")
    proposals = _proposal_log_prob(candidates, weigh_by)
    by_energy_alone = weigh_by == "energy" and proposals is None
    energy, log_prob = measure(joint, prefix, rows, needs_log_prob=not by_energy_alone)
    log_weights = -energy if by_energy_alone else log_prob - energy
    if proposals is not None:
        log_weights = log_weights - proposals
    number = uniforms(seed, [stream], 0, 0, 1)  # (1, 1)
    drawn = int(importance.resample(log_weights[None], number))
    ess, pareto_k = float(importance.effective_sample_size(log_weights)), float(importance.pareto_k(log_weights))
    weights = torch.softmax(log_weights, 0).tolist()
    texts = [given.text or _decoded(joint, row) for given, row in zip(candidates, rows, strict=True)]
    ids = [tuple(row.tolist()) for row in rows]
    return Reranked(
        candidates=list(map(Candidate, texts, energy.tolist(), log_prob.tolist(), weights, ids)),
        best=int(log_weights.argmax()),
        drawn=drawn,
        ess=ess,
        pareto_k=pareto_k,
        warnings=(*_unlike_training(joint, prefix, rows), *heavy_tails(pareto_k, ess, len(rows))),
    )


def measure(
    joint: WeighedLM, prefix: Tensor, rows: Sequence[Tensor], needs_log_prob: bool = True
) -> Measured:  # (1, P), n of (C_i,)
    """E and log P_LM of each continuation, each at its own length; NaN where an LM tells none and none is needed."""
    energies, log_probs = [], []
    for start in range(0, len(rows), ROWS_PER_BATCH):
        group = rows[start : start + ROWS_PER_BATCH]
        lengths = torch.tensor([len(row) for row in group])  # (k,)
        padded = torch.nn.utils.rnn.pad_sequence(list(group), batch_first=True)  # (k, C)
        energies.append(joint.score(prefix, padded[None], lengths=lengths[None])[0].double())
        if joint.lm.unscored is not None and not needs_log_prob:
            log_probs.append(torch.full((len(group),), torch.nan, dtype=torch.double))
            continue
        whole = torch.cat((prefix.expand(len(group), -1), padded), 1)  # (k, L)
        by_token = joint.lm.token_log_prob(whole, prefix_length=prefix.shape[1])  # (k, C)
        log_probs.append(by_token.masked_fill(~inside(lengths, padded.shape[1]), 0).sum(1))
    return Measured(torch.cat(energies), torch.cat(log_probs))


def _tokens_of(joint: WeighedLM, candidate: GivenCandidate, number: int) -> Tensor:  # (C,)
    if candidate.tokens is None:
        tokens = joint.lm.encode(candidate.text)
    else:
        tokens = torch.tensor(candidate.tokens, dtype=torch.long)
    if len(tokens) == 0:
        raise LexergyError(f"candidate {number + 1} is empty; expected at least one token; leave it out.")
    return tokens


def _proposal_log_prob(candidates: Sequence[GivenCandidate], weigh_by: WeighedBy) -> Tensor | None:  # (n,)
    given = [candidate.log_prob for candidate in candidates if candidate.log_prob is not None]
    if not given:
        return None
    if len(given) < len(candidates):
        raise LexergyError(
            f"{len(given)} of {len(candidates)} candidates have a `log_prob`; expected all or none, since weights of "
            "both kinds cannot be compared."
        )
    if weigh_by == "joint":
        raise LexergyError(
            "the candidates have a `log_prob` and are to be weighed as a list that nobody drew; expected either; leave "
            "out `log_prob`, or weigh by energy."
        )
    return torch.tensor(given, dtype=torch.double)


def _decoded(joint: WeighedLM, row: Tensor) -> str:  # (C,)
    return "" if joint.lm.tokenizer is None else joint.lm.decode(row)[0]


def _unlike_training(joint: WeighedLM, prefix: Tensor, rows: Sequence[Tensor]) -> list[str]:
    """How candidates were decoded is not known here; their lengths are."""
    if joint.trained_on is None:
        return []
    length = round(sum(len(row) for row in rows) / len(rows))
    return joint.trained_on.differences(prefix.shape[1], length, joint.trained_on.decoding)
