"""What the stages of one run share, loaded when the first of them asks."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lexergy.core.conditions import Conditions
from lexergy.core.decoding import Decoding
from lexergy.core.ends import lengths_until
from lexergy.data.corpora import Document, load_corpus
from lexergy.data.splits import Splits, split_documents
from lexergy.data.windows import Windows
from lexergy.errors import LexergyError
from lexergy.models.causal.language_model import LanguageModel
from lexergy.models.causal.lm import CausalLM, weights_of
from lexergy.models.causal.local_residuals import load_residual
from lexergy.models.causal.state_features import StateFeatures, union
from lexergy.models.energies import EnergyModel
from lexergy.models.joint.model import ResidualEBM
from lexergy.models.loading.tokenizer import load_tokenizer
from lexergy.models.remote.opening import open_lm
from lexergy.recipes.residual import ResidualRecipe
from lexergy.recipes.sections.local_residuals import ResidualKind, residual_folder
from lexergy.runs.records import measured_windows, read_windows
from lexergy.runs.stages import stage_seed

SPLITS = ("train", "validation", "test")
TOKENIZER_FOLDER = "bpe"


@dataclass(frozen=True)
class RunContext:
    """A recipe and the folder of its run."""

    recipe: ResidualRecipe
    folder: Path

    @cached_property
    def splits(self) -> Splits:
        corpus = self.recipe.corpus
        documents = load_corpus(corpus.source, text_field=corpus.text_field)
        seed = stage_seed(self.recipe.split_seed, "split")
        return split_documents(documents, validation=corpus.validation, test=corpus.test, seed=seed)

    @cached_property
    def lm(self) -> LanguageModel:
        """The run's LM, whose texts end where those of the windows do; with its residuals, where it has any."""
        return self._open_lm(self.recipe.lm.folder)

    @cached_property
    def frozen_lm(self) -> LanguageModel:
        """The same without any residual."""
        return self._open_lm("lm") if self.recipe.lm.residual else self.lm

    def corrected_lm(self, kind: ResidualKind, *, included: bool = True) -> CausalLM:
        """The LM with the residuals up to this kind, that `included` or not."""
        kinds = [residual.kind for residual in self.recipe.lm.residual]
        last = kinds.index(kind) - (not included)
        lm = weights_of(self.frozen_lm)
        residuals = [load_residual(self.folder / residual_folder(kinds[last]), own) for own in kinds[: last + 1]]
        return lm.corrected(residuals)

    def _open_lm(self, stage: str) -> LanguageModel:
        lm = open_lm(self.folder / stage, runtime=self.recipe.lm.runtime, precision=self.recipe.lm.precision)
        return lm.ending() if self.recipe.windows.ends else lm

    @property
    def window_documents(self) -> dict[str, list[Document]]:
        """What windows are cut from; where the LM is corrected, those to train on from documents no residual read."""
        splits = self.splits
        train = splits.train if not self.recipe.lm.residual else self._shared_out[1]
        return {"train": train, "validation": splits.validation, "test": splits.test}

    @property
    def residual_documents(self) -> list[Document]:
        """What residuals are fitted on."""
        return self._shared_out[0]

    @cached_property
    def _shared_out(self) -> tuple[list[Document], list[Document]]:
        """The training documents of residuals, and those of energies."""
        documents, share = self.splits.train, self.recipe.lm.residual_fit.share
        if len(documents) < 2:
            raise LexergyError(
                "there is one training document, and `lm.residual` needs some that no energy is trained on; expected "
                "at least 2; give more documents, or cut it into several."
            )
        count = min(max(round(share * len(documents)), 1), len(documents) - 1)
        generator = torch.Generator().manual_seed(stage_seed(self.recipe.split_seed, "residual documents"))
        chosen = set(torch.randperm(len(documents), generator=generator)[:count].tolist())
        own = [document for number, document in enumerate(documents) if number in chosen]
        return own, [document for number, document in enumerate(documents) if number not in chosen]

    @cached_property
    def tokenizer(self) -> Any:
        if self.recipe.lm.finetune is not None:
            return load_tokenizer(self.folder / "lm")  # there before the LM itself is
        if self.recipe.lm.train is None:
            return self.frozen_lm.tokenizer
        return load_tokenizer(self.folder / "tokenizer" / TOKENIZER_FOLDER)

    @property
    def end_token(self) -> int | None:
        """What ends the texts of the windows, where they have ends."""
        if not self.recipe.windows.ends:
            return None
        if self.tokenizer.eos_token_id is None:
            raise LexergyError(
                f"`windows.ends` is true and the tokenizer of {self.recipe.lm.description} has no end-of-text token; "
                "expected one; leave the key out, and no text ends."
            )
        return self.tokenizer.eos_token_id

    def mean_length(self, windows: Windows) -> float:
        """How many tokens a continuation has, its end included."""
        return float(lengths_until(windows.continuations, self.end_token).double().mean())

    @cached_property
    def windows(self) -> dict[str, Windows]:
        return {split: read_windows(self.folder, split) for split in SPLITS}

    @cached_property
    def test_windows(self) -> Windows:
        """Those that energies and baselines are measured on."""
        return measured_windows(self.folder, self.recipe)

    def some_test_windows(self, count: int) -> Windows:
        """So many, spread evenly over the documents: those that the run is measured on, or some of them.

        Where more are asked for than that, they are drawn from all test windows in the same way.
        """
        windows = self.test_windows if count <= len(self.test_windows) else self.windows["test"]
        return windows.sample(count, stage_seed(self.recipe.split_seed, "perplexity"))

    @cached_property
    def features(self) -> StateFeatures | None:
        """What the recipe's energies read of the LM's states, all together; None when none does."""
        return union(
            StateFeatures(energy.state_layers, energy.state_statistics)
            for energy in self.recipe.energies.values()
            if energy.state_layers is not None
        )

    def energy(self, name: str) -> EnergyModel:
        return EnergyModel.from_pretrained(self.folder / name)

    def joint(self, energy: str) -> ResidualEBM:
        """The language model and one energy as one: log p~(x) = log p_LM(x) - E(x)."""
        return ResidualEBM(self.lm, self.energy(energy), self.conditions)

    @property
    def conditions(self) -> Conditions:
        """What the run's energies were trained on."""
        windows, drawn = self.recipe.windows, self.recipe.negatives
        decoding = Decoding(drawn.temperature, drawn.top_k, drawn.top_p)
        return Conditions(windows.prefix, windows.continuation, decoding, windows.ends)

    def encode(self, documents: Sequence[Document]) -> list[Tensor]:
        """Token ids (T,) of each document, without special tokens; all at once, on all cores."""
        texts = [document.text for document in documents]
        encoded = self.tokenizer(texts, add_special_tokens=False, return_attention_mask=False, verbose=False)
        return [torch.tensor(ids, dtype=torch.long) for ids in encoded["input_ids"]]
