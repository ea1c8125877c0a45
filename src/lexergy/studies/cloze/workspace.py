"""Where the studies of Electric work: a recipe's cloze models, pretrained in the folder that they share."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lexergy.errors import LexergyError
from lexergy.recipes.cloze import PretrainingRecipe
from lexergy.runs.workspace import Seconds
from lexergy.studies.study import Opener
from lexergy.tasks.cloze.pretraining import NOISE_FOLDER, PretrainResult, pretrain

ELECTRIC, TOWERS, NOISE = "Electric", "two towers", "Electric's noise, two towers"
LABELS = {"electric": ELECTRIC, "two-tower": TOWERS, "electra-tt": "ELECTRA-TT", "masked-lm": "masked LM"}


@dataclass
class PretrainedModels:
    """The models of a recipe; the one called Electric is the first of that kind."""

    recipe: PretrainingRecipe
    result: PretrainResult
    progress: bool
    measuring: float = 0.0  # seconds that scoring took, when it was done

    @property
    def seconds(self) -> Seconds:
        return Seconds(sum(stage.seconds for stage in self.result.models.values()), self.measuring)

    def scorers(self) -> dict[str, str]:
        """The folder of each model that scores texts, the first of each kind; for two towers also Electric's noise."""
        folders: dict[str, str] = {}
        for name, model in self.recipe.models.items():
            if model.kind in LABELS:
                folders.setdefault(LABELS[model.kind], str(self.result.models[name].folder))
        if TOWERS not in folders:
            folders[NOISE] = str(Path(folders[ELECTRIC]) / NOISE_FOLDER)
        return folders


@contextmanager
def open_pretrained(
    recipe: PretrainingRecipe, folder: str | Path, *, progress: bool = True
) -> Iterator[PretrainedModels]:
    """The recipe's models in `folder`; what is not trained yet is trained first."""
    if all(model.kind != "electric" for model in recipe.models.values()):
        raise LexergyError(f"the recipe {recipe.name} has no model of the kind `electric`; expected one.")
    yield PretrainedModels(recipe, pretrain(recipe, folder, progress=progress), progress)


PRETRAINED = Opener(PretrainingRecipe, open_pretrained, "speakers")
