"""What an attack on machine text costs a detector, with intervals over documents."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lexergy.core.detection.classification import (
    HALF_WIDTH,
    NUM_RESAMPLES,
    Metric,
    documents_of_either,
    metric_of,
    recall_at,
    roc_auc,
)
from lexergy.core.estimation.bootstrap import group_counts
from lexergy.core.estimation.findings import Estimate
from lexergy.errors import LexergyError

FALSE_POSITIVES = 0.05


@dataclass(frozen=True)
class UnderAttack:
    """How well attacked machine text is told from people's, and what was lost: unattacked minus attacked."""

    auc: Metric
    recall: Metric  # where at most 5 % of people's texts, which nobody attacked, are accused
    auc_cost: Estimate
    recall_cost: Estimate


def under_attack(
    people: Tensor,  # (P,), energies of people's texts
    machine: Tensor,  # (M,), of machine texts before the attack
    attacked: Tensor,  # (M,), and after it
    people_documents: Sequence[Hashable],  # P
    machine_documents: Sequence[Hashable],  # M
    *,
    seed: int = 0,
    num_resamples: int = NUM_RESAMPLES,
) -> UnderAttack:
    """AUC and recall at 5 % false positives after an attack, and their costs.

    Whole documents are drawn again with replacement, the same before and after: a cost is the bootstrap of a paired
    difference. The threshold of a resample is that of its people's texts.
    """
    if machine.shape != attacked.shape or len(people) != len(people_documents):
        raise LexergyError(
            f"{len(people)} energies of people's texts of {len(people_documents)} documents, {len(machine)} of machine "
            f"texts and {len(attacked)} after the attack; expected one for each text."
        )
    documents = [*people_documents, *machine_documents]
    counts, membership = group_counts(documents, seed, num_resamples)  # (R, G), (N,)
    weights = torch.cat((torch.ones(1, len(documents), dtype=torch.double), counts[:, membership]))  # (1 + R, N)
    is_machine = torch.arange(len(documents)) >= len(people)
    before, after = (_statistics(torch.cat((people, own)), is_machine, weights) for own in (machine, attacked))
    fewest = documents_of_either(membership, is_machine)
    auc, recall = (metric_of(float(own[0]), own[1:], fewest) for own in after)
    return UnderAttack(auc, recall, _cost(before[0] - after[0]), _cost(before[1] - after[1]))


def _cost(differences: Tensor) -> Estimate:  # (1 + R,), the first of all texts
    value, resampled = float(differences[0]), differences[1:]
    half = HALF_WIDTH * float(resampled[~resampled.isnan()].std())
    return Estimate(value, value - half, value + half)


def _statistics(energies: Tensor, is_machine: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """AUC and recall in each row of weights (R, N): (R,) each."""
    ranks = energies.double().unique(return_inverse=True)[1]
    return roc_auc(ranks, is_machine, weights), recall_at(FALSE_POSITIVES, ranks, is_machine, weights)
