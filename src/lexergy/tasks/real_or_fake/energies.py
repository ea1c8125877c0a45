"""The energies of a laboratory, each trained on pairs of whole windows."""

from collections.abc import Callable, Sequence

from lexergy.errors import LexergyError
from lexergy.models.energies import EnergyModel, as_energy
from lexergy.runs.stages import Facts, Stage
from lexergy.runs.workspace import OpenStage
from lexergy.tasks.real_or_fake.text_sets import Split, TextSet, joined
from lexergy.tasks.real_or_fake.texts import TextSets
from lexergy.tasks.residual.energies import RunOrigins, make_energy, make_objective
from lexergy.training.objectives.contrastive import ContrastiveData
from lexergy.training.stage import seeded, train_into

LEARNING_SPLITS: tuple[Split, ...] = ("train", "validation")


class Energies:
    """Energies by their name and by what they learnt from."""

    def __init__(self, texts: TextSets) -> None:
        self.recipe = texts.recipe
        self.corpora = texts.corpora
        self.generators = texts.generators
        self.texts = texts

    def load(self, name: str, train_sets: Sequence[TextSet]) -> EnergyModel:
        """An energy trained on the union of text sets."""
        return EnergyModel.from_pretrained(self.stage(name, train_sets).folder)

    def stage(self, name: str, train_sets: Sequence[TextSet]) -> Stage:
        """Trained on the training texts of the sets; the weights kept are the best on their validation texts."""
        return self.trained_stage(
            name,
            "+".join(wanted.name for wanted in train_sets),
            train_sets[0].corpus,
            [self.texts.stage(wanted, split) for split in LEARNING_SPLITS for wanted in train_sets],
            lambda split: joined([self.texts.read(wanted, split).contrast for wanted in train_sets]),
        )

    def trained_stage(
        self, name: str, on: str, corpus: str, inputs: list[Stage], data: Callable[[Split], ContrastiveData]
    ) -> Stage:
        """An energy trained on pairs of windows, from the LM of a corpus where it starts from one."""
        if name not in self.recipe.energies:
            raise LexergyError(f"no energy `{name}`; expected one of {', '.join(self.recipe.energies)}.")
        recipe = self.recipe.energies[name]
        origin = self.generators.stage(self.recipe.start_from, corpus, "prefix", "train")

        def build(stage: OpenStage) -> Facts:
            context = self.corpora.context(corpus, lm_folder=origin.folder)
            energy = make_energy(recipe, RunOrigins(context), stage.seed)
            as_energy(energy, context.lm)
            objective = make_objective(recipe.objective, *(data(split) for split in LEARNING_SPLITS))
            training = seeded(recipe.training, stage)
            return train_into(stage, energy, objective, training, save=energy.save_pretrained, label=name)

        config = self.recipe.plain()["energies"][name]
        workspace = self.corpora.workspace
        return workspace.stage(f"energies/{name}--on--{on}", config, [origin, *inputs], build, together=True)
