"""The pseudo-log-likelihood of texts by Electric, and by ELECTRA with its two-tower generator."""

from pathlib import Path

from torch import Tensor
from transformers import PreTrainedTokenizerBase

from lexergy.core.cloze_nce import electra_log_prob
from lexergy.errors import LexergyError
from lexergy.models.cloze import ElectricModel, TwoTowerModel
from lexergy.models.loading.devices import device_of, tokens_at_once
from lexergy.models.loading.sources import model_type_of
from lexergy.models.loading.tokenizer import load_tokenizer, text_ends
from lexergy.models.scoring.frequencies import load_frequencies
from lexergy.models.scoring.scorer import Scorer, max_length_of
from lexergy.models.scoring.source import ModelSource, load_model
from lexergy.models.scoring.two_tower import two_tower_log_prob

NOISE_FOLDER = "noise"


def matches(source: ModelSource) -> bool:
    return source.model_type == ElectricModel.config_class.model_type


def load(source: ModelSource) -> Scorer:
    model = load_model(ElectricModel, source.folder)
    generator = None if model.config.is_synthetic else _two_tower_generator(source.folder)
    scorer = electric_scorer(model, load_tokenizer(source.folder), generator)
    scorer.frequencies = load_frequencies(source.folder)
    return scorer


def _two_tower_generator(folder: Path) -> TwoTowerModel:
    """The generator without which ELECTRA's classifier, or a residual energy, is no distribution of tokens."""
    noise = folder / NOISE_FOLDER
    if model_type_of(noise) != TwoTowerModel.config_class.model_type:
        raise LexergyError(
            f"'{folder}' holds an ELECTRA without a two-tower generator in '{NOISE_FOLDER}'; expected an ELECTRA-TT or "
            "an Electric: the distribution of a masked generator is known at masks only."
        )
    return load_model(TwoTowerModel, noise)


def electric_scorer(
    model: ElectricModel, tokenizer: PreTrainedTokenizerBase, generator: TwoTowerModel | None = None
) -> Scorer:
    """-E of each token, in one pass; with the `generator` of an ELECTRA-TT or a residual Electric, log p^ of both."""
    share = model.config.noise_share

    def token_scores(rows: Tensor, is_token: Tensor) -> Tensor:
        rows, is_token = rows.to(device_of(model)), is_token.to(device_of(model))
        energies = model(rows, is_token).energies[:, 1:-1]
        if generator is None:
            return -energies.cpu()
        noise_log_prob = two_tower_log_prob(generator, rows, is_token)
        if share is None:
            return noise_log_prob - energies.cpu()
        return electra_log_prob(energies.cpu(), noise_log_prob, share)

    kind = "Electric PLL" if share is None else "ELECTRA-TT PLL"
    start, end = text_ends(tokenizer)
    passes = "1" if generator is None else "1 + generator"
    return Scorer(
        kind,
        tokenizer,
        token_scores,
        edges=([start], [end]),
        max_length=max_length_of(tokenizer, model.encoder, *([] if generator is None else generator.bodies)),
        passes=passes,
        tokens_at_once=tokens_at_once(model),
        networks=(model,) if generator is None else (model, generator),
    )
