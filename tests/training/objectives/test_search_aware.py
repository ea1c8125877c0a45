import pytest
import torch

from lexergy.core.search_aware.step_decoder import teacher_forced
from lexergy.recipes.search_aware import SearchRecipe
from lexergy.training.objectives.search_aware import CrossEntropy, gold_likelihood
from toys.search_aware import toy_training, toy_validation, trained_toy
from toys.seq2seq import toy_tagger


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(5)


def cross_entropy(tagger, weight: float = 0.0) -> CrossEntropy:
    return CrossEntropy(toy_training(tagger), toy_validation(tagger, SearchRecipe()), weight)


def test_cross_entropy_is_the_mean_negative_log_probability_of_gold():
    tagger = toy_tagger()
    objective = cross_entropy(tagger)
    indices = torch.tensor([5, 3, 8, 41])
    loss, _ = objective.loss(tagger.model, indices, generator())
    total = 0.0
    for index in indices.tolist():
        pair = objective.train.select(torch.tensor([index]))
        scores = teacher_forced(tagger.model.decoder(pair.sources), pair.gold)[0]
        total -= sum(scores[place, symbol].item() for place, symbol in enumerate(pair.gold[0].tolist()))
    assert loss.item() == pytest.approx(total / 4 / objective.symbols_per_sentence, rel=1e-5)


def test_the_penalty_is_the_squared_log_normaliser():
    tagger = toy_tagger(normalisation="global")
    pairs, indices = toy_training(tagger), torch.arange(10)
    plain, _ = cross_entropy(tagger).loss(tagger.model, indices, generator())
    penalised, _ = cross_entropy(tagger, 0.5).loss(tagger.model, indices, generator())
    few = pairs.select(indices)
    log_z = tagger.model.decoder(few.sources).teacher_forced(few.gold).logsumexp(-1)
    places = torch.arange(few.gold.shape[1]) < few.lengths[:, None]
    expected = 0.5 * (log_z**2)[places].sum().item() / 10 / float(pairs.lengths.double().mean())
    assert (penalised - plain).item() == pytest.approx(expected, rel=1e-4)


def test_sizes_of_batches_change_no_loss(monkeypatch):
    """With dropout: a sentence's masks are its own."""
    tagger = toy_tagger(dropout=0.3)
    tagger.model.double()
    objective = cross_entropy(tagger)
    indices = torch.arange(24)
    together, _ = objective.loss(tagger.model, indices, generator())
    monkeypatch.setattr(objective, "rows_together", 5)
    assert objective.loss(tagger.model, indices, generator())[0].item() == pytest.approx(together.item(), rel=1e-9)
    halves = [objective.loss(tagger.model, part, generator())[0].item() for part in indices.split(12)]
    assert sum(halves) / 2 == pytest.approx(together.item(), rel=1e-9)


def test_validation_tells_the_metric_and_the_normalisers():
    tagger = toy_tagger()
    objective = cross_entropy(tagger)
    facts = objective.evaluate(tagger.model)
    assert facts["loss"] == pytest.approx(1 - facts["accuracy"])
    pairs = objective.validation.pairs
    scores = tagger.model.decoder(pairs.sources, normalised=False).teacher_forced(pairs.gold)
    inside = torch.arange(pairs.gold.shape[1]) < pairs.lengths[:, None]
    log_z = scores.logsumexp(-1)[inside]
    assert facts["log_z_mean"] == pytest.approx(log_z.mean().item(), abs=1e-5)
    assert facts["log_z_variance"] == pytest.approx(log_z.var(correction=0).item(), abs=1e-5)
    assert facts["cross_entropy"] == pytest.approx(gold_likelihood(tagger.model, pairs)["cross_entropy"])


def test_a_tagger_learns_what_its_labels_depend_on(tmp_path):
    tagger = toy_tagger(dropout=0.1)
    objective = cross_entropy(tagger, 0.1)
    result = trained_toy(tagger, objective, tmp_path, max_steps=120)
    assert result.validation["accuracy"] > 0.9  # of words alone it would be 0.86
    assert abs(result.validation["log_z_mean"]) < abs(result.history[0].validation["log_z_mean"])


def test_a_killed_training_ends_with_the_same_weights(tmp_path):
    def trained(folder, kill_at=None):
        tagger = toy_tagger(dropout=0.2)
        trained_toy(tagger, cross_entropy(tagger), folder, kill_at=kill_at)
        return tagger.model.state_dict()

    whole = trained(tmp_path / "whole")
    trained(tmp_path / "killed", kill_at=25)
    resumed = trained(tmp_path / "killed")
    assert all(torch.equal(weight, resumed[name]) for name, weight in whole.items())
