"""An energy on what a frozen reader makes of the decoded text: for an LM whose own states cannot be read."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from lexergy.errors import LexergyError
from lexergy.models.causal.language_model import LanguageModel
from lexergy.models.causal.lm import CausalLM
from lexergy.models.causal.state_features import StateFeatures
from lexergy.models.energies.backbones import CAUSAL_LM, ENCODER, Backbone, encoder_backbone
from lexergy.models.energies.base import EnergyConfig
from lexergy.models.energies.feature_heads import FeatureEnergy
from lexergy.models.energies.frozen_readers import EncoderReader, FrozenReader, LMReader
from lexergy.models.energies.origins import Origins
from lexergy.models.energies.text import check_decodes, decoder_of
from lexergy.models.loading.places import located, portable
from lexergy.recipes.sections.energy import Statistics
from lexergy.recipes.sections.fitted_energies import FittedEncoderEnergyRecipe, FittedReaderEnergyRecipe


class ReaderEnergyConfig(EnergyConfig):
    """Which reader it is, where it is found, and what is read of it (an encoder has no `statistics`)."""

    model_type = "lexergy_reader"

    reader_kind: str = ENCODER
    reader_source: str | None = None
    layers: tuple[int, ...] | list[int] = ()
    statistics: str = "summary"


class ReaderEnergy(FeatureEnergy):
    """E(x) = w . (f(x) - mean) / std + b, f what a frozen reader with its own tokenizer makes of the decoded text.

    The reader is another causal LM (its pooled states and likelihood statistics) or an encoder (its pooled states);
    prefix and continuation are read together, and a token with any character of the continuation counts. Nothing is
    asked of the LM but its text. The file holds the head; the reader is found again by its source.

    Examples:
        >>> from lexergy import CausalLM, ReaderEnergy, ResidualEBM
        >>> from lexergy.testing import EnumerableLM, EnumerableMaskedLM
        >>> words = EnumerableMaskedLM().tokenizer  # six words and the special tokens
        >>> lm = CausalLM(EnumerableLM(len(words)).model, words, forbidden_tokens=range(5))
        >>> reader = CausalLM(EnumerableLM(len(words), seed=1).model, words, start_token=words.cls_token_id)
        >>> energy = ReaderEnergy.from_causal_lm(reader, layers=(1, 2))
        >>> out = ResidualEBM(lm, energy).generate("the state", num_candidates=8, max_new_tokens=4, seed=0)
        >>> out.candidates[0].energy  # untrained: 0
        0.0
    """

    config_class = ReaderEnergyConfig

    def __init__(self, config: ReaderEnergyConfig, reader: FrozenReader) -> None:
        super().__init__(config)
        self.reader = reader
        self.network = reader.network  # registered, so that it goes to the device with the energy
        self._lm_tokenizer: PreTrainedTokenizerBase | None = None
        self.add_head(reader.groups)

    @classmethod
    def from_causal_lm(
        cls, lm: CausalLM | str | Path, layers: Sequence[int], *, statistics: Statistics = "summary"
    ) -> Self:
        """A head on these layers (0 = embeddings) and the statistics of a causal LM, given or found by its source."""
        lm = CausalLM.from_pretrained(lm) if isinstance(lm, str | Path) else lm
        config = ReaderEnergyConfig(
            reader_kind=CAUSAL_LM, reader_source=lm.source, layers=list(layers), statistics=statistics
        )
        return cls(config, LMReader(lm, StateFeatures(tuple(layers), statistics)))

    @classmethod
    def from_encoder(cls, source: Backbone | str | Path, layers: Sequence[int]) -> Self:
        """A head on these layers (0 = embeddings) of an encoder."""
        encoder = encoder_backbone(source)
        config = ReaderEnergyConfig(reader_kind=ENCODER, reader_source=encoder.source, layers=list(layers))
        return cls(config, EncoderReader(encoder, layers))

    def read(self, prefix: Tensor, continuations: Tensor) -> Tensor:  # (B, P), (B, K, C) -> (B, K, F)
        """The features of each continuation: what the head is fitted to."""
        features = self.reader.features(decoder_of(self._lm_tokenizer), prefix, continuations)
        return features.view(*continuations.shape[:2], -1)

    def forward(self, prefix: Tensor, continuations: Tensor, features: Tensor | None = None) -> Tensor:
        return self.of_features(self.read(prefix, continuations))  # (B, K)

    def train(self, mode: bool = True) -> Self:
        """The head only: the reader stays as it is."""
        super().train(mode)
        nn.Module.train(self.network, False)
        return self

    def bind(self, lm_tokenizer: PreTrainedTokenizerBase) -> Self:
        self._lm_tokenizer = lm_tokenizer
        return self

    def attach(self, lm: LanguageModel) -> Self:
        check_decodes(lm)
        return super().attach(lm)

    def saved_state(self) -> dict[str, Tensor]:
        return {name: value for name, value in self.state_dict().items() if not name.startswith("network.")}

    def save_pretrained(self, folder: str | Path, **kwargs: Any) -> None:  # type: ignore[override]
        source = self.config.reader_source
        if source is None:
            raise LexergyError(
                "only the head of this energy is saved, and its reader has no name to find it by; expected a folder or "
                "a name; save the reader first, and load it from there."
            )
        try:
            self.config.reader_source = portable(source, Path(folder))
            super().save_pretrained(folder, **kwargs)
        finally:
            self.config.reader_source = source

    @classmethod
    def assemble(cls, config: ReaderEnergyConfig, source: str) -> Self:
        reader = located(str(config.reader_source), source)
        if config.reader_kind == ENCODER:
            return cls.from_encoder(reader, config.layers)
        return cls.from_causal_lm(reader, config.layers, statistics=config.statistics)  # type: ignore[arg-type]


def build_fitted_reader(recipe: FittedReaderEnergyRecipe, origins: Origins, seed: int) -> ReaderEnergy:
    """On the causal LM that the recipe names, zero everywhere; linear, so that there is nothing to draw."""
    del seed
    return ReaderEnergy.from_causal_lm(origins.causal_lm(recipe.source), recipe.layers, statistics=recipe.statistics)


def build_fitted_encoder(recipe: FittedEncoderEnergyRecipe, origins: Origins, seed: int) -> ReaderEnergy:
    """On the encoder that the recipe names."""
    del seed
    return ReaderEnergy.from_encoder(origins.encoder(recipe.source), recipe.layers)
