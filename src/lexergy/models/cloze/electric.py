"""Electric: an energy for every token of a text, in one pass."""

import math
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel, initialization
from transformers.utils import ModelOutput

from lexergy.errors import LexergyError
from lexergy.models.architectures.initialisation import initialised_from
from lexergy.models.cloze.bodies import BodyShape, body_config, make_body, start_embeddings
from lexergy.models.cloze.transfer import copy_weights, first_layers
from lexergy.models.inference.ragged import encoder_states

ROWS_AT_ONCE = 256


class ElectricConfig(PreTrainedConfig):
    """The encoder's own configuration.

    `token_bias`: the energy has a number for each token of the vocabulary too. `neighbours`: and a vector, which is
    compared with the states of the two neighbours. `residual`: p^ = q exp(-E), so that the energies are read together
    with the distribution q of the noise. `noise_share` is set where the head was trained as ELECTRA's classifier,
    sigma(E) = P(replaced): its energies too are read together with q (`core.cloze_nce`).
    """

    model_type = "lexergy_electric"

    encoder: dict | None = None
    token_bias: bool = False
    neighbours: bool = False
    residual: bool = False
    noise_share: float | None = None

    @property
    def is_synthetic(self) -> bool:
        """Whether exp(-E) is the cloze distribution by itself, without the noise's."""
        return self.noise_share is None and not self.residual


@dataclass
class ElectricOutput(ModelOutput):
    energies: Tensor | None = None  # (B, L)
    last_hidden_state: Tensor | None = None  # (B, L, D)


class NeighbourTerm(nn.Module):
    """v(x_t) . (A h_{t-1} + B h_{t+1}): how well a token goes with the states beside it; 0 at the start.

    Whether a token is odd here depends on two things at once, itself and its context. An encoder of which only
    w . h_t is read finds such products late; written out, they are learnt from the first step on.
    """

    def __init__(self, vocab_size: int, width: int) -> None:
        super().__init__()
        self.vectors = nn.Embedding(vocab_size, width)
        self.sides = nn.Linear(2 * width, width, bias=False)

    def forward(self, tokens: Tensor, states: Tensor) -> Tensor:  # (B, L), (B, L, D) -> (B, L)
        padded = nn.functional.pad(states, (0, 0, 1, 1))  # nothing stands beside the ends
        beside = torch.cat([padded[:, :-2], padded[:, 2:]], dim=-1)  # (B, L, 2 D)
        return (self.vectors(tokens) * self.sides(beside)).sum(-1)


class ElectricModel(PreTrainedModel):
    """E(x)_t = w . h(x)_t + b on the states of a bidirectional transformer (Sec. 2.1, Clark et al. 2020).

    p^(x_t | x_\\t) = exp(-E(x)_t), which training brings close to the normalised distribution (Z = 1). The bias, which
    the paper does not print, starts at log V: exp(-E) then starts near the uniform distribution, so near Z = 1. With a
    `start_distribution` b is a number for each token and exp(-E) starts near that distribution. `neighbours` adds a
    term that the paper does not have (`NeighbourTerm`).

    A sequence has one token of context at each end (end-of-text, or whatever the text was cut from); the energies of
    these two are not trained.

    Examples:
        >>> import torch
        >>> from lexergy import ElectricModel
        >>> from lexergy.models.cloze.bodies import BodyShape
        >>> shape = BodyShape(vocab_size=20, hidden_size=16, num_layers=1, num_heads=2, max_length=8)
        >>> model = ElectricModel.from_shape(shape, seed=0)  # untrained
        >>> row = torch.tensor([[0, 5, 6, 7, 0]])  # three tokens between two ends
        >>> model(row).energies.shape  # one pass, an energy for each token
        torch.Size([1, 5])
        >>> abs(model.log_partition(row[0], position=2)) < 0.5  # near log Z = 0 from the start
        True
    """

    config_class = ElectricConfig
    base_model_prefix = ""

    def __init__(self, config: ElectricConfig) -> None:
        super().__init__(config)
        self.encoder = make_body(config.encoder)
        width = self.encoder.config.hidden_size
        self.energy = nn.Linear(width, 1)
        self.token_bias = nn.Embedding(self.vocab_size, 1) if config.token_bias else None
        self.neighbours = NeighbourTerm(self.vocab_size, width) if config.neighbours else None
        self.post_init()

    @classmethod
    def from_shape(
        cls,
        shape: BodyShape,
        seed: int,
        *,
        noise_share: float | None = None,
        neighbours: bool = False,
        residual: bool = False,
        start_distribution: Tensor | None = None,  # (V,), log-probabilities of tokens without context
    ) -> Self:
        """An untrained model whose weights depend on the seed alone."""
        model = cls._untrained(
            body_config(shape, causal=False), seed, noise_share, neighbours, residual, start_distribution
        )
        start_embeddings(model.get_input_embeddings(), shape)
        return model

    @classmethod
    def from_encoder(
        cls,
        encoder: PreTrainedModel,
        vectors: Tensor,  # (V, D), of the tokens
        num_layers: int,
        seed: int,
        *,
        noise_share: float | None = None,
        neighbours: bool = False,
        residual: bool = False,
        start_distribution: Tensor | None = None,  # (V,)
    ) -> Self:
        """A model on the first layers of a pretrained encoder, with vectors for its own vocabulary (`transfer`)."""
        config = first_layers(encoder, num_layers, len(vectors))
        model = cls._untrained(config, seed, noise_share, neighbours, residual, start_distribution)
        copy_weights(encoder, model.encoder, vectors)
        return model

    @classmethod
    def _untrained(
        cls,
        encoder: dict[str, Any],
        seed: int,
        noise_share: float | None,
        neighbours: bool,
        residual: bool,
        start_distribution: Tensor | None,
    ) -> Self:
        config = ElectricConfig(
            encoder=encoder,
            token_bias=start_distribution is not None,
            neighbours=neighbours,
            residual=residual,
            noise_share=noise_share,
        )
        with initialised_from(seed):
            model = cls(config)
        if start_distribution is not None and model.token_bias is not None:
            with torch.no_grad():
                model.token_bias.weight.copy_(-start_distribution[:, None])
        return model

    def forward(
        self,
        input_ids: Tensor,  # (B, L)
        attention_mask: Tensor | None = None,  # (B, L), False on the padding behind shorter rows
        **kwargs: Any,
    ) -> ElectricOutput:
        states = encoder_states(self.encoder, input_ids, attention_mask)  # (B, L, D)
        energies = self.energy(states).squeeze(-1)  # (B, L)
        if self.token_bias is not None:
            energies = energies + self.token_bias(input_ids).squeeze(-1)
        if self.neighbours is not None:
            energies = energies - self.neighbours(input_ids, states)
        return ElectricOutput(energies=energies, last_hidden_state=states)

    @torch.no_grad()
    def log_partition(self, tokens: Tensor, position: int) -> float:  # (L,)
        """log Z(x_\\t) = log sum_v exp(-E(REPLACE(x, t, v))_t), exactly, by a pass for each token of the vocabulary."""
        if not self.config.is_synthetic:
            raise LexergyError(
                "these energies are read together with a noise's distribution; expected an Electric without."
            )
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
            starts_uniform = self.config.is_synthetic and not self.config.token_bias
            initialization.constant_(module.bias, math.log(self.vocab_size) if starts_uniform else 0.0)
        neighbours = getattr(self, "neighbours", None)
        if neighbours is not None and module is neighbours.vectors:
            initialization.zeros_(module.weight)
        if neighbours is not None and module is neighbours.sides:
            initialization.normal_(module.weight, 0.0, module.in_features**-0.5)
