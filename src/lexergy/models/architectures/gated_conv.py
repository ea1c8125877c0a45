"""A gated convolutional language model (Dauphin et al. 2017), as any other model of transformers."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel
from transformers import initialization as init
from transformers.modeling_outputs import ModelOutput

EMBEDDING_STD = 0.1
HALF = math.sqrt(0.5)  # keeps the variance of a residual sum


class GatedConvConfig(PreTrainedConfig):
    """`num_hidden_layers` convolutions of `kernel_size` tokens each; `embedding_size` None: as wide as the layers."""

    model_type = "lexergy_gated_conv"

    vocab_size: int = 50257
    embedding_size: int | None = None
    hidden_size: int = 1250
    num_hidden_layers: int = 12
    kernel_size: int = 4
    dropout: float = 0.0
    tie_word_embeddings: bool = False


class GatedConvMemory:
    """The last `kernel_size` - 1 inputs of each layer, changed in place: all that the next token needs."""

    def __init__(self, inputs: list[Tensor]) -> None:
        self.inputs = inputs  # per layer (N, k - 1, D)

    @classmethod
    def empty(cls, config: GatedConvConfig, like: Tensor) -> "GatedConvMemory":
        """Zeros, which stand before every text."""
        zeros = like.new_zeros(like.shape[0], config.kernel_size - 1, config.hidden_size)
        return cls([zeros] * config.num_hidden_layers)

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Each row so often, as transformers' own caches do it."""
        self.inputs = [inputs.repeat_interleave(repeats, 0) for inputs in self.inputs]

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Row r goes on from row `beam_idx[r]`, as transformers' own caches do it."""
        self.inputs = [inputs[beam_idx] for inputs in self.inputs]


@dataclass
class GatedConvOutput(ModelOutput):
    """Under the names that transformers' recurrent models use."""

    logits: Tensor | None = None  # (N, L, V)
    last_hidden_state: Tensor | None = None  # (N, L, D)
    hidden_states: tuple[Tensor, ...] | None = None  # per layer (N, L, D), the projected embeddings first
    cache_params: GatedConvMemory | None = None


class Convolution(nn.Linear):
    """A convolution as a linear layer on k tokens at a time, the oldest first: (N, k - 1 + L, D) -> (N, L, 2 D).

    For one new token nn.Conv1d takes five times as long on a CPU; for many, as long.
    """

    def __init__(self, width: int, kernel_size: int) -> None:
        super().__init__(kernel_size * width, 2 * width)
        self.kernel_size = kernel_size

    def forward(self, inputs: Tensor) -> Tensor:
        length = inputs.shape[1] - self.kernel_size + 1
        shifted = [inputs[:, start : start + length] for start in range(self.kernel_size)]
        return super().forward(torch.cat(shifted, -1))  # of (N, L, k D)


class GatedConvLayer(nn.Module):
    """h' = (h + (h * W + b) . sigma(h * V + c)) / sqrt(2): a gated linear unit over the last k tokens (Eq. 1)."""

    def __init__(self, config: GatedConvConfig) -> None:
        super().__init__()
        self.convolution = Convolution(config.hidden_size, config.kernel_size)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, states: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
        """States (N, L, D) and the k - 1 inputs before them -> new states, and the last k - 1 inputs."""
        inputs = torch.cat((before, self.dropout(states)), 1)  # (N, k - 1 + L, D)
        gated = nn.functional.glu(self.convolution(inputs))  # (N, L, D)
        return (states + gated) * HALF, inputs[:, inputs.shape[1] - before.shape[1] :]


class GatedConvPreTrained(PreTrainedModel):
    config: GatedConvConfig
    config_class = GatedConvConfig
    base_model_prefix = "model"

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Variances that keep the size of the states from layer to layer, a GLU's gate being open by half."""
        kept = 1 - self.config.dropout
        if isinstance(module, nn.Embedding):
            init.normal_(module.weight, std=EMBEDDING_STD)
        elif isinstance(module, nn.Linear):
            gain = 4 if isinstance(module, Convolution) else 1
            init.normal_(module.weight, std=math.sqrt(gain * kept / module.in_features))
            init.zeros_(module.bias)


class GatedConvModel(GatedConvPreTrained):
    """Embeddings, projected to the width of the layers, and the layers. Weight normalisation, which served the paper's
    training by momentum, is left out."""

    def __init__(self, config: GatedConvConfig) -> None:
        super().__init__(config)
        embedding_size = config.embedding_size or config.hidden_size
        self.embed_tokens = nn.Embedding(config.vocab_size, embedding_size)
        self.project_in = nn.Linear(embedding_size, config.hidden_size)
        self.layers = nn.ModuleList(GatedConvLayer(config) for _ in range(config.num_hidden_layers))
        self.dropout = nn.Dropout(config.dropout)
        self.post_init()

    def forward(
        self,
        input_ids: Tensor | None = None,  # (N, L)
        inputs_embeds: Tensor | None = None,  # (N, L, E)
        cache_params: GatedConvMemory | None = None,
        use_cache: bool = False,
        output_hidden_states: bool = False,
        **kwargs: Any,  # what attention models are told, such as masks
    ) -> GatedConvOutput:
        embedded = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        states = self.project_in(self.dropout(embedded))  # (N, L, D)
        memory = GatedConvMemory.empty(self.config, states) if cache_params is None else cache_params
        seen, left = [states], []
        for layer, before in zip(self.layers, memory.inputs, strict=True):
            states, last = layer(states, before)
            seen.append(states)
            left.append(last)
        memory.inputs = left
        return GatedConvOutput(
            last_hidden_state=states,
            hidden_states=tuple(seen) if output_hidden_states else None,
            cache_params=memory if use_cache else None,
        )


class GatedConvForCausalLM(GatedConvPreTrained):
    """The layers, projected back to the width of the embeddings, and an output layer of its own."""

    def __init__(self, config: GatedConvConfig) -> None:
        super().__init__(config)
        self.model = GatedConvModel(config)
        embedding_size = config.embedding_size or config.hidden_size
        self.project_out = nn.Linear(config.hidden_size, embedding_size)
        self.lm_head = nn.Linear(embedding_size, config.vocab_size)
        self.dropout = nn.Dropout(config.dropout)
        self.post_init()

    def forward(self, input_ids: Tensor | None = None, logits_to_keep: int = 0, **kwargs: Any) -> GatedConvOutput:
        """Logits of the last `logits_to_keep` tokens (0: of all)."""
        output = self.model(input_ids, **kwargs)
        states = self.project_out(output.last_hidden_state[:, -logits_to_keep:])  # (N, L, E)
        output.logits = self.lm_head(self.dropout(states))
        return output


AutoConfig.register(GatedConvConfig.model_type, GatedConvConfig)
AutoModel.register(GatedConvConfig, GatedConvModel)
AutoModelForCausalLM.register(GatedConvConfig, GatedConvForCausalLM)
