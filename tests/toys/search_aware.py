"""Trainings of the toy tagger."""

from pathlib import Path
from typing import Any

import pytest

from lexergy.models.seq2seq import Seq2Seq, SequencePairs
from lexergy.recipes.search_aware import SearchRecipe
from lexergy.recipes.sections.training import TrainingRecipe
from lexergy.training.loop import TrainingResult, train
from lexergy.training.objectives.search_aware import SequenceObjective, Validation
from toys.seq2seq import toy_tagged


def toy_training(tagger: Seq2Seq) -> SequencePairs:
    return tagger.pairs(*toy_tagged(60, seed=1))


def toy_validation(tagger: Seq2Seq, search: SearchRecipe) -> Validation:
    pairs = tagger.pairs(*toy_tagged(40, seed=9))

    def accuracy(predicted: Any) -> float:
        guessed, gold = (
            [symbol for row in rows for symbol in row if symbol >= 0] for rows in (predicted, pairs.gold.tolist())
        )
        return sum(guess == symbol for guess, symbol in zip(guessed, gold, strict=True)) / len(gold)

    return Validation(pairs, search, "accuracy", accuracy)


def toy_settings(**changes: Any) -> TrainingRecipe:
    plain = {"learning_rate": 0.02, "max_steps": 40, "batch_size": 16, "evaluate_every": 20, "checkpoint_every": 7}
    return TrainingRecipe.model_validate(plain | changes)


def trained_toy(
    tagger: Seq2Seq, objective: SequenceObjective, folder: Path, *, kill_at: int | None = None, **changes: Any
) -> TrainingResult | None:
    """A training; or one that is interrupted before a step."""
    if kill_at is None:
        return train(tagger.model, objective, toy_settings(**changes), folder, progress=False)
    begin = objective.begin

    def interrupted(step: int) -> None:
        if step == kill_at:
            raise KeyboardInterrupt
        begin(step)

    objective.begin = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        train(tagger.model, objective, toy_settings(**changes), folder, progress=False)
    return None
