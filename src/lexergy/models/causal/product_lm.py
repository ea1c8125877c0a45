"""Autoregressive baselines of the residual EBM: LMs that read n-gram tables, and the product of two LMs (RALM)."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import cast

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput

from lexergy.models.architectures.initialisation import initialised_from
from lexergy.models.architectures.ngram_tables import NgramEmbedding, NgramTables
from lexergy.models.loading.weights import load_causal_lm

NGRAM_FILE = "ngram_tables.safetensors"
SETTINGS_KEY = "lexergy.ngram_tables"


class NgramLM(nn.Module):
    """A causal LM that reads the n-grams ending at each token, as `TransformerEnergy` does.

    Their vectors n_t are added to the embeddings and to the last states: logits_t = W (h_t(e + A n) + B n_t).
    A = B = 0 at the start, so that a trained model starts as itself.
    """

    def __init__(self, model: PreTrainedModel, tables: NgramTables, seed: int = 0) -> None:
        super().__init__()
        self.model = model
        # OPT's states leave its body as wide as its embeddings, whatever the width inside.
        width = cast(nn.Linear, model.get_output_embeddings()).in_features
        embedding = cast(nn.Embedding, model.get_input_embeddings())
        with initialised_from(seed):
            self.ngrams = NgramEmbedding(tables)
            self.ngram_input = nn.Linear(tables.size, embedding.embedding_dim, bias=False)
            self.ngram_output = nn.Linear(tables.size, width, bias=False)
        nn.init.zeros_(self.ngram_input.weight)
        nn.init.zeros_(self.ngram_output.weight)

    def forward(self, input_ids: Tensor) -> CausalLMOutput:  # (B, L) -> logits (B, L, V)
        ngrams = self.ngrams(input_ids)  # (B, L, T)
        embeddings = self.model.get_input_embeddings()(input_ids) + self.ngram_input(ngrams)  # (B, L, E)
        states = self.model.base_model(inputs_embeds=embeddings, use_cache=False).last_hidden_state
        return CausalLMOutput(logits=self.model.get_output_embeddings()(states + self.ngram_output(ngrams)))

    def tables_state(self) -> dict[str, Tensor]:
        """What is not in the model itself."""
        return {name: value for name, value in self.state_dict().items() if not name.startswith("model.")}


class ProductLM(nn.Module):
    """RALM: the product of a frozen LM and one to train, normalised over the vocabulary at every position.

    log P(x_t | x_<t) = log P_LM(x_t | x_<t) + log P_phi(x_t | x_<t) + const (Eq. 6, Deng et al. 2020). The sum
    of the logits has this law after a softmax: what a log-softmax would take off is part of the constant.
    """

    def __init__(self, lm: PreTrainedModel, residual: PreTrainedModel | NgramLM) -> None:
        super().__init__()
        self.lm = lm.eval().requires_grad_(False)
        self.residual = residual

    def train(self, mode: bool = True) -> "ProductLM":
        super().train(mode)
        self.lm.eval()  # frozen: without dropout too
        return self

    def forward(self, input_ids: Tensor) -> CausalLMOutput:  # (B, L) -> logits (B, L, V)
        with torch.no_grad():
            frozen = self.lm(input_ids=input_ids).logits
        return CausalLMOutput(logits=frozen + self.residual(input_ids=input_ids).logits)


def save_lm(lm: PreTrainedModel | NgramLM, folder: str | Path) -> None:
    """Write an LM, and its n-gram tables beside it, as safetensors."""
    model = lm.model if isinstance(lm, NgramLM) else lm
    model.save_pretrained(folder)
    if isinstance(lm, NgramLM):
        settings = json.dumps(asdict(lm.ngrams.settings))
        weights = {name: value.contiguous() for name, value in lm.tables_state().items()}
        save_file(weights, Path(folder) / NGRAM_FILE, metadata={SETTINGS_KEY: settings})


def load_lm(folder: str | Path) -> PreTrainedModel | NgramLM:
    """Read what `save_lm` wrote, ready to score."""
    model = load_causal_lm(str(folder)).model
    path = Path(folder) / NGRAM_FILE
    if not path.exists():
        return model.eval()
    with safe_open(path, "pt") as file:  # whole: loading the model checked all weights of the folder
        settings = json.loads(file.metadata()[SETTINGS_KEY])
        weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    lm = NgramLM(model, NgramTables(**settings))
    lm.load_state_dict(weights, strict=False)
    return lm.eval()


def num_parameters(model: nn.Module) -> int:
    """All weights, frozen ones too, tied ones once."""
    return sum(weight.numel() for weight in model.parameters())
