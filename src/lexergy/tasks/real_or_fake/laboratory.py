"""A folder of generators, text sets, energies and scores, each made when it is first asked for.

    runs/reproduce/real-or-fake-cpu-seed0/
        tokenizer/                                    one vocabulary for all corpora
        windows/sotu/                                 people's text, split by document
        generators/sotu--transf-big--right-to-left--train/
        texts/sotu--transf-big/train/                 machine-written twins, in shards
        energies/unit--on--sotu--transf-big/
        measurements/scores/unit--on--sotu--transf-big--of--bible--transf-big/

Studies ask for cells of tables; what two of them ask for is made once.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import torch

from lexergy.files import atomic_path, reading
from lexergy.models.causal.lm import CausalLM
from lexergy.models.energies import EnergyModel
from lexergy.recipes.real_or_fake import LaboratoryRecipe
from lexergy.runs.columns import from_column, to_column
from lexergy.runs.stages import Facts, Stage
from lexergy.runs.workspace import OpenStage, Seconds, Workspace, open_workspace
from lexergy.tasks.real_or_fake.corpora import Corpora
from lexergy.tasks.real_or_fake.energies import Energies
from lexergy.tasks.real_or_fake.generators import Generators
from lexergy.tasks.real_or_fake.scores import Scores, best_stump
from lexergy.tasks.real_or_fake.text_sets import Split, TextSet
from lexergy.tasks.real_or_fake.texts import TextSets
from lexergy.training.objectives.contrastive import pair_energies

MEASUREMENTS = "measurements"
TABLE_FILE = "table.parquet"


class Laboratory:
    """What studies measure and with what; opened by `open_laboratory`, which holds the folder's lock."""

    def __init__(self, recipe: LaboratoryRecipe, workspace: Workspace) -> None:
        self.recipe = recipe
        self.workspace = workspace
        self.corpora = Corpora(recipe, workspace)
        self.generators = Generators(self.corpora)
        self.texts = TextSets(self.generators)
        self.energies = Energies(self.texts)

    @property
    def seconds(self) -> Seconds:
        """What the models and texts that were asked for took, and what was measured with them."""
        return self.workspace.seconds(MEASUREMENTS)

    def scores(self, name: str, train_sets: Sequence[TextSet], wanted: TextSet, split: Split = "test") -> Scores:
        """The energies that such an energy gives to the texts of a set."""
        energy, texts = self.energies.stage(name, train_sets), self.texts.stage(wanted, split)

        def score(seed: int) -> pa.Table:
            model = EnergyModel.from_pretrained(energy.folder)
            return pa.table(
                {"energy": to_column(pair_energies(model, self.texts.read(wanted, split).contrast).numpy())}
            )

        table = self.measured("scores", f"{_folder(energy)}--of--{wanted.name}--{split}", {}, [energy, texts], score)
        return Scores(from_column(table.column("energy")), tuple(self.texts.read(wanted, split).documents))

    def likelihood_scores(self, wanted: TextSet) -> Scores:
        """The training generator's log-probability per token of whole test windows, as an energy.

        Its sign and its point of indifference are those that are best on the validation texts.
        """
        generator = self.generators.stage(wanted.generator, wanted.trained_on or wanted.corpus, "prefix", "train")
        scores = {split: self._log_probs(generator, wanted, split) for split in ("validation", "test")}
        return scores["test"].shifted(*best_stump(scores["validation"]))

    def _log_probs(self, generator: Stage, wanted: TextSet, split: Split) -> Scores:
        texts = self.texts.read(wanted, split)

        def measure(seed: int) -> pa.Table:
            windows = torch.cat([texts.people[:, None], texts.machine], dim=1)  # (N, 1 + K, L)
            lm = CausalLM.from_pretrained(generator.folder)
            log_probs = lm.token_log_prob(windows.flatten(0, 1), prefix_length=1).mean(1)
            return pa.table({"log_prob": to_column(log_probs.view(windows.shape[:2]).numpy())})

        name = f"{_folder(generator)}--of--{wanted.name}--{split}"
        table = self.measured("log_probs", name, {}, [generator, self.texts.stage(wanted, split)], measure)
        return Scores(from_column(table.column("log_prob")), tuple(texts.documents))

    def measured(
        self, kind: str, name: str, config: dict[str, Any], inputs: list[Stage], make: Callable[[int], pa.Table]
    ) -> pa.Table:
        """The rows of a measurement; `make(seed)` is called only where they are not there yet."""
        return read_measurement(self.measurement_stage(kind, name, config, inputs, make))

    def measurement_stage(
        self, kind: str, name: str, config: dict[str, Any], inputs: list[Stage], make: Callable[[int], pa.Table]
    ) -> Stage:

        def build(stage: OpenStage) -> Facts:
            with atomic_path(stage.folder / TABLE_FILE) as partial:
                parquet.write_table(make(stage.seed), partial)
            return {}

        return self.workspace.stage(f"{MEASUREMENTS}/{kind}/{name}", config, inputs, build)


@contextmanager
def open_laboratory(recipe: LaboratoryRecipe, folder: str | Path, *, progress: bool = True) -> Iterator[Laboratory]:
    """The laboratory of a recipe in a folder of its own, which no other process writes meanwhile."""
    with open_workspace(folder, recipe.seed, progress=progress, engine=recipe.engine) as workspace:
        yield Laboratory(recipe, workspace)


def read_measurement(stage: Stage) -> pa.Table:
    """The rows that a finished measurement made."""
    with reading(stage.folder / TABLE_FILE):
        return parquet.read_table(stage.folder / TABLE_FILE)


def _folder(stage: Stage) -> str:
    return stage.name.split("/", 1)[1]
