"""A masked LM of translations, with its source attached: proposals and energies for the same kernels.

A row is the source, an end-of-text token, then the target with its masks; only the target is scored or changed, so that
the kernels need not know of the source: E(y | x), with x in the row.
"""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from lexergy.core.mcmc.remembered import RememberedRows
from lexergy.core.vocabulary import NEVER
from lexergy.errors import LexergyError
from lexergy.models.architectures.conditional_transformer import (
    ConditionalTransformer,
    ConditionalTransformerConfig,
    EncodedSource,
)
from lexergy.models.loading.devices import default_device, device_of
from lexergy.models.loading.sources import model_type_of
from lexergy.models.loading.tokenizer import load_tokenizer
from lexergy.models.loading.weights import load_weights
from lexergy.models.masked.lm import MaskedLM
from lexergy.storage import fetched

SOURCES_AT_ONCE = 256
SOURCES_REMEMBERED = 2**12


class ConditionalMaskedLM(MaskedLM):
    """Conditionals p_mlm(y_i | x, y outside the masked positions), and two energies of y given x."""

    model: ConditionalTransformer

    def __init__(self, model: ConditionalTransformer, tokenizer: PreTrainedTokenizerBase) -> None:
        super().__init__(model, tokenizer)
        self.separator: int = tokenizer.eos_token_id  # type: ignore[assignment]
        self._sources = RememberedRows(self._read_sources, SOURCES_REMEMBERED)

    @classmethod
    def from_pretrained(cls, source: str | Path) -> "ConditionalMaskedLM":
        """A folder that holds such a model, or a translation recipe's run with its stage `model`."""
        run = fetched(source).expanduser()
        folder = run / "model" if (run / "model").is_dir() else run
        if model_type_of(folder) != ConditionalTransformerConfig.model_type:
            raise LexergyError(
                f"{run} holds no conditional masked LM; expected the run of a translation recipe, as "
                "`lexergy reproduce table-6.6` makes it in runs/reproduce/translation-cpu-seed0."
            )
        model = load_weights(ConditionalTransformer, folder)
        return cls(model.to(default_device()), load_tokenizer(folder))  # type: ignore[arg-type]

    def forget(self) -> None:
        super().forget()
        self._sources.forget()

    def templates(self, sentences: Sequence[str]) -> list[list[int]]:
        """A row for each sentence, with as many masks as its translation most likely has tokens."""
        sources = [self.tokenizer.encode(sentence, add_special_tokens=False) for sentence in sentences]
        longest, limit = max(map(len, sources)), self.model.config.max_tokens
        if longest > limit:
            raise LexergyError(f"a sentence has {longest} tokens; the model reads at most {limit}; shorten it.")
        if min(map(len, sources)) == 0:
            raise LexergyError("a sentence to translate is empty; expected some words.")
        lengths = self.predicted_lengths(self.pad(sources))
        return [
            [*source, self.separator, *[self.mask_token] * length]
            for source, length in zip(sources, lengths.tolist(), strict=True)
        ]

    def predicted_lengths(self, sources: Tensor) -> Tensor:  # (N, S) -> (N,)
        """The likeliest number of tokens of each translation."""
        with torch.no_grad():
            parts = [self._encoded(part).length_logits for part in sources.split(SOURCES_AT_ONCE)]
        return 1 + torch.cat(parts).argmax(dim=1).cpu()

    def decode(self, tokens: Tensor) -> str:  # (L,)
        """The target of a row as text."""
        return super().decode(tokens[self._is_target(tokens[None])[0]])

    def _scored(self, tokens: Tensor) -> Tensor:  # (N, L) -> (N, L) bool
        return super()._scored(tokens) & self._is_target(tokens)

    def _is_target(self, tokens: Tensor) -> Tensor:  # (N, L) -> (N, L) bool
        return ((tokens == self.separator).cumsum(dim=1) > 0) & (tokens != self.separator)

    def _logits(self, inputs: Tensor, chosen: Tensor) -> Tensor:  # (N, L), (N, L) bool -> (M, V)
        sources, targets, places = self._parted(inputs, chosen)
        device = device_of(self.model)
        with torch.no_grad():
            different, which = sources.unique(dim=0, return_inverse=True)
            encoded = self._encoded(different)
            states = self.model.states_at(targets.to(device), places.to(device), encoded, which.to(device))  # (M, D)
            logits = self.model.logits(states).float().cpu()
        return logits.index_fill(1, self.special_tokens, NEVER)

    def _encoded(self, sources: Tensor) -> EncodedSource:  # (n, S)
        """Each source is read once, however many chains translate it."""
        size = self.model.config.max_tokens
        sources = torch.nn.functional.pad(sources, (0, size - sources.shape[1]), value=self.pad_token)
        states, length_logits = self._sources(sources).split([size * self.model.config.hidden_size, size], dim=1)
        padding = (sources == self.pad_token).to(states.device)
        return EncodedSource(states.unflatten(1, (size, -1)), padding, length_logits)

    def _read_sources(self, sources: Tensor) -> Tensor:  # (n, max_tokens) -> (n, max_tokens D + max_tokens)
        encoded = self.model.encode(sources.to(device_of(self.model)))
        return torch.cat([encoded.states.flatten(1), encoded.length_logits], dim=1)

    def _lengths(self, inputs: Tensor) -> Tensor:  # (N, L) -> (N,)
        return (self._is_target(inputs) & (inputs != self.pad_token)).sum(dim=1)

    def _parted(self, inputs: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Rows (N, L) and positions of them -> sources (N, S), targets (N, T), the same positions (N, T) bool."""
        ends = (inputs == self.separator).int().argmax(dim=1, keepdim=True)  # (N, 1)
        columns = torch.arange(inputs.shape[1], device=inputs.device)
        sources = inputs.masked_fill(columns >= ends, self.pad_token)[:, : int(ends.max())]
        num_targets = int(self._lengths(inputs).max())
        # Past a row's end there is nothing: a column of padding is put there to be read.
        after = (ends + 1 + columns[:num_targets]).clamp_max(inputs.shape[1])  # (N, T)
        padded = torch.nn.functional.pad(inputs, (0, 1), value=self.pad_token)
        marked = torch.nn.functional.pad(chosen, (0, 1), value=False)
        return sources, padded.gather(1, after), marked.gather(1, after)
