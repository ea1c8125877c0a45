"""The objective that a recipe names, over these pairs."""

from lexergy.data.vocabulary import Vocabulary
from lexergy.models.seq2seq import SequencePairs
from lexergy.recipes.search_aware import AnyObjectiveRecipe
from lexergy.training.objectives.search_aware import CrossEntropy, SequenceObjective, Validation


def sequence_objective(
    recipe: AnyObjectiveRecipe, train: SequencePairs, validation: Validation, outputs: Vocabulary, steps: int
) -> SequenceObjective:
    """Schedules reach their ends after `steps`."""
    return CrossEntropy(train, validation, recipe.self_normalisation)
