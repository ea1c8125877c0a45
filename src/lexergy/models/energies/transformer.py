"""Energies that are transformers: UniT (causal), BiT (bidirectional), BiT* (any pretrained encoder)."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, Self, cast, get_args

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from lexergy.errors import LexergyError
from lexergy.models.architectures.initialisation import initialised_from
from lexergy.models.architectures.lora import Lora, add_lora, is_adapter
from lexergy.models.architectures.ngram_tables import NgramEmbedding, NgramTables
from lexergy.models.causal.language_model import LanguageModel
from lexergy.models.causal.lm import CausalLM, weights_of
from lexergy.models.causal.runtimes.shared_prefix import PrefixSharing
from lexergy.models.energies.backbones import (
    CAUSAL_LM,
    ENCODER,
    MASKED_LM,
    Backbone,
    causal_backbone,
    empty_backbone,
    encoder_backbone,
    load_backbone,
    masked_backbone,
    state_width,
)
from lexergy.models.energies.base import EnergyConfig, EnergyModel, check_vocabulary
from lexergy.models.energies.origins import Origins
from lexergy.models.energies.sharing import Inputs, SharedStates
from lexergy.models.energies.text import (
    Rows,
    TextReader,
    check_decodes,
    decoder_of,
    max_positions,
    token_rows,
    whole_sequences,
)
from lexergy.models.inference.linears import fast_linears
from lexergy.models.inference.ragged import encoder_states, ragged_states, reads_ragged
from lexergy.models.loading.places import located, portable
from lexergy.models.loading.tokenizer import load_tokenizer
from lexergy.recipes.sections.energies import EncoderEnergyRecipe, LoraRecipe, TransformerEnergyRecipe

Pooling = Literal["continuation", "sequence", "first"]


class TransformerEnergyConfig(EnergyConfig):
    """Backbone, direction and pooling; where the backbone comes from, as LoRA saves only what it adds."""

    model_type = "lexergy_transformer"

    backbone: dict | None = None
    backbone_kind: str = CAUSAL_LM
    backbone_source: str | None = None
    causal: bool = True
    pooling: str = "continuation"
    start_token: int | None = None
    lora: dict | None = None
    ngram_tables: dict | None = None

    @property
    def reads_text(self) -> bool:
        return self.backbone_kind == ENCODER


class TransformerEnergy(EnergyModel):
    """E(x) = w . mean_t h_t(x) + b over the continuation's positions t (Sec. 4.1, Deng et al. 2020).

    With pooling "sequence" t runs over the prefix too; with "first", for BiT alone, it is the first position (Sec. 4.3,
    "Real or fake", 2020; Devlin et al. 2019).

    Causal (UniT): h_t sees x_<=t, and K continuations of a prefix share its keys and values. Bidirectional
    (BiT): h_t sees all of x. w = 0 at the start, so that the joint model starts as the LM.

    Examples:
        >>> import torch
        >>> from lexergy import TransformerEnergy
        >>> from lexergy.testing import EnumerableLM
        >>> lm = EnumerableLM()
        >>> unit = TransformerEnergy.from_causal_lm(lm)
        >>> bit = TransformerEnergy.from_causal_lm(lm, causal=False)
        >>> prefix, continuations = torch.tensor([[1, 2]]), torch.tensor([[[3, 4], [5, 6]]])
        >>> unit.score(prefix, continuations).shape, bit.score(prefix, continuations).shape
        (torch.Size([1, 2]), torch.Size([1, 2]))
    """

    config_class = TransformerEnergyConfig

    def __init__(
        self,
        config: TransformerEnergyConfig,
        backbone: PreTrainedModel | None = None,
        tokenizer: PreTrainedTokenizerBase | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(config)
        _check_pooling(config)
        self.backbone = backbone if backbone is not None else empty_backbone(config.backbone or {})
        width = _embedding(self.backbone).embedding_dim
        tables = None if config.ngram_tables is None else NgramTables(**config.ngram_tables)
        with initialised_from(seed):
            if config.lora is not None:
                add_lora(self.backbone, Lora(**config.lora))
            self.ngrams = None if tables is None else NgramEmbedding(tables)
            self.ngram_input = None if tables is None else nn.Linear(tables.size, width, bias=False)
            self.head = nn.Linear(state_width(self.backbone) + (0 if tables is None else tables.size), 1)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        if self.ngram_input is not None:
            nn.init.zeros_(self.ngram_input.weight)  # a pretrained backbone starts as itself
        self._reader = None if tokenizer is None else TextReader(tokenizer, max_positions(self.backbone))
        self._lm_tokenizer: PreTrainedTokenizerBase | None = None
        self._sharing = PrefixSharing(self.backbone)

    @classmethod
    def from_causal_lm(
        cls,
        lm: CausalLM | PreTrainedModel | str | Path,
        *,
        causal: bool = True,
        pooling: Pooling = "continuation",
        lora: Lora | None = None,
        ngram_tables: NgramTables | None = None,
        seed: int = 0,
    ) -> Self:
        """UniT from the LM's weights, or BiT from the LM without its mask (`causal=False`)."""
        return cls._start(CAUSAL_LM, causal_backbone(lm), causal, pooling, lora, ngram_tables, seed)

    @classmethod
    def from_masked_lm(
        cls,
        masked_lm: Backbone | PreTrainedModel | str | Path,
        *,
        pooling: Pooling = "continuation",
        lora: Lora | None = None,
        ngram_tables: NgramTables | None = None,
        seed: int = 0,
    ) -> Self:
        """BiT from a masked LM over the LM's own tokens."""
        return cls._start(MASKED_LM, masked_backbone(masked_lm), False, pooling, lora, ngram_tables, seed)

    @classmethod
    def from_encoder(
        cls,
        source: Backbone | str | Path,
        *,
        pooling: Pooling = "continuation",
        lora: Lora | None = None,
        ngram_tables: NgramTables | None = None,
        seed: int = 0,
    ) -> Self:
        """BiT* from a pretrained encoder that reads text with its own tokenizer."""
        return cls._start(ENCODER, encoder_backbone(source), False, pooling, lora, ngram_tables, seed)

    @classmethod
    def _start(
        cls,
        kind: str,
        backbone: Backbone,
        causal: bool,
        pooling: Pooling,
        lora: Lora | None,
        ngram_tables: NgramTables | None,
        seed: int,
    ) -> Self:
        if lora is not None and backbone.source is None:
            raise LexergyError(
                "LoRA saves only what it adds, and this model has no name to find it by; expected a folder "
                "or a name; save the model first, or train all weights."
            )
        config = TransformerEnergyConfig(
            backbone=backbone.model.config.to_dict(),
            backbone_kind=kind,
            backbone_source=backbone.source,
            causal=causal,
            pooling=pooling,
            start_token=backbone.start_token,
            lora=None if lora is None else asdict(lora),
            ngram_tables=None if ngram_tables is None else asdict(ngram_tables),
        )
        return cls(config, backbone.model, backbone.tokenizer, seed)

    def forward(self, prefix: Tensor, continuations: Tensor, features: Tensor | None = None) -> Tensor:
        if self.config.start_token is not None:
            prefix = nn.functional.pad(prefix, (1, 0), value=self.config.start_token)
        if torch.is_grad_enabled():
            return self._whole(prefix, continuations)
        num_samples = continuations.shape[1]
        group = max(1, self.rows_per_batch // num_samples)
        scores = [
            self._group(some_prefixes, theirs)
            for some_prefixes, theirs in zip(prefix.split(group), continuations.split(group), strict=True)
        ]
        return torch.cat(scores) if scores else self.head.weight.new_zeros(0, num_samples)

    def _group(self, prefix: Tensor, continuations: Tensor) -> Tensor:
        """Energies (b, K) of as many prefixes as go through at a time, their samples a slice at a time."""
        slices = continuations.split(self.rows_per_batch, dim=1)
        if self._shares(prefix, continuations):
            return torch.cat(list(self._shared(prefix, slices)), 1)
        return torch.cat([self._whole(prefix, samples) for samples in slices], 1)

    def _shares(self, prefix: Tensor, continuations: Tensor) -> bool:
        if not self.config.causal or prefix.shape[1] == 0:
            return False
        return self._sharing.allows(prefix.shape[1] + continuations.shape[2])

    def _whole(self, prefix: Tensor, continuations: Tensor) -> Tensor:
        """Energies (b, k) of whole sequences."""
        rows = self._rows(prefix, continuations)
        read = self._read(rows)
        weight = self._read_positions(rows).to(read.dtype)
        pooled = (read * weight.unsqueeze(-1)).sum(1) / weight.sum(1, keepdim=True).clamp_min(1)
        return self.head(pooled).view(continuations.shape[:2])

    def _read_positions(self, rows: Rows) -> Tensor:  # (N, L)
        by_pooling = {"continuation": rows.continuation, "sequence": rows.present, "first": rows.first}
        return by_pooling[self.config.pooling]

    def token_energies(self, texts: Sequence[Tensor]) -> list[Tensor]:
        """Of texts in the encoder's own tokens, (L,) each: e_t = w . h_t + b, (L,) each, of which E is the mean."""
        if self.config.pooling != "continuation":
            raise LexergyError(
                f"`pooling` is {self.config.pooling!r}; expected 'continuation' for an energy that is a mean over "
                "a text's tokens."
            )
        if self.ngrams is None and reads_ragged(self.backbone):
            before, after = (torch.tensor(edge, dtype=torch.long) for edge in self.reader.edges)
            states = ragged_states(self.backbone, [torch.cat((before, text, after)) for text in texts])
            return [self.head(own[len(before) : len(own) - len(after)]).squeeze(-1) for own in states]
        rows = self.reader.own_rows([text.tolist() for text in texts], self.device)
        energies = self.head(self._read(rows)).squeeze(-1)  # (N, L)
        return [own[inside].cpu() for own, inside in zip(energies, rows.continuation, strict=True)]

    def _read(self, rows: Rows) -> Tensor:
        """What the head reads at each position, (N, L, D), n-grams joined."""
        ngrams = None if self.ngrams is None else self.ngrams(rows.tokens)  # (N, L, T)
        return _joined(self._hidden_states(rows, ngrams), ngrams)

    def _hidden_states(self, rows: Rows, ngrams: Tensor | None) -> Tensor:
        attention = rows.attention
        if self.config.backbone_kind == CAUSAL_LM and not self.config.causal:
            # A mask of four dimensions is taken as it is, whatever the architecture and attention kernel.
            length = rows.tokens.shape[1]
            attention = torch.zeros(1, 1, length, length, dtype=self.dtype, device=rows.tokens.device)
        if ngrams is None and self.config.backbone_kind != CAUSAL_LM:
            return encoder_states(self.backbone, rows.tokens, attention)
        inputs = self._inputs(rows.tokens, ngrams)
        kwargs = {"use_cache": False} if self.config.backbone_kind == CAUSAL_LM else {}
        with fast_linears(self.backbone):
            return self.backbone(**inputs, attention_mask=attention, **kwargs).last_hidden_state

    def _inputs(self, tokens: Tensor, ngrams: Tensor | None) -> Inputs:
        if self.ngram_input is None:
            return {"input_ids": tokens}
        return {"inputs_embeds": _embedding(self.backbone)(tokens) + self.ngram_input(ngrams)}

    def _shared(self, prefix: Tensor, slices: tuple[Tensor, ...]) -> Iterator[Tensor]:
        """Energies (b, k) of each slice of samples, the prefixes being run once for all of them."""
        ngrams = None if self.ngrams is None else self.ngrams(prefix)
        states = SharedStates(self.backbone, self._inputs(prefix, ngrams))
        before = _joined(states.before, ngrams)  # (b, P, D + T)
        for continuations in slices:
            ngrams = self._ngrams_after(prefix, continuations)
            after = _joined(states.after(self._inputs(continuations.flatten(0, 1), ngrams)), ngrams)
            after = after.view(*continuations.shape, -1)  # (b, k, C, D + T)
            total, count = after.sum(2), continuations.shape[2]
            if self.config.pooling == "sequence":
                total, count = total + before.sum(1, keepdim=True), count + prefix.shape[1]
            yield self.head(total / count).squeeze(-1)

    def _ngrams_after(self, prefix: Tensor, continuations: Tensor) -> Tensor | None:
        """The n-grams' vectors (b k, C, T) that end in the continuations; they begin in the prefixes."""
        if self.ngrams is None:
            return None
        context = prefix[:, max(0, prefix.shape[1] - self.ngrams.settings.context) :]
        return self.ngrams(whole_sequences(context, continuations))[:, context.shape[1] :]

    def _rows(self, prefix: Tensor, continuations: Tensor) -> Rows:
        if self._reader is None:
            return token_rows(prefix, continuations)
        decoder = decoder_of(self._lm_tokenizer)
        if decoder is self._reader.tokenizer:
            padding = self._reader.tokenizer.pad_token_id
            texts = whole_sequences(prefix, continuations).tolist()
            return self._reader.own_rows([[id for id in ids if id != padding] for ids in texts], prefix.device)
        return self._reader.rows(decoder, prefix, continuations)

    @property
    def reader(self) -> TextReader:
        """The encoder's own tokenizer and how much of a text it takes; only energies that read text have one."""
        if self._reader is None:
            raise LexergyError("this energy reads an LM's tokens; expected one that reads text: `from_encoder`.")
        return self._reader

    def bind(self, lm_tokenizer: PreTrainedTokenizerBase) -> Self:
        self._lm_tokenizer = lm_tokenizer
        return self

    def attach(self, lm: LanguageModel) -> Self:
        if not self.config.reads_text:
            check_vocabulary(_embedding(self.backbone).num_embeddings, lm)
        else:
            check_decodes(lm)
        return super().attach(lm)

    def saved_state(self) -> dict[str, Tensor]:
        state = self.state_dict()
        if self.config.lora is None:
            return state
        return {name: value for name, value in state.items() if not name.startswith("backbone.") or is_adapter(name)}

    def save_pretrained(self, folder: str | Path, **kwargs: Any) -> None:  # type: ignore[override]
        source = self.config.backbone_source
        try:
            self.config.backbone_source = None if source is None else portable(source, Path(folder))
            super().save_pretrained(folder, **kwargs)
        finally:
            self.config.backbone_source = source
        if self._reader is not None and self.config.lora is None:
            self._reader.tokenizer.save_pretrained(folder)

    @classmethod
    def assemble(cls, config: TransformerEnergyConfig, source: str) -> Self:
        if config.backbone_source is not None:
            config.backbone_source = located(config.backbone_source, source)
        if config.lora is not None:
            backbone = load_backbone(config.backbone_kind, str(config.backbone_source))
            return cls(config, backbone.model, backbone.tokenizer)
        return cls(config, tokenizer=load_tokenizer(source) if config.reads_text else None)


def build_transformer(recipe: TransformerEnergyRecipe, origins: Origins, seed: int) -> TransformerEnergy:
    """UniT or BiT from the run's LM or masked LM."""
    tables = None if recipe.ngram_tables is None else NgramTables(**recipe.ngram_tables.model_dump())
    options: dict[str, Any] = {"pooling": recipe.pooling, "lora": _lora(recipe.lora), "ngram_tables": tables}
    if recipe.origin == "masked_lm":
        return TransformerEnergy.from_masked_lm(origins.masked_lm(), **options, seed=seed)
    return TransformerEnergy.from_causal_lm(weights_of(origins.lm), causal=recipe.kind == "unit", **options, seed=seed)


def build_encoder(recipe: EncoderEnergyRecipe, origins: Origins, seed: int) -> TransformerEnergy:
    """BiT* from the encoder that the recipe names."""
    encoder = origins.encoder(recipe.source)
    return TransformerEnergy.from_encoder(encoder, pooling=recipe.pooling, lora=_lora(recipe.lora), seed=seed)


def _lora(recipe: LoraRecipe | None) -> Lora | None:
    return None if recipe is None else Lora(**recipe.model_dump())


def _check_pooling(config: TransformerEnergyConfig) -> None:
    if config.pooling not in get_args(Pooling):
        raise LexergyError(f"`pooling` is {config.pooling!r}; expected one of {', '.join(get_args(Pooling))}.")
    if config.pooling == "first" and config.causal:
        raise LexergyError(
            "`pooling` is 'first' and the energy is causal, whose first position has read one token; expected "
            "'continuation' or 'sequence', or `causal=False`."
        )


def _joined(states: Tensor, ngrams: Tensor | None) -> Tensor:
    return states if ngrams is None else torch.cat((states, ngrams), -1)


def _embedding(backbone: PreTrainedModel) -> nn.Embedding:
    return cast(nn.Embedding, backbone.get_input_embeddings())
