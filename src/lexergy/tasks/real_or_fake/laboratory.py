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
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as parquet
import torch

from lexergy.data.windows import Windows
from lexergy.errors import LexergyError
from lexergy.files import atomic_path
from lexergy.models.causal.lm import CausalLM
from lexergy.models.energies import EnergyModel, as_energy
from lexergy.models.loading.tokenizer import load_tokenizer, train_tokenizer
from lexergy.recipes.real_or_fake import GeneratorRecipe, LaboratoryRecipe
from lexergy.recipes.shapes import Direction
from lexergy.runs.columns import from_column, to_column
from lexergy.runs.fingerprint import fingerprint
from lexergy.runs.shards import num_shards, shard_rows
from lexergy.runs.stages import Facts, Stage
from lexergy.runs.workspace import OpenStage, Seconds, Workspace, open_workspace, stage_store
from lexergy.tasks.real_or_fake.context import CorpusContext, CorpusTexts
from lexergy.tasks.real_or_fake.foreign_texts import write_foreign_twins
from lexergy.tasks.real_or_fake.scores import Scores, best_stump
from lexergy.tasks.real_or_fake.text_sets import (
    Side,
    Texts,
    TextSet,
    Writer,
    choose,
    joined,
    load_writer,
    read_texts,
    write_twins,
)
from lexergy.tasks.residual.base_models import build_windows, train_lm, without_special_tokens
from lexergy.tasks.residual.context import TOKENIZER_FOLDER, RunContext
from lexergy.tasks.residual.energies import RunOrigins, make_energy, make_objective
from lexergy.training.objectives.contrastive import ContrastiveData, pair_energies
from lexergy.training.stage import seeded, train_into

TWINS_PER_SHARD = 768  # of four kinds, a side and a context each: enough for batches at nearly full speed
MEASUREMENTS = "measurements"
ROWS = "rows"
TABLE_FILE = "table.parquet"
Split = Literal["train", "validation", "test"]
LEARNING_SPLITS: tuple[Split, ...] = ("train", "validation")
DIRECTIONS: dict[Side, Direction] = {"prefix": "left_to_right", "suffix": "right_to_left"}


