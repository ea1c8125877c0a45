"""One corpus of a laboratory, as the stages of an ordinary run see theirs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor

from lexergy.data.corpora import Document
from lexergy.data.splits import Splits
from lexergy.models.causal.lm import CausalLM
from lexergy.models.loading.tokenizer import load_tokenizer
from lexergy.tasks.residual.context import TOKENIZER_FOLDER, RunContext


@dataclass(frozen=True)
class CorpusTexts:
    """Documents and their tokens, loaded and encoded once for all LMs that are trained on them."""

    splits: Splits
    tokens: dict[str, Tensor] = field(default_factory=dict)  # of those encoded so far, by id: (T,)


@dataclass(frozen=True)
class CorpusContext(RunContext):
    """The corpus's documents, the tokenizer of all corpora, and one LM trained there."""

    load_texts: Callable[[], CorpusTexts]
    lm_folder: Path | None = None

    @cached_property
    def splits(self) -> Splits:
        return self.load_texts().splits

    @cached_property
    def tokenizer(self) -> Any:
        return load_tokenizer(self.folder / "tokenizer" / TOKENIZER_FOLDER)

    @cached_property
    def lm(self) -> CausalLM:
        assert self.lm_folder is not None
        return CausalLM.from_pretrained(self.lm_folder)

    def encode(self, documents: Sequence[Document]) -> list[Tensor]:
        """Token ids (T,) of each document, without special tokens."""
        known = self.load_texts().tokens
        missing = [document for document in documents if document.id not in known]
        if missing:
            known.update(zip((document.id for document in missing), super().encode(missing), strict=True))
        return [known[document.id] for document in documents]
