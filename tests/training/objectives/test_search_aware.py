import pytest
import torch

from lexergy.core.step_decoder import teacher_forced
from lexergy.models.seq2seq import Seq2Seq
from lexergy.recipes.search_aware import SearchRecipe
from lexergy.recipes.training import TrainingRecipe
from lexergy.training.loop import train
from lexergy.training.objectives import search_aware
from lexergy.training.objectives.search_aware import CrossEntropy, Validation, gold_likelihood
from toys.seq2seq import toy_tagged, toy_tagger


def validation(tagger: Seq2Seq, search: SearchRecipe | None = None) -> Validation:
    sentences, labels = toy_tagged(40, seed=9)
    numbers = tagger.pairs(sentences, labels)

    def accuracy(predicted) -> float:
        guessed, gold = (
            [symbol for row in rows for symbol in row if symbol >= 0] for rows in (predicted, numbers.gold.tolist())
        )
        return sum(guess == symbol for guess, symbol in zip(guessed, gold, strict=True)) / len(gold)

    return Validation(numbers, search or SearchRecipe(beam=1), "accuracy", accuracy)


def training_pairs(tagger: Seq2Seq):
    return tagger.pairs(*toy_tagged(60, seed=1))


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(5)


def settings(**changes) -> TrainingRecipe:
    plain = {"learning_rate": 0.02, "max_steps": 40, "batch_size": 16, "evaluate_every": 20, "checkpoint_every": 7}
    return TrainingRecipe.model_validate(plain | changes)


def test_cross_entropy_is_the_mean_negative_log_probability_of_gold():
    tagger = toy_tagger()
    objective = CrossEntropy(training_pairs(tagger), validation(tagger))
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
    pairs, checked = training_pairs(tagger), validation(tagger)
    indices = torch.arange(10)
    plain, _ = CrossEntropy(pairs, checked).loss(tagger.model, indices, generator())
    penalised, _ = CrossEntropy(pairs, checked, self_normalisation=0.5).loss(tagger.model, indices, generator())
    few = pairs.select(indices)
    log_z = tagger.model.decoder(few.sources).teacher_forced(few.gold).logsumexp(-1)
    places = torch.arange(few.gold.shape[1]) < few.lengths[:, None]
    expected = 0.5 * (log_z**2)[places].sum().item() / 10 / float(pairs.lengths.double().mean())
    assert (penalised - plain).item() == pytest.approx(expected, rel=1e-4)


def test_sizes_of_batches_change_no_loss(monkeypatch):
    """With dropout: a sentence's masks are its own."""
    tagger = toy_tagger(dropout=0.3)
    tagger.model.double()
    objective = CrossEntropy(training_pairs(tagger), validation(tagger))
    indices = torch.arange(24)
    together, _ = objective.loss(tagger.model, indices, generator())
    monkeypatch.setattr(search_aware, "ROWS_TOGETHER", 5)
    assert objective.loss(tagger.model, indices, generator())[0].item() == pytest.approx(together.item(), rel=1e-9)
    halves = [objective.loss(tagger.model, part, generator())[0].item() for part in indices.split(12)]
    assert sum(halves) / 2 == pytest.approx(together.item(), rel=1e-9)


def test_validation_tells_the_metric_and_the_normalisers():
    tagger = toy_tagger()
    objective = CrossEntropy(training_pairs(tagger), validation(tagger))
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
    objective = CrossEntropy(training_pairs(tagger), validation(tagger), self_normalisation=0.1)
    result = train(tagger.model, objective, settings(max_steps=120), tmp_path, progress=False)
    assert result.validation["accuracy"] > 0.9  # of words alone it would be 0.86
    assert abs(result.validation["log_z_mean"]) < abs(result.history[0].validation["log_z_mean"])


def test_a_killed_training_ends_with_the_same_weights(tmp_path, monkeypatch):
    def trained(folder, kill: bool):
        tagger = toy_tagger(dropout=0.2)
        objective = CrossEntropy(training_pairs(tagger), validation(tagger))
        if kill:
            monkeypatch.setattr(
                objective, "begin", lambda step: (_ for _ in ()).throw(KeyboardInterrupt) if step == 25 else None
            )
            with pytest.raises(KeyboardInterrupt):
                train(tagger.model, objective, settings(), folder, progress=False)
            return trained(folder, kill=False)
        train(tagger.model, objective, settings(), folder, progress=False)
        return tagger.model.state_dict()

    whole, resumed = trained(tmp_path / "whole", False), trained(tmp_path / "killed", True)
    assert all(torch.equal(weight, resumed[name]) for name, weight in whole.items())
