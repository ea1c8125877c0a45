"""The corpora of a laboratory: one tokenizer for all, windows of each, and each as the stages of a run see theirs."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor

from lexergy.data.corpora import Document
from lexergy.data.splits import Splits
from lexergy.data.windows import Windows, make_windows
from lexergy.errors import LexergyError
from lexergy.models.causal.lm import CausalLM
from lexergy.models.loading.tokenizer import load_tokenizer, train_tokenizer
from lexergy.recipes.real_or_fake import GeneratorRecipe, LaboratoryRecipe
from lexergy.recipes.sections.shapes import Direction
from lexergy.runs.fingerprint import fingerprint
from lexergy.runs.stages import Facts, Stage
from lexergy.runs.workspace import OpenStage, Workspace
from lexergy.tasks.residual.base_models import build_windows
from lexergy.tasks.residual.context import TOKENIZER_FOLDER, RunContext


@dataclass(frozen=True)
class CorpusTexts:
    """Documents and their tokens, loaded and encoded once for all LMs that are trained on them."""

    run: RunContext  # loads its documents when they are first asked for
    tokens: dict[str, Tensor] = field(default_factory=dict)  # of those encoded so far, by id: (T,)


@dataclass(frozen=True)
class CorpusContext(RunContext):
    """The corpus's documents, the tokenizer of all corpora, and one LM trained there."""

    texts: CorpusTexts
    lm_folder: Path | None = None

    @cached_property
    def splits(self) -> Splits:
        return self.texts.run.splits

    @cached_property
    def tokenizer(self) -> Any:
        return load_tokenizer(self.folder / "tokenizer" / TOKENIZER_FOLDER)

    @cached_property
    def lm(self) -> CausalLM:
        assert self.lm_folder is not None
        return CausalLM.from_pretrained(self.lm_folder)

    def encode(self, documents: Sequence[Document]) -> list[Tensor]:
        """Token ids (T,) of each document, without special tokens."""
        known = self.texts.tokens
        missing = [document for document in documents if document.id not in known]
        if missing:
            known.update(zip((document.id for document in missing), super().encode(missing), strict=True))
        return [known[document.id] for document in documents]


class Corpora:
    """What people wrote, and the tokens in which all read it."""

    def __init__(self, recipe: LaboratoryRecipe, workspace: Workspace) -> None:
        self.recipe = recipe
        self.workspace = workspace
        self._texts: dict[str, CorpusTexts] = {}

    @cached_property
    def tokenizer(self) -> Any:
        return load_tokenizer(self.tokenizer_stage().folder / TOKENIZER_FOLDER)

    def tokenizer_stage(self) -> Stage:
        wanted = self.recipe.tokenizer
        config = {
            "tokenizer": self.recipe.plain()["tokenizer"],
            "corpora": [self.source(name) for name in wanted.corpora],
        }

        def build(stage: OpenStage) -> Facts:
            contexts = [self.context(name) for name in wanted.corpora]
            texts = [document.text for context in contexts for document in context.splits.train]
            return {"vocab_size": len(train_tokenizer(texts, wanted.vocab_size, stage.folder / TOKENIZER_FOLDER))}

        return self.workspace.stage("tokenizer", config, [], build)

    def windows_stage(self, corpus: str) -> Stage:
        config = {"corpus": self.source(corpus), "windows": self.recipe.plain()["windows"]}
        return self.workspace.stage(
            f"windows/{corpus}",
            config,
            [self.tokenizer_stage()],
            lambda stage: build_windows(self.context(corpus), stage),
        )

    def beginnings(self, corpus: str, split: str, length: int) -> Windows:
        """The first `length` tokens of each document of a split that has as many."""
        context = self.context(corpus)
        documents = getattr(context.splits, split)
        return make_windows(
            [tokens[:length] for tokens in context.encode(documents)],
            [document.id for document in documents],
            prefix_length=1,
            continuation_length=length - 1,
        )

    def source(self, name: str) -> dict[str, Any]:
        """A corpus as the recipe names it, and what its files hold."""
        if name not in self.recipe.corpora:
            raise LexergyError(f"no corpus `{name}`; expected one of {', '.join(self.recipe.corpora)}.")
        return {**self.recipe.plain()["corpora"][name], "content": fingerprint(self.recipe.corpora[name].source)}

    def context(
        self,
        corpus: str,
        generator: GeneratorRecipe | None = None,
        direction: Direction = "left_to_right",
        lm_folder: Path | None = None,
    ) -> CorpusContext:
        """What the stages of an ordinary run read, for this corpus."""
        generator = generator or self.recipe.generators[self.recipe.start_from]
        recipe, folder = self.recipe.run_recipe(corpus, generator, direction), self.workspace.folder
        texts = self._texts.setdefault(corpus, CorpusTexts(RunContext(recipe, folder)))
        return CorpusContext(recipe, folder, texts, lm_folder)
