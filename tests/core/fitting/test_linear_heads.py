"""Linear heads by penalised NCE, and what they are worth on documents that they were not fitted to."""

import pytest
import torch
from torch import Tensor

from lexergy.core.fitting.linear_heads import fit_linear_head, folds_of, held_out_energies, learning_curve
from lexergy.core.losses import nce_loss, ranking_nce_loss
from lexergy.errors import LexergyError

DOCUMENTS = [document for document in range(60) for _ in range(4)]


def pairs(num_pairs: int = 240, num_features: int = 6, num_negatives: int = 2, seed: int = 0) -> Tensor:
    """People's features are 1 above the LM's in the first place, and like them in the others."""
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(num_pairs, 1 + num_negatives, num_features, generator=generator, dtype=torch.double)
    features[:, 0, 0] += 1
    return features


@pytest.mark.parametrize("loss", [nce_loss, ranking_nce_loss])
def test_the_gradient_vanishes_at_the_head_and_counts_the_penalty(loss):
    features, penalty = pairs(), torch.tensor([0.1, 0.1, 0.1, 0.1, 0.1, 10.0], dtype=torch.double)
    head = fit_linear_head(features, penalty, loss)
    weight = head.weight.clone().requires_grad_()
    energies = features @ weight + head.bias
    (gradient,) = torch.autograd.grad(loss(energies[:, 0], energies[:, 1:]), weight)
    torch.testing.assert_close(gradient, -penalty * head.weight, atol=1e-6, rtol=0)
    assert head.weight[0] < -0.3  # people's text has low energy
    assert head.weight[5].abs() < 0.02


def test_without_a_penalty_the_head_is_the_log_ratio_of_two_normals():
    """N(1, 1) against N(0, 1): E = log p_LM - log p_data = 1/2 - x, its bias the one that makes Z one."""
    head = fit_linear_head(pairs(40_000, 1, 1), torch.zeros(1, dtype=torch.double))
    assert head.weight.item() == pytest.approx(-1, abs=0.04)
    assert head.bias.item() == pytest.approx(0.5, abs=0.04)


def test_folds_are_of_whole_documents_and_of_one_size():
    folds = folds_of(DOCUMENTS, 6, seed=1)
    assert {len(set(folds[place : place + 4].tolist())) for place in range(0, 240, 4)} == {1}
    assert torch.bincount(folds).tolist() == [40] * 6
    assert not torch.equal(folds, folds_of(DOCUMENTS, 6, seed=2))
    with pytest.raises(LexergyError, match="3 folds of 2 documents"):
        folds_of(["a", "b", "a"], 3, seed=0)


def test_no_pair_is_weighed_by_a_head_that_has_seen_its_document():
    """Features that only name the document: learnt by heart they would separate the pairs, held out they cannot."""
    generator = torch.Generator().manual_seed(0)
    features = torch.zeros(60, 4, 2, 60, dtype=torch.double)
    sides = torch.randint(2, (60,), generator=generator)
    features[torch.arange(60), :, sides, torch.arange(60)] = 5.0
    features, penalty = features.flatten(0, 1), torch.full((60,), 1e-4, dtype=torch.double)

    def loss(energies: Tensor) -> float:
        return float(nce_loss(energies[:, 0], energies[:, 1:]))

    assert loss(fit_linear_head(features, penalty).energy(features)) < 0.9
    assert loss(held_out_energies(features, penalty, folds_of(DOCUMENTS, 6, seed=0))) > 1.3


def test_more_pairs_are_better():
    features = pairs(num_features=40)
    penalty = torch.full((40,), 0.02, dtype=torch.double)
    losses = learning_curve(features, penalty, folds_of(DOCUMENTS, 6, seed=0), (0.1, 0.3, 1.0), seed=0)
    assert losses[0] > losses[1] > losses[2]
    held_out = held_out_energies(features, penalty, folds_of(DOCUMENTS, 6, seed=0))
    assert losses[2] == pytest.approx(float(nce_loss(held_out[:, 0], held_out[:, 1:])))
