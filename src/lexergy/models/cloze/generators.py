"""Cloze models with a softmax: the two-tower model, and ELECTRA's masked generator.

Both read token embeddings that may be wider than they are, and may belong to another model (weight sharing, App. A):
inputs are projected to the transformer's width, and states back to that of the embeddings for the softmax.
"""

from typing import Any, Self, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel, initialization
from transformers.utils import ModelOutput

from lexergy.models.architectures.initialisation import initialised_from
from lexergy.models.cloze.bodies import BodyShape, body_config, make_tower, start_embeddings

START_GAIN = 0.2  # of what meets long embeddings in the softmax, which so starts near its bias


class GeneratorConfig(PreTrainedConfig):
    """The transformers' own configuration, and the width of the token embeddings."""

    body: dict | None = None
    embedding_size: int = 768


class TwoTowerConfig(GeneratorConfig):
    model_type = "lexergy_two_tower"


class MaskedGeneratorConfig(GeneratorConfig):
    model_type = "lexergy_masked_generator"


class Generator(PreTrainedModel):
    """What both have in common: shared embeddings in, a softmax over the vocabulary out.

    softmax(W s + b) with W = A T, A the embeddings (V, E) and T a layer from the states to the embeddings' width, with
    GELU and a norm, as in ELECTRA's code.
    """

    config_class = GeneratorConfig
    base_model_prefix = ""
    is_causal = False
    num_bodies = 1

    def __init__(self, config: GeneratorConfig) -> None:
        super().__init__(config)
        towers = [make_tower(config.body) for _ in range(self.num_bodies)]
        width, vocab_size = towers[0].config.hidden_size, towers[0].config.vocab_size
        self.bodies = nn.ModuleList(towers)
        self.embeddings = nn.Embedding(vocab_size, config.embedding_size)
        self.inwards = nn.Linear(config.embedding_size, width)
        self.outwards = nn.Sequential(
            nn.Linear(self.num_bodies * width, config.embedding_size),
            nn.GELU(),
            nn.LayerNorm(config.embedding_size),
        )
        self.bias = nn.Parameter(torch.zeros(vocab_size))
        self.post_init()

    @classmethod
    def from_shape(
        cls,
        shape: BodyShape,
        seed: int,
        *,
        embedding_size: int | None = None,
        start_distribution: Tensor | None = None,  # (V,), log-probabilities of tokens without context
    ) -> Self:
        """An untrained model; its embeddings are as wide as it is unless told otherwise.

        Its softmax starts near the uniform distribution, or near `start_distribution`.
        """
        body = body_config(shape, causal=cls.is_causal)
        with initialised_from(seed):
            model = cls(cls.config_class(body=body, embedding_size=embedding_size or shape.hidden_size))
        start_embeddings(model.embeddings, shape)
        with torch.no_grad():
            if not shape.normalises_embeddings:
                cast(nn.LayerNorm, model.outwards[-1]).weight.fill_(START_GAIN)
            if start_distribution is not None:
                model.bias.copy_(start_distribution)
        return model

    def get_input_embeddings(self) -> nn.Embedding:
        return self.embeddings

    def set_input_embeddings(self, value: nn.Embedding) -> None:  # type: ignore[override]
        self.embeddings = value

    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if module is getattr(self, "inwards", None):
            # Keeps the embeddings' scale: weights as small as all others leave tokens too faint to be learnt from.
            initialization.normal_(module.weight, 0.0, self.config.embedding_size**-0.5)

    def _logits(self, states: Tensor) -> Tensor:  # (..., width) -> (..., V)
        return nn.functional.linear(self.outwards(states), self.embeddings.weight, self.bias)


class TwoTowerModel(Generator):
    """q(x_t | x_\\t) = softmax(W [h->_{t-1}, h<-_{t+1}])_{x_t}, Sec. 2.4, Clark et al. 2020 (Baevski et al. 2019).

    Two causal transformers, one left to right, one right to left. A sequence has a token of context at each end; the
    distribution is that of the n tokens between them.

    Examples:
        >>> import torch
        >>> from lexergy import TwoTowerModel
        >>> from lexergy.models.cloze.bodies import BodyShape
        >>> shape = BodyShape(vocab_size=20, hidden_size=16, num_layers=1, num_heads=2, max_length=8)
        >>> towers = TwoTowerModel.from_shape(shape, seed=0)
        >>> row = torch.tensor([[0, 5, 6, 7, 0]])  # three tokens between two ends
        >>> log_prob = towers(row).logits.log_softmax(-1)  # of every token at each of the three places
        >>> log_prob.shape
        torch.Size([1, 3, 20])
    """

    config_class = TwoTowerConfig
    is_causal = True
    num_bodies = 2

    def forward(
        self,
        input_ids: Tensor,  # (B, n + 2)
        attention_mask: Tensor | None = None,  # (B, n + 2), False on the padding behind shorter rows
        **kwargs: Any,
    ) -> ModelOutput:  # logits (B, n, V)
        embedded = self.inwards(self.embeddings(input_ids))  # (B, n + 2, width)
        left_to_right, right_to_left = self.bodies
        left = left_to_right(inputs_embeds=embedded).last_hidden_state
        right = right_to_left(inputs_embeds=_turned(embedded, attention_mask)).last_hidden_state
        right = _turned(right, attention_mask)
        states = torch.cat([left[:, :-2], right[:, 2:]], dim=-1)  # of t - 1 and t + 1: (B, n, 2 width)
        return ModelOutput(logits=self._logits(states))


def _turned(states: Tensor, attention_mask: Tensor | None) -> Tensor:  # (B, L, D), (B, L) -> (B, L, D)
    """Each row in the other order, its padding left behind it, where a causal tower does not see it."""
    if attention_mask is None:
        return states.flip(1)
    length = states.shape[1]
    places = (attention_mask.sum(1, keepdim=True) - 1 - torch.arange(length, device=states.device)) % length  # (B, L)
    return states.gather(1, places.unsqueeze(-1).expand_as(states))


class MaskedGenerator(Generator):
    """ELECTRA's generator: a small masked LM (Clark et al. 2020, "ELECTRA").

    As with the two-tower model, the distribution is that of the n tokens between the two at the ends.
    """

    config_class = MaskedGeneratorConfig

    def forward(self, input_ids: Tensor, **kwargs: Any) -> ModelOutput:  # (B, n + 2) -> logits (B, n, V)
        embedded = self.inwards(self.embeddings(input_ids))
        states = self.bodies[0](inputs_embeds=embedded).last_hidden_state
        return ModelOutput(logits=self._logits(states[:, 1:-1]))
