"""Frozen models that read an LM's tokens as text and turn each continuation into features."""

from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from lexergy.core.batches import batches_by_length
from lexergy.errors import LexergyError
from lexergy.models.causal.lm import CausalLM
from lexergy.models.causal.state_features import StateFeatures
from lexergy.models.causal.states import marked_features
from lexergy.models.causal.text_starts import start_of_text
from lexergy.models.energies.backbones import Backbone
from lexergy.models.energies.text import ReadText, TextReader, max_positions
from lexergy.models.inference.linears import fast_linears
from lexergy.models.loading.devices import tokens_at_once


class FrozenReader(Protocol):
    """What turns texts into features."""

    @property
    def network(self) -> PreTrainedModel: ...

    @property
    def groups(self) -> dict[str, int]:
        """How many features of each kind there are, in their order."""

    def features(
        self, lm_tokenizer: PreTrainedTokenizerBase, prefix: Tensor, continuations: Tensor
    ) -> Tensor:  # (B, P), (B, K, C) -> (B K, F)
        """Those of each continuation after its prefix."""


class LMReader:
    """A causal LM: pooled states of some layers and likelihood statistics, over its own tokens of the continuation.

    Every text begins with the token after which texts began in its training, so that the first token is predicted too,
    and nothing is forbidden. A continuation without text is read as one end-of-text token. Continuations of one
    prefix share the tokens before any of theirs, which are run once.
    """

    def __init__(self, lm: CausalLM, features: StateFeatures) -> None:
        features.check(lm.last_state_layer)
        self._given, self._features = lm, features
        self.network = lm.model.eval().requires_grad_(False)

    @property
    def groups(self) -> dict[str, int]:
        states = len(self._features.layers) * self._given.hidden_size
        return {"states": states, "statistics": self._features.num_statistics}

    @cached_property
    def lm(self) -> CausalLM:
        """The LM as it reads here."""
        given = self._given
        return CausalLM(
            given.model,
            given.tokenizer,
            start_token=start_of_text(given),
            source=given.source,
            precision=given.precision,
        )

    @cached_property
    def text(self) -> TextReader:
        limit = (self.lm.max_length or 2**31) - 1  # for an end-of-text
        return TextReader(self.lm.need_tokenizer(), limit, special_tokens=False)

    @torch.no_grad()
    def features(self, lm_tokenizer: PreTrainedTokenizerBase, prefix: Tensor, continuations: Tensor) -> Tensor:
        texts = [self._ended(text) for text in self.text.read(lm_tokenizer, prefix, continuations)]
        features = torch.empty(len(texts), sum(self.groups.values()), device=self.lm.device)
        alone: list[int] = []
        for places in torch.arange(len(texts)).split(max(1, continuations.shape[1])):
            siblings = [texts[place] for place in places]
            shared = self._shared_length(siblings)
            if shared == 0:
                alone += places.tolist()
            else:
                features[places] = self._read(siblings, shared)
        for batch in batches_by_length([len(texts[place].tokens) for place in alone], tokens_at_once(self.network)):
            places = torch.tensor([alone[number] for number in batch])
            features[places] = self._read([texts[place] for place in places], 0)
        return features

    def _ended(self, text: ReadText) -> ReadText:
        if any(text.continuation):
            return text
        end = self.lm.end_of_text
        token = self.lm.start_token if end is None else end
        assert token is not None
        return ReadText([*text.tokens, token], [*text.continuation, True])

    def _shared_length(self, texts: Sequence[ReadText]) -> int:
        """How many tokens all begin with, none of them of a continuation; 0 where sharing them would save nothing."""
        if len(texts) < 2 or not self.lm.shares_prefix(max(len(text.tokens) for text in texts)):
            return 0
        limit = min(text.continuation.index(True) for text in texts)
        columns = zip(*(text.tokens[:limit] for text in texts), strict=True)
        return next((place for place, column in enumerate(columns) if len(set(column)) > 1), limit)

    def _read(self, texts: Sequence[ReadText], shared_length: int) -> Tensor:  # -> (R, F)
        rows = self.text.pad(texts, self.lm.device)
        return marked_features(self.lm, rows.tokens, rows.continuation, self._features, shared_length)


class EncoderReader:
    """An encoder: states of some layers, means over its own tokens of the continuation.

    A continuation without text is read at the last token, where tokenizers put their separator.
    """

    def __init__(self, encoder: Backbone, layers: Sequence[int]) -> None:
        config = encoder.model.config.get_text_config()
        wrong = [layer for layer in layers if not 0 <= layer <= config.num_hidden_layers]
        if wrong or not layers:
            raise LexergyError(
                f"`layers` is {list(layers)}; expected some of 0 .. {config.num_hidden_layers}, the last layer of "
                f"{encoder.source or 'the encoder'}."
            )
        self.network = encoder.model.eval().requires_grad_(False)
        self._tokenizer, self._layers = encoder.tokenizer, tuple(layers)
        self.groups = {"states": len(layers) * config.hidden_size}

    @cached_property
    def text(self) -> TextReader:
        assert self._tokenizer is not None
        return TextReader(self._tokenizer, max_positions(self.network))

    @torch.no_grad()
    def features(self, lm_tokenizer: PreTrainedTokenizerBase, prefix: Tensor, continuations: Tensor) -> Tensor:
        texts = [_marked_somewhere(text) for text in self.text.read(lm_tokenizer, prefix, continuations)]
        features = torch.empty(len(texts), self.groups["states"], device=self.network.device)
        for places in batches_by_length([len(text.tokens) for text in texts], tokens_at_once(self.network)):
            features[torch.tensor(places)] = self._read([texts[place] for place in places])
        return features

    def _read(self, texts: Sequence[ReadText]) -> Tensor:  # -> (R, F)
        rows = self.text.pad(texts, self.network.device)
        with fast_linears(self.network):
            output = self.network(input_ids=rows.tokens, attention_mask=rows.attention, output_hidden_states=True)
        weight = (rows.continuation / rows.continuation.sum(1, keepdim=True)).unsqueeze(-1)  # (R, L, 1)
        return torch.cat([(output.hidden_states[layer].float() * weight).sum(1) for layer in self._layers], -1)


def _marked_somewhere(text: ReadText) -> ReadText:
    if any(text.continuation):
        return text
    return text._replace(continuation=[*text.continuation[:-1], True])
