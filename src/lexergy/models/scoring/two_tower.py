"""The pseudo-log-likelihood of texts by a two-tower cloze model."""

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from lexergy.models.causal.log_probs import pick_log_prob, rows_at_once
from lexergy.models.cloze import TwoTowerModel
from lexergy.models.loading.devices import device_of, tokens_at_once
from lexergy.models.loading.tokenizer import load_tokenizer, text_ends
from lexergy.models.scoring.frequencies import load_frequencies
from lexergy.models.scoring.scorer import Scorer, max_length_of
from lexergy.models.scoring.source import ModelSource, load_model


def matches(source: ModelSource) -> bool:
    return source.model_type == TwoTowerModel.config_class.model_type


def load(source: ModelSource) -> Scorer:
    # The noise of an Electric lies in its folder, and its tokenizer beside that.
    beside = source.folder if (source.folder / "tokenizer_config.json").is_file() else source.folder.parent
    scorer = two_tower_scorer(load_model(TwoTowerModel, source.folder), load_tokenizer(beside))
    scorer.frequencies = load_frequencies(beside)
    return scorer


def two_tower_scorer(model: TwoTowerModel, tokenizer: PreTrainedTokenizerBase) -> Scorer:
    """log q(x_t | x_\\t) of each token, in one pass of the two towers."""
    start, end = text_ends(tokenizer)
    return Scorer(
        "two-tower PLL",
        tokenizer,
        lambda rows, is_token: two_tower_log_prob(model, rows, is_token),
        edges=([start], [end]),
        max_length=max_length_of(tokenizer, model.bodies[0]),
        tokens_at_once=tokens_at_once(model),
        networks=(model,),
    )


def two_tower_log_prob(model: TwoTowerModel, rows: Tensor, is_token: Tensor) -> Tensor:  # (B, n + 2) each -> (B, n)
    """log q of what is between the ends of rows."""
    rows, is_token = rows.to(device_of(model)), is_token.to(device_of(model))
    few = rows_at_once(rows.shape[1], model.config.body["vocab_size"], torch.float32)
    parts = []
    for chunk, own in zip(rows.split(few), is_token.split(few), strict=True):
        parts.append(pick_log_prob(model(chunk, own).logits, chunk[:, 1:-1], torch.float32).cpu())
    return torch.cat(parts)
