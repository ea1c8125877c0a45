"""Autoregressive baselines of the residual EBM: LMs that read n-gram tables, and the product of two LMs (RALM)."""

import copy
import json
from dataclasses import asdict
from pathlib import Path
from typing import Self, cast

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput

from lexergy.errors import LexergyError
from lexergy.files import reading
from lexergy.models.architectures.initialisation import initialised_from
from lexergy.models.architectures.ngram_tables import NgramEmbedding, NgramTables
from lexergy.models.architectures.scratch import build_causal_lm
from lexergy.models.causal.lm import CausalLM
from lexergy.models.loading.bars import without_bars
from lexergy.models.loading.weights import load_causal_lm
from lexergy.recipes.residual import BalmRecipe, RalmRecipe
from lexergy.recipes.sections.shapes import CausalShapeRecipe

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

    @without_bars()
    def save_pretrained(self, folder: str | Path) -> None:
        """Write the model, and the tables beside it, as safetensors."""
        self.model.save_pretrained(folder)
        own = {name: value for name, value in self.state_dict().items() if not name.startswith("model.")}
        settings = json.dumps(asdict(self.ngrams.settings))
        weights = {name: value.contiguous() for name, value in own.items()}
        save_file(weights, Path(folder) / NGRAM_FILE, metadata={SETTINGS_KEY: settings})

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> Self:
        """Read it back, ready to score."""
        model = load_causal_lm(str(folder)).model
        path = Path(folder) / NGRAM_FILE
        with reading(path), safe_open(path, "pt") as file:
            settings = json.loads(file.metadata()[SETTINGS_KEY])
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
            lm = cls(model, NgramTables(**settings))
            missing = [name for name in lm.state_dict() if not name.startswith("model.") and name not in weights]
            if missing:
                raise LexergyError(f"`{path}` has no {missing[0]}; copy the folder again or train again.")
            lm.load_state_dict(weights, strict=False)
        return lm.eval()


class ProductLM(nn.Module):
    """RALM: the product of a frozen LM and one to train, normalised over the vocabulary at every position.

    log P(x_t | x_<t) = log P_LM(x_t | x_<t) + log P_phi(x_t | x_<t) + const (Eq. 6, Deng et al. 2020). The sum
    of the logits has this distribution after a softmax: what a log-softmax would take off is part of the constant.
    """

    def __init__(self, lm: "PreTrainedModel | FrozenLogits", residual: PreTrainedModel | NgramLM) -> None:
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

    @without_bars()
    def save_pretrained(self, folder: str | Path) -> None:
        """Write the LM that was trained; the frozen one stays where it is."""
        self.residual.save_pretrained(folder)


class FrozenLogits(nn.Module):
    """The logits of a frozen LM in its own precision, where that is not its weights'."""

    def __init__(self, lm: CausalLM) -> None:
        super().__init__()
        self.model = lm.model
        self._lm = (lm,)

    def forward(self, input_ids: Tensor) -> CausalLMOutput:  # (B, L) -> logits (B, L, V)
        (lm,) = self._lm
        return CausalLMOutput(logits=lm.reader().read(input_ids).logits.clone())


def frozen_logits(lm: CausalLM) -> PreTrainedModel | FrozenLogits:
    """The LM as one factor of a product."""
    return lm.model if lm.precision == "float32" else FrozenLogits(lm)


def make_baseline(
    recipe: RalmRecipe | BalmRecipe, lm: CausalLM, length: int, seed: int
) -> PreTrainedModel | NgramLM | ProductLM:
    """The baseline before its training. It holds a copy of the LM: training may move it to another device."""
    shape = recipe if isinstance(recipe, BalmRecipe) else recipe.shape
    model: PreTrainedModel
    if shape is not None:
        sizes = shape.model_dump(include=set(CausalShapeRecipe.model_fields))
        model = build_causal_lm(lm.vocab_size, **sizes, max_length=length, seed=seed)
    elif isinstance(recipe, RalmRecipe) and recipe.origin == "lm":
        model = copy.deepcopy(lm.model).requires_grad_(True)
    else:
        with initialised_from(seed):
            model = AutoModelForCausalLM.from_config(lm.model.config)
    tables = recipe.ngram_tables
    trained = model if tables is None else NgramLM(model, NgramTables(**tables.model_dump()), seed)
    return trained if isinstance(recipe, BalmRecipe) else ProductLM(copy.deepcopy(frozen_logits(lm)), trained)


def num_parameters(model: nn.Module) -> int:
    """All weights, frozen ones too, tied ones once."""
    return sum(weight.numel() for weight in model.parameters())
