"""Electric: an energy for every token of a text, in one pass."""

import math
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel, initialization
from transformers.utils import ModelOutput

from lexergy.models.cloze.bodies import BodyShape, body_config, make_body
from lexergy.models.initialisation import initialised_from

ROWS_AT_ONCE = 256


class ElectricConfig(PreTrainedConfig):
    """The encoder's own configuration.

    `token_bias`: the energy has a number for each token of the vocabulary too. `noise_share` is set where the head was
    trained as ELECTRA's classifier, sigma(E) = P(replaced): its energies are then no cloze law of their own, and are
    read together with those of the generator (`core.cloze_nce`).
    """

    model_type = "lexergy_electric"

    encoder: dict | None = None
    token_bias: bool = False
    noise_share: float | None = None


@dataclass
class ElectricOutput(ModelOutput):
    energies: Tensor | None = None  # (B, L)
    last_hidden_state: Tensor | None = None  # (B, L, D)


class ElectricModel(PreTrainedModel):
    """E(x)_t = w . h(x)_t + b on the states of a bidirectional transformer (Sec. 2.1, Clark et al. 2020).

    p^(x_t | x_\\t) = exp(-E(x)_t), which training brings close to the normalised law (Z = 1). The bias, which the
    paper does not print, starts at log V: exp(-E) then starts near the uniform law, so near Z = 1. With a
    `start_law` b is a number for each token and exp(-E) starts near that law.

    A sequence has one token of context at each end (end-of-text, or whatever the text was cut from); the energies of
    these two are not trained.
    """

    config_class = ElectricConfig
    base_model_prefix = ""

    def __init__(self, config: ElectricConfig) -> None:
        super().__init__(config)
        self.encoder = make_body(config.encoder)
        self.energy = nn.Linear(self.encoder.config.hidden_size, 1)
        self.token_bias = nn.Embedding(self.vocab_size, 1) if config.token_bias else None
        self.post_init()

    @classmethod
    def from_shape(
        cls,
        shape: BodyShape,
        seed: int,
        *,
        noise_share: float | None = None,
        start_law: Tensor | None = None,  # (V,), log-probabilities of tokens without context
    ) -> Self:
        """An untrained model whose weights depend on the seed alone."""
        encoder = body_config(shape, causal=False)
        with initialised_from(seed):
            model = cls(ElectricConfig(encoder=encoder, token_bias=start_law is not None, noise_share=noise_share))
        if start_law is not None and model.token_bias is not None:
            with torch.no_grad():
                model.token_bias.weight.copy_(-start_law[:, None])
        return model

    def forward(self, input_ids: Tensor, **kwargs: Any) -> ElectricOutput:  # (B, L)
        states = self.encoder(input_ids=input_ids).last_hidden_state  # (B, L, D)
        energies = self.energy(states).squeeze(-1)  # (B, L)
        if self.token_bias is not None:
            energies = energies + self.token_bias(input_ids).squeeze(-1)
        return ElectricOutput(energies=energies, last_hidden_state=states)

    @torch.no_grad()
    def log_partition(self, tokens: Tensor, position: int) -> float:  # (L,)
        """log Z(x_\\t) = log sum_v exp(-E(REPLACE(x, t, v))_t), exactly, by a pass for each token of the vocabulary."""
        parts = []
        for candidates in torch.arange(self.vocab_size, device=tokens.device).split(ROWS_AT_ONCE):
            rows = tokens.expand(len(candidates), -1).clone()  # (R, L)
            rows[:, position] = candidates
            parts.append(-self(rows).energies[:, position].double())
        return float(torch.cat(parts).logsumexp(0))

    @property
    def vocab_size(self) -> int:
        return self.encoder.config.vocab_size

    def get_input_embeddings(self) -> nn.Module:
        return self.encoder.get_input_embeddings()

    def set_input_embeddings(self, value: nn.Module) -> None:
        self.encoder.set_input_embeddings(value)

    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if module is getattr(self, "energy", None):
            is_law = self.config.noise_share is None and not self.config.token_bias
            initialization.constant_(module.bias, math.log(self.vocab_size) if is_law else 0.0)
