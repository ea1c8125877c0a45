"""The objective that a recipe names, over these pairs."""

import torch
from torch import Tensor

from lexergy.data.vocabulary import Vocabulary
from lexergy.errors import LexergyError
from lexergy.models.seq2seq import SequencePairs
from lexergy.recipes.search_aware import (
    AnnealingRecipe,
    AnyObjectiveRecipe,
    BeamCrfRecipe,
    BeamSearchOptimisationRecipe,
    ScheduledRecipe,
    SoftBeamRecipe,
)
from lexergy.training.objectives.beams import BeamCrf, BeamSearchOptimisation, SoftBeamSearch
from lexergy.training.objectives.scheduled_sampling import ScheduledSampling
from lexergy.training.objectives.search_aware import Annealing, CrossEntropy, SequenceObjective, Validation

MIXING_SHARE = 0.1  # of a training, the schedule's steps where a recipe does not tell them


def sequence_objective(
    recipe: AnyObjectiveRecipe, train: SequencePairs, validation: Validation, outputs: Vocabulary, steps: int
) -> SequenceObjective:
    """The loss of a recipe; alpha reaches its last value after `steps`."""
    if isinstance(recipe, ScheduledRecipe):
        return ScheduledSampling(
            train,
            validation,
            mixing=recipe.mixing,
            mixing_steps=recipe.mixing_steps or max(1.0, MIXING_SHARE * steps),
            alpha=None if recipe.alpha is None else _annealing(recipe.alpha, steps),
            sampled=recipe.sampled,
        )
    if isinstance(recipe, SoftBeamRecipe):
        return SoftBeamSearch(
            train,
            validation,
            loss=recipe.loss,
            beam=recipe.beam,
            alpha=_annealing(recipe.alpha, steps),
            candidates=recipe.candidates,
            weights=symbol_weights(recipe.symbol_costs, outputs),
        )
    if isinstance(recipe, BeamCrfRecipe):
        return BeamCrf(train, validation, recipe.beam)
    if isinstance(recipe, BeamSearchOptimisationRecipe):
        return BeamSearchOptimisation(train, validation, recipe.beam, recipe.margin)
    return CrossEntropy(train, validation, recipe.self_normalisation)


def symbol_weights(costs: dict[str, float], outputs: Vocabulary) -> Tensor | None:  # (V,)
    """What each symbol costs where it is wrong: 1 unless told; None where nothing is."""
    if not costs:
        return None
    unknown = [symbol for symbol in costs if symbol not in outputs.numbers]
    if unknown:
        raise LexergyError(
            f"`symbol_costs` names {', '.join(unknown)}; expected labels of the training data, such as "
            f"{', '.join(outputs.symbols[:5])}."
        )
    weights = torch.ones(len(outputs))
    for symbol, cost in costs.items():
        weights[outputs.numbers[symbol]] = cost
    return weights


def _annealing(recipe: AnnealingRecipe, steps: int) -> Annealing:
    return Annealing(recipe.first, recipe.last, steps)
