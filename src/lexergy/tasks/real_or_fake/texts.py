"""The text sets of a laboratory: people's windows and their machine-written twins, in shards that survive a kill."""

from collections.abc import Callable
from functools import partial

import pyarrow as pa

from lexergy.data.windows import Windows
from lexergy.models.causal.lm import CausalLM
from lexergy.recipes.residual import NegativesRecipe
from lexergy.runs.shards import num_shards, shard_rows
from lexergy.runs.stages import Facts, Stage
from lexergy.runs.workspace import OpenStage, stage_store
from lexergy.tasks.real_or_fake.foreign_texts import write_foreign_twins
from lexergy.tasks.real_or_fake.generators import Generators
from lexergy.tasks.real_or_fake.text_sets import (
    Side,
    Split,
    Texts,
    TextSet,
    choose,
    in_turn,
    load_writer,
    read_texts,
    write_twins,
)

TWINS_PER_SHARD = 768  # of four kinds, a side and a context each: enough for batches at nearly full speed
ROWS = "rows"


class TextSets:
    """Texts by which set they are and for what: training, validation or test."""

    def __init__(self, generators: Generators) -> None:
        self.recipe = generators.recipe
        self.corpora = generators.corpora
        self.generators = generators
        self._read: dict[tuple[str, str], Texts] = {}

    def read(self, wanted: TextSet, split: Split) -> Texts:
        """People's windows and their machine-written twins."""
        stage = self.stage(wanted, split)
        key = (stage.name, stage.key)
        if key not in self._read:
            self._read[key] = read_texts(stage_store(stage, ROWS).table(stage.facts["shards"]))
        return self._read[key]

    def stage(self, wanted: TextSet, split: Split) -> Stage:
        generators = {
            side: self.generators.stage(wanted.generator, wanted.trained_on or wanted.corpus, side, split)
            for side in wanted.sides
        }
        plain, contexts = self.recipe.plain(), wanted.contexts or self.recipe.windows.contexts

        def build(stage: OpenStage) -> Facts:
            """A window's twins depend on its number alone."""
            people = self._people(wanted, split)
            foreign = self.recipe.found_generators.get(wanted.generator)
            if foreign is not None and foreign.windows is not None and foreign.windows < len(people):
                people = people.sample(foreign.windows, stage.seed)
            if wanted.beginnings:
                people = people.select([row for row in range(len(people)) for _ in contexts])
            write, decoding = self._writing(wanted, generators)
            per_shard = max(1, TWINS_PER_SHARD // decoding.per_prefix)

            def write_shard(shard: int) -> pa.Table:
                ids = shard_rows(shard, len(people), per_shard)
                choice = (
                    in_turn(ids, contexts) if wanted.beginnings else choose(ids, contexts, wanted.sides, stage.seed)
                )
                return write(people, ids, choice, decoding, stage.seed)

            shards = num_shards(len(people), per_shard)
            stage.store(ROWS).fill(shards, write_shard, "texts", progress=stage.progress)
            return {"shards": shards, "windows": len(people)}

        config = {
            "windows": self._source(wanted, split),
            "contexts": contexts,
            "sides": wanted.sides,
            "decoding": plain["negatives"],
            "found": plain["found_generators"].get(wanted.generator),
        }
        workspace = self.corpora.workspace
        return workspace.stage(f"texts/{wanted.name}/{split}", config, list(generators.values()), build)

    def _people(self, wanted: TextSet, split: Split) -> Windows:
        if wanted.beginnings:
            return self.corpora.beginnings(wanted.corpus, split, self.recipe.windows.length)
        return Windows.load(self.corpora.windows_stage(wanted.corpus).folder / f"{split}.parquet")

    def _source(self, wanted: TextSet, split: Split) -> object:
        """What people's windows depend on."""
        if wanted.beginnings:
            return {"beginnings": self.recipe.windows.length, "corpus": self.corpora.source(wanted.corpus)}
        return self.corpora.windows_stage(wanted.corpus).facts["digests"][split]

    def _writing(
        self, wanted: TextSet, generators: dict[Side, Stage]
    ) -> tuple[Callable[..., pa.Table], NegativesRecipe]:
        """What writes twins, and how; a found generator has a tokenizer of its own and writes one of each window."""
        if wanted.generator in self.recipe.found_generators:
            writer = CausalLM.from_pretrained(generators["prefix"].folder)
            decoding = self.recipe.negatives.model_copy(update={"per_prefix": 1})
            return partial(write_foreign_twins, writer, self.corpora.tokenizer), decoding
        writers = {side: load_writer(stage.folder, side) for side, stage in generators.items()}
        return partial(write_twins, writers, beginnings=wanted.beginnings), self.recipe.negatives