class Laboratory:
    """Makes and remembers what studies ask for; opened by `open_laboratory`, which holds the folder's lock."""

    def __init__(self, recipe: LaboratoryRecipe, workspace: Workspace) -> None:
        self.recipe = recipe
        self.workspace = workspace
        self.folder = workspace.folder
        self._plain = recipe.plain()
        self._texts: dict[tuple[str, str], Texts] = {}
        self._corpus_texts: dict[str, CorpusTexts] = {}

    @property
    def seconds(self) -> Seconds:
        """What the models and texts that were asked for took, and what was measured with them."""
        return self.workspace.seconds(MEASUREMENTS)

    @cached_property
    def tokenizer(self) -> Any:
        self.tokenizer_stage()
        return load_tokenizer(self.folder / "tokenizer" / TOKENIZER_FOLDER)

    def generator(self, name: str, corpus: str, side: Side, split: Split) -> Writer:
        """The LM that writes after a prefix or before a suffix.

        That of test texts differs from that of training and validation texts by its seed (Sec. 4.4).
        """
        return load_writer(self.generator_stage(name, corpus, side, split).folder, side)

    def texts(self, wanted: TextSet, split: Split) -> Texts:
        """People's windows and their machine-written twins."""
        stage = self.texts_stage(wanted, split)
        key = (stage.name, stage.key)
        if key not in self._texts:
            self._texts[key] = read_texts(stage_store(stage, ROWS).table(stage.facts["shards"]))
        return self._texts[key]

    def energy(self, name: str, train_sets: Sequence[TextSet]) -> EnergyModel:
        """An energy trained on the union of text sets."""
        return EnergyModel.from_pretrained(self.energy_stage(name, train_sets).folder)

    def scores(self, name: str, train_sets: Sequence[TextSet], wanted: TextSet, split: Split = "test") -> Scores:
        """The energies that such an energy gives to the texts of a set."""
        energy, texts = self.energy_stage(name, train_sets), self.texts_stage(wanted, split)

        def score(seed: int) -> pa.Table:
            model = EnergyModel.from_pretrained(energy.folder)
            return pa.table({"energy": to_column(pair_energies(model, self.texts(wanted, split).contrast).numpy())})

        table = self.measured("scores", f"{_folder(energy)}--of--{wanted.name}--{split}", {}, [energy, texts], score)
        return Scores(from_column(table.column("energy")), tuple(self.texts(wanted, split).documents))

    def likelihood_scores(self, wanted: TextSet) -> Scores:
        """The training generator's log-probability per token of whole test windows, as an energy.

        Its sign and its point of indifference are those that are best on the validation texts.
        """
        generator = self.generator_stage(wanted.generator, wanted.trained_on or wanted.corpus, "prefix", "train")
        found = {split: self._log_probs(generator, wanted, split) for split in ("validation", "test")}
        return found["test"].shifted(*best_stump(found["validation"]))

    def _log_probs(self, generator: Stage, wanted: TextSet, split: Split) -> Scores:
        texts = self.texts(wanted, split)

        def measure(seed: int) -> pa.Table:
            windows = torch.cat([texts.people[:, None], texts.machine], dim=1)  # (N, 1 + K, L)
            lm = CausalLM.from_pretrained(generator.folder)
            log_probs = lm.token_log_prob(windows.flatten(0, 1), prefix_length=1).mean(1)
            return pa.table({"log_prob": to_column(log_probs.view(windows.shape[:2]).numpy())})

        name = f"{_folder(generator)}--of--{wanted.name}--{split}"
        table = self.measured("log_probs", name, {}, [generator, self.texts_stage(wanted, split)], measure)
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

    def tokenizer_stage(self) -> Stage:
        wanted = self.recipe.tokenizer
        config = {"tokenizer": self._plain["tokenizer"], "corpora": [self._corpus(name) for name in wanted.corpora]}

        def build(stage: OpenStage) -> Facts:
            contexts = [self.corpus_context(name) for name in wanted.corpora]
            texts = [document.text for context in contexts for document in context.splits.train]
            return {"vocab_size": len(train_tokenizer(texts, wanted.vocab_size, stage.folder / TOKENIZER_FOLDER))}

        return self.workspace.stage("tokenizer", config, [], build)

    def windows_stage(self, corpus: str) -> Stage:
        config = {"corpus": self._corpus(corpus), "windows": self._plain["windows"]}
        return self.workspace.stage(
            f"windows/{corpus}",
            config,
            [self.tokenizer_stage()],
            lambda stage: build_windows(self.corpus_context(corpus), stage),
        )

    def generator_stage(self, name: str, corpus: str, side: Side, split: Split) -> Stage:
        if name in self.recipe.found_generators:
            return self._found_stage(name, side)
        if name not in self.recipe.generators:
            known = [*self.recipe.generators, *self.recipe.found_generators]
            raise LexergyError(f"no generator `{name}`; expected one of {', '.join(known)}.")
        recipe = self.recipe.generators[name]
        use = "test" if split == "test" else "train"
        context = self.corpus_context(corpus, recipe, DIRECTIONS[side])
        return self.workspace.stage(
            f"generators/{corpus}--{name}--{DIRECTIONS[side].replace('_', '-')}--{use}",
            {"corpus": self._corpus(corpus), "model": self._plain["generators"][name], "direction": DIRECTIONS[side]},
            [self.tokenizer_stage()],
            partial(train_lm, context),
            together=True,
        )

    def _found_stage(self, name: str, side: Side) -> Stage:
        source = self.recipe.found_generators[name].source
        if side == "suffix":
            raise LexergyError(
                f"the generator `{name}` is {source}, which writes left to right; expected texts that follow a prefix."
            )

        def build(stage: OpenStage) -> Facts:
            lm = without_special_tokens(CausalLM.from_pretrained(source))
            lm.save_pretrained(stage.folder)
            return {"parameters": lm.model.num_parameters()}

        config = {"source": source, "content": fingerprint(source)}
        return self.workspace.stage(f"generators/{name}", config, [], build)

    def texts_stage(self, wanted: TextSet, split: Split) -> Stage:
        windows = self.windows_stage(wanted.corpus)
        generators = {
            side: self.generator_stage(wanted.generator, wanted.trained_on or wanted.corpus, side, split)
            for side in wanted.sides
        }
        contexts = wanted.contexts or self.recipe.windows.contexts
        return self.workspace.stage(
            f"texts/{wanted.name}/{split}",
            {
                "windows": windows.facts["digests"][split],
                "contexts": contexts,
                "sides": wanted.sides,
                "decoding": self._plain["negatives"],
                "found": self._plain["found_generators"].get(wanted.generator),
            },
            list(generators.values()),
            lambda stage: self._write_texts(wanted, contexts, split, windows, generators, stage),
        )

    def energy_stage(self, name: str, train_sets: Sequence[TextSet]) -> Stage:
        """Trained on the training texts of the sets; the weights kept are the best on their validation texts."""
        return self.trained_stage(
            name,
            "+".join(one.name for one in train_sets),
            train_sets[0].corpus,
            [self.texts_stage(one, split) for split in LEARNING_SPLITS for one in train_sets],
            lambda split: joined([self.texts(one, split).contrast for one in train_sets]),
        )

    def trained_stage(
        self, name: str, on: str, corpus: str, inputs: list[Stage], data: Callable[[Split], ContrastiveData]
    ) -> Stage:
        """An energy trained on pairs of whole windows, from the LM of a corpus where it starts from one."""
        if name not in self.recipe.energies:
            raise LexergyError(f"no energy `{name}`; expected one of {', '.join(self.recipe.energies)}.")
        recipe = self.recipe.energies[name]
        origin = self.generator_stage(self.recipe.start_from, corpus, "prefix", "train")

        def build(stage: OpenStage) -> Facts:
            context = self.corpus_context(corpus, lm_folder=origin.folder)
            energy = make_energy(recipe, RunOrigins(context), stage.seed)
            as_energy(energy, context.lm)
            objective = make_objective(recipe.objective, *(data(split) for split in LEARNING_SPLITS))
            training = seeded(recipe.training, stage)
            return train_into(stage, energy, objective, training, save=energy.save_pretrained, label=name)

        config = self._plain["energies"][name]
        return self.workspace.stage(f"energies/{name}--on--{on}", config, [origin, *inputs], build, together=True)

    def _write_texts(
        self,
        wanted: TextSet,
        contexts: Sequence[int],
        split: Split,
        windows: Stage,
        generators: dict[Side, Stage],
        stage: OpenStage,
    ) -> Facts:
        """Write every shard that is not there yet; a window's twins depend on its number alone."""
        write: Callable[..., pa.Table]
        people, decoding = Windows.load(windows.folder / f"{split}.parquet"), self.recipe.negatives
        found = self.recipe.found_generators.get(wanted.generator)
        if found is None:
            write = partial(write_twins, {side: load_writer(lm.folder, side) for side, lm in generators.items()})
        else:
            writer = CausalLM.from_pretrained(generators["prefix"].folder)
            write = partial(write_foreign_twins, writer, self.tokenizer)
            decoding = decoding.model_copy(update={"per_prefix": 1})
            if found.windows is not None and found.windows < len(people):
                people = people.sample(found.windows, stage.seed)
        per_shard = max(1, TWINS_PER_SHARD // decoding.per_prefix)

        def write_shard(shard: int) -> pa.Table:
            ids = shard_rows(shard, len(people), per_shard)
            choice = choose(ids, contexts, wanted.sides, stage.seed)
            return write(people, ids, choice, decoding, stage.seed)

        shards = num_shards(len(people), per_shard)
        stage.store(ROWS).fill(shards, write_shard, "texts", progress=stage.progress)
        return {"shards": shards, "windows": len(people)}

    def corpus_context(
        self,
        corpus: str,
        generator: GeneratorRecipe | None = None,
        direction: Direction = DIRECTIONS["prefix"],
        lm_folder: Path | None = None,
    ) -> CorpusContext:
        """What the stages of an ordinary run read, for this corpus."""
        generator = generator or self.recipe.generators[self.recipe.start_from]
        recipe = self.recipe.run_recipe(corpus, generator, direction)

        def load() -> CorpusTexts:
            if corpus not in self._corpus_texts:
                self._corpus_texts[corpus] = CorpusTexts(RunContext(recipe, self.folder).splits)
            return self._corpus_texts[corpus]

        return CorpusContext(recipe, self.folder, load, lm_folder)

    def _corpus(self, name: str) -> dict[str, Any]:
        if name not in self.recipe.corpora:
            raise LexergyError(f"no corpus `{name}`; expected one of {', '.join(self.recipe.corpora)}.")
        return {**self._plain["corpora"][name], "content": fingerprint(self.recipe.corpora[name].source)}


@contextmanager
def open_laboratory(recipe: LaboratoryRecipe, folder: str | Path, *, progress: bool = True) -> Iterator[Laboratory]:
    """The laboratory of a recipe in a folder of its own, which no other process writes meanwhile."""
    with open_workspace(folder, recipe.seed, progress=progress) as workspace:
        yield Laboratory(recipe, workspace)


def read_measurement(stage: Stage) -> pa.Table:
    """The rows that a finished measurement made."""
    return parquet.read_table(stage.folder / TABLE_FILE)


def _folder(stage: Stage) -> str:
    return stage.name.split("/", 1)[1]
