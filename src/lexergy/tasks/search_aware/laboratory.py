"""Models of search-aware training, made when they are asked for, one stage each.

runs/tagger/
    data/            examples and vocabularies
    cross-entropy/   a model for each objective of the recipe that was asked for
    soft-beam/       ... started from the one that its recipe names
    evaluation/      one stage for each model that was judged
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from lexergy.data.vocabulary import END, SequenceVocabulary, build_sequence_vocabulary
from lexergy.models.seq2seq import Seq2Seq
from lexergy.recipes.search_aware import AnyObjectiveRecipe, SearchAwareRecipe, TaggedRecipe
from lexergy.recipes.sections.training import TrainingRecipe
from lexergy.runs.fingerprint import fingerprint
from lexergy.runs.stages import Facts, Stage
from lexergy.runs.workspace import OpenStage, Seconds, Workspace, open_workspace
from lexergy.tasks.search_aware.examples import (
    LAYOUT_KEYS,
    Example,
    Examples,
    load_examples,
    save_examples,
    stored_examples,
    words_and_outputs,
)
from lexergy.tasks.search_aware.judging import metric_of, score
from lexergy.tasks.search_aware.objectives import sequence_objective
from lexergy.training.objectives.search_aware import SequenceObjective, Validation
from lexergy.training.stage import train_into

EXAMPLES, EVALUATION = "examples.json", "evaluation"
SPARE_SYMBOLS = 10  # that a translation may be longer than any of the training


class SequenceLaboratory:
    """Makes what is asked for, and remembers it; opened by `open_laboratory`."""

    def __init__(self, recipe: SearchAwareRecipe, workspace: Workspace) -> None:
        self.recipe = recipe
        self.workspace = workspace

    @property
    def seconds(self) -> Seconds:
        """What trainings and evaluations took."""
        return self.workspace.seconds(EVALUATION)

    @cached_property
    def data_stage(self) -> Stage:
        recipe = self.recipe.data
        sources = [recipe.source]
        if isinstance(recipe, TaggedRecipe):
            sources += [source for source in (recipe.validation, recipe.test) if source is not None]
        config = recipe.model_dump(mode="json") | {
            "content": [fingerprint(source) for source in sources],
            "features": list(self.recipe.model.features),
            "spelled": self.recipe.model.character_size > 0,
            "minimum": self.recipe.model.minimum,
            "start": self.recipe.start and fingerprint(self.recipe.start),
        }
        return self.workspace.stage("data", config, [], self._build_data)

    @cached_property
    def examples(self) -> Examples:
        return stored_examples(self.data_stage.folder / EXAMPLES)

    def model_stage(self, name: str) -> Stage:
        """The model trained on the recipe's objective of this name, and those that it starts from."""
        objective = self.recipe.objectives[name]
        inputs = [self.data_stage]
        if objective.start is not None:
            inputs.append(self.model_stage(objective.start))
        config = {
            "model": self.recipe.model.model_dump(mode="json"),
            "objective": objective.model_dump(mode="json", exclude={"start"}),
            "validation_sentences": self.recipe.evaluation.validation_sentences,
        }
        folder = inputs[1].folder if objective.start is not None else self.recipe.start

        def build(stage: OpenStage) -> Facts:
            return self._build_model(stage, objective, folder)

        return self.workspace.stage(name, config, inputs, build, together=True)

    def model(self, name: str) -> Seq2Seq:
        return Seq2Seq.from_pretrained(self.model_stage(name).folder)

    def _build_data(self, stage: OpenStage) -> Facts:
        examples = load_examples(self.recipe.data, stage.seed)
        save_examples(examples, stage.folder / EXAMPLES)
        vocabulary = self._vocabulary(examples.train)
        vocabulary.save(stage.folder)
        counts = {name: len(getattr(examples, name)) for name in ("train", "validation", "test")}
        return {"examples": counts, "outputs": len(vocabulary.outputs), "messages": examples.messages}

    def _vocabulary(self, train: list[Example]) -> SequenceVocabulary:
        if self.recipe.start is not None:
            return Seq2Seq.from_pretrained(self.recipe.start).vocabulary
        sizes = self.recipe.model
        return build_sequence_vocabulary(
            *words_and_outputs(train),
            features=list(sizes.features),
            spelled=sizes.character_size > 0,
            ends=self.recipe.data.kind == "translation",
            minimum=sizes.minimum,
        )

    def _build_model(self, stage: OpenStage, recipe: AnyObjectiveRecipe, start: str | Path | None) -> Facts:
        model = self._untrained(stage.seed) if start is None else Seq2Seq.from_pretrained(start)
        model.model.config.normalisation = recipe.normalisation
        objective, learning = self.objective(model, recipe, stage.seed)
        return train_into(stage, model.model, objective, learning, save=model.save_pretrained, label=stage.name)

    def objective(
        self, model: Seq2Seq, recipe: AnyObjectiveRecipe, seed: int
    ) -> tuple[SequenceObjective, TrainingRecipe]:
        """A loss over the training sentences, and how it is learnt."""
        train = model.pairs(*words_and_outputs(self.examples.train))
        learning = recipe.learning.training(len(train), seed)
        validation = self._validation(model, recipe)
        return sequence_objective(recipe, train, validation, model.vocabulary.outputs, learning.max_steps), learning

    def _untrained(self, seed: int) -> Seq2Seq:
        sizes = self.recipe.model.model_dump(exclude={"features", "minimum"})
        vocabulary = SequenceVocabulary.load(self.data_stage.folder)
        if isinstance(self.recipe.data, TaggedRecipe):
            sizes["layout"] = self.recipe.data.model_dump(include=LAYOUT_KEYS)
        else:
            longest = max(len(example.outputs) for example in self.examples.train)
            sizes |= {
                "attention": "additive",
                "end_symbol": vocabulary.outputs.numbers[END],
                "max_symbols": longest + SPARE_SYMBOLS,
            }
        return Seq2Seq.untrained(
            vocabulary, seed=seed, feature_sizes=list(self.recipe.model.features.values()), **sizes
        )

    def _validation(self, model: Seq2Seq, recipe: AnyObjectiveRecipe) -> Validation:
        chosen = self.examples.validation[: self.recipe.evaluation.validation_sentences]
        words, gold = words_and_outputs(chosen)
        metric = metric_of(model)

        def judge(predicted: Sequence[Sequence[int]]) -> float:
            return score(metric, gold, [model.vocabulary.outputs.decode(symbols) for symbols in predicted])[0] / 100

        return Validation(model.pairs(words, gold), recipe.search, metric, judge)


@contextmanager
def open_laboratory(
    recipe: SearchAwareRecipe, folder: str | Path, *, progress: bool = True
) -> Iterator[SequenceLaboratory]:
    """The laboratory in its folder, locked meanwhile."""
    with open_workspace(folder, recipe.seed, progress=progress) as workspace:
        yield SequenceLaboratory(recipe, workspace)
