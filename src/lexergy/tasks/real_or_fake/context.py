"""One corpus of a laboratory, as the stages of an ordinary run see theirs."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from lexergy.data.windows import Windows
from lexergy.models.causal_lm import CausalLM
from lexergy.models.energies.backbones import load_tokenizer
from lexergy.tasks.context import SPLITS, TOKENIZER_FOLDER, RunContext


@dataclass(frozen=True)
class CorpusContext(RunContext):
    """The corpus's documents and windows, the tokenizer of all corpora, and one LM trained there."""

    windows_folder: Path
    lm_folder: Path | None = None

    @cached_property
    def tokenizer(self) -> Any:
        return load_tokenizer(self.folder / "tokenizer" / TOKENIZER_FOLDER)

    @cached_property
    def windows(self) -> dict[str, Windows]:
        return {split: Windows.load(self.windows_folder / f"{split}.parquet") for split in SPLITS}

    @cached_property
    def lm(self) -> CausalLM:
        assert self.lm_folder is not None
        return CausalLM.from_pretrained(self.lm_folder)
