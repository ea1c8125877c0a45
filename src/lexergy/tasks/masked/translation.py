"""A conditional masked LM trained on sentence pairs, for the studies that sample translations from it.

runs/reproduce/translation-cpu-seed0/
    pairs/      tokenizer, tokens of the training and validation pairs, the test pairs as text
    model/      weights and tokenizer
    walks/      one stage per sampler: what its chains did to each test sentence, a shard per few sentences
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from lexergy.data.translation.pairs import Pair, load_pairs, split_pairs
from lexergy.errors import LexergyError
from lexergy.files import atomic_path, atomic_write_json, read_json, reading
from lexergy.models.architectures.conditional_transformer import ConditionalTransformer, ConditionalTransformerConfig
from lexergy.models.architectures.scratch import PLAIN_RATIO
from lexergy.models.loading.tokenizer import load_tokenizer, train_tokenizer
from lexergy.models.masked.conditional import ConditionalMaskedLM
from lexergy.recipes.masked import TranslationRecipe
from lexergy.runs.fingerprint import fingerprint
from lexergy.runs.shards import num_shards
from lexergy.runs.stages import Facts, Stage, stage_seed
from lexergy.runs.workspace import OpenStage, Seconds, Workspace, open_workspace, stage_store
from lexergy.tasks.masked.translation_walks import (
    REPLACEMENTS,
    Task,
    Translating,
    Walk,
    mask_predict_translations,
    read_walk,
    tasks_by_length,
    walk_translations,
)
from lexergy.training.objectives.translation import ConditionalMasking, TokenPairs
from lexergy.training.stage import seeded, train_into

TOKENIZER, TOKENS, TEST = "bpe", "tokens.safetensors", "test.json"
WALKS, SHARDS = "walks", "shards"
CHAINS_PER_SHARD = 100


class TranslationLaboratory:
    """Makes what studies ask for, and remembers it; opened by `open_translation`."""

    def __init__(self, recipe: TranslationRecipe, workspace: Workspace) -> None:
        self.recipe = recipe
        self.workspace = workspace

    @property
    def seconds(self) -> Seconds:
        """What the model and the walks took."""
        return self.workspace.seconds(WALKS)

    @cached_property
    def lm(self) -> ConditionalMaskedLM:
        """The trained model, which remembers the energies that a shard has asked for."""
        lm = ConditionalMaskedLM.from_pretrained(self.model_stage.folder)
        lm.remember_energies()
        return lm

    @cached_property
    def test_pairs(self) -> list[Pair]:
        """Held-out pairs in a random order, no source twice."""
        path = self.pairs_stage.folder / TEST
        with reading(path):
            return [Pair(*pair) for pair in read_json(path, list)]

    def walk(self, name: str, translating: Translating) -> Walk:
        """What the chains of a sampler did to the first test sentences; all samplers meet the same random numbers."""
        sampling = replace(translating.sampling, seed=stage_seed(self.recipe.seed, WALKS))
        shared = replace(translating, sampling=sampling)
        return self._measured(
            name,
            asdict(shared) | ({"replacements": REPLACEMENTS} if shared.descend else {}),
            shared.sentences,
            max(1, CHAINS_PER_SHARD // sampling.chains),
            lambda tasks: walk_translations(self.lm, tasks, shared),
        )

    def mask_predicted(self, iterations: int) -> Walk:
        """Mask-Predict's translations of all test sentences; one iteration is the chains' greedy start."""
        return self._measured(
            f"mask-predict-{iterations}",
            {"iterations": iterations},
            len(self.test_pairs),
            CHAINS_PER_SHARD,
            lambda tasks: mask_predict_translations(self.lm, tasks, iterations),
        )

    def _measured(
        self,
        name: str,
        config: dict[str, Any],
        sentences: int,
        per_shard: int,
        table: Callable[[Sequence[Task]], pa.Table],
    ) -> Walk:
        """Shard by shard, each of sentences of about one length."""
        pairs = self.test_pairs[:sentences]
        count = num_shards(len(pairs), per_shard)

        def build(stage: OpenStage) -> Facts:
            tasks = tasks_by_length(self.lm, pairs)
            shards = [tasks[first : first + per_shard] for first in range(0, len(tasks), per_shard)]
            store = stage.store(SHARDS, per_shard=per_shard)

            def compute(number: int) -> pa.Table:
                self.lm.forget()  # a shard is a function of its number alone, whether those before it were killed
                return table(shards[number])

            store.fill(count, compute, name, progress=stage.progress)
            return {"shards": count, "per_shard": per_shard}

        stage = self.workspace.stage(f"{WALKS}/{name}", config, [self.pairs_stage, self.model_stage], build)
        return read_walk(stage_store(stage, SHARDS, per_shard=stage.facts["per_shard"]).table(stage.facts["shards"]))

    @cached_property
    def pairs_stage(self) -> Stage:
        recipe = self.recipe.pairs
        config = recipe.model_dump(mode="json") | {"content": fingerprint(recipe.path)}
        return self.workspace.stage("pairs", config, [], self._build_pairs)

    @cached_property
    def model_stage(self) -> Stage:
        config = self.recipe.model.model_dump(mode="json")
        return self.workspace.stage("model", config, [self.pairs_stage], self._build_model, together=True)

    def _build_pairs(self, stage: OpenStage) -> Facts:
        recipe = self.recipe.pairs
        file = load_pairs(recipe.path, source_column=recipe.source_column, target_column=recipe.target_column)
        splits = split_pairs(file.pairs, validation=recipe.validation, test=recipe.test, seed=stage.seed)
        tokenizer = train_tokenizer(
            (text for pair in splits.train for text in pair), recipe.vocab_size, stage.folder / TOKENIZER
        )
        short = [short_pairs(part, tokenizer, recipe.max_tokens) for part in splits]
        if not all(short):
            raise LexergyError(
                f"`max_tokens` is {recipe.max_tokens} and leaves no pairs of {recipe.path} to train on or to test; "
                "raise it."
            )
        tokens = {
            f"{name}.{side}": padded_tokens(texts, tokenizer)
            for name, part in zip(("train", "validation"), short[:2], strict=True)
            for side, texts in zip(("source", "target"), zip(*part, strict=True), strict=True)
        }
        with atomic_path(stage.folder / TOKENS) as partial:
            save_file(tokens, partial)
        test = list({pair.source: pair for pair in short[2]}.values())
        order = torch.randperm(len(test), generator=torch.Generator().manual_seed(stage.seed)).tolist()
        atomic_write_json(stage.folder / TEST, [list(test[place]) for place in order])
        counts = {"train": len(short[0]), "validation": len(short[1]), "test": len(test)}
        return {"vocab_size": len(tokenizer), "pairs": counts, "messages": file.messages()}

    def _build_model(self, stage: OpenStage) -> Facts:
        recipe = self.recipe.model
        tokenizer = load_tokenizer(self.pairs_stage.folder / TOKENIZER)
        model = ConditionalTransformer.from_config(
            ConditionalTransformerConfig(
                vocab_size=len(tokenizer),
                hidden_size=recipe.hidden_size,
                num_layers=recipe.num_layers,
                num_heads=recipe.num_heads,
                feed_forward_size=recipe.feed_forward_size or PLAIN_RATIO * recipe.hidden_size,
                max_tokens=self.recipe.pairs.max_tokens,
                dropout=recipe.dropout,
                pad_token_id=tokenizer.pad_token_id,
            ),
            seed=stage_seed(stage.seed, "weights"),
        )
        with reading(self.pairs_stage.folder / TOKENS):
            tokens = load_file(self.pairs_stage.folder / TOKENS)
        train_pairs, validation = (
            TokenPairs(tokens[f"{name}.source"], tokens[f"{name}.target"]) for name in ("train", "validation")
        )
        objective = ConditionalMasking(
            train_pairs, validation, mask_token=tokenizer.mask_token_id, pad_token=tokenizer.pad_token_id
        )

        def save(folder: Path) -> None:
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)

        return train_into(stage, model, objective, seeded(recipe.training, stage), save=save, label="translator")


@contextmanager
def open_translation(recipe: TranslationRecipe, folder: Path, *, progress: bool) -> Iterator[TranslationLaboratory]:
    """The laboratory in its folder, locked meanwhile."""
    with open_workspace(folder, recipe.seed, progress=progress, engine=recipe.engine) as workspace:
        yield TranslationLaboratory(recipe, workspace)


def short_pairs(pairs: Sequence[Pair], tokenizer: Any, max_tokens: int) -> list[Pair]:
    """The pairs whose sides both have 1 to `max_tokens` tokens."""
    sources, targets = (tokenizer(list(side))["input_ids"] for side in zip(*pairs, strict=True))
    return [
        pair
        for pair, source, target in zip(pairs, sources, targets, strict=True)
        if min(len(source), len(target)) > 0 and max(len(source), len(target)) <= max_tokens
    ]


def padded_tokens(texts: Sequence[str], tokenizer: Any) -> Tensor:  # -> (N, L)
    """Texts as rows of one length."""
    rows = tokenizer(list(texts))["input_ids"]
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[tokenizer.pad_token_id] * (longest - len(row))] for row in rows])
