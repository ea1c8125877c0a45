"""Pre-train cloze models on packed text: Electric, ELECTRA, the two-tower model, the masked LM, on the same tokens."""

from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from lexergy.core.cloze_nce import num_noise_positions
from lexergy.data.corpora import Document, load_corpus
from lexergy.data.lists.librispeech import librispeech_nbest
from lexergy.data.lists.nbest import load_nbest
from lexergy.data.overlap import without_overlap, word_ngrams
from lexergy.data.splits import Splits, split_documents
from lexergy.errors import LexergyError
from lexergy.files import atomic_path, reading
from lexergy.models.architectures.scratch import MaskedModel, build_masked_lm
from lexergy.models.cloze import ElectricModel, MaskedGenerator, TwoTowerModel
from lexergy.models.cloze.bodies import BodyShape
from lexergy.models.cloze.pair import NoisePair
from lexergy.models.cloze.transfer import token_vectors, transferred_vectors
from lexergy.models.energies.backbones import Backbone, encoder_backbone
from lexergy.models.loading.tokenizer import load_tokenizer, train_tokenizer
from lexergy.models.loading.weights import load_weights
from lexergy.models.scoring.frequencies import log_frequencies, save_frequencies
from lexergy.recipes.cloze import ClozeModelRecipe, PretrainingRecipe
from lexergy.runs.fingerprint import fingerprint
from lexergy.runs.stages import Facts, Stage, stage_seed
from lexergy.runs.workspace import OpenStage, Workspace, open_workspace
from lexergy.training.objectives.cloze import NoiseDetection
from lexergy.training.objectives.contrastive import Objective
from lexergy.training.objectives.language import MaskedLanguageModelling, TwoTowerModelling
from lexergy.training.stage import seeded, train_into

LIBRISPEECH = "librispeech-nbest"
DOCUMENTS_AT_ONCE = 10_000
TOKENS_FILE = "tokens.safetensors"
NOISE_FOLDER = "noise"
ENDS = 2  # tokens of context around a block


@dataclass(frozen=True)
class PretrainResult:
    """The folder of each model, which `save_pretrained` wrote, and how its training went."""

    folder: Path
    tokens: dict[str, int]
    models: dict[str, Stage]


def pretrain(recipe: PretrainingRecipe, folder: str | Path, *, progress: bool = True) -> PretrainResult:
    """Bring the models in `folder` up to date with the recipe; a killed training goes on where it was.

    Examples:
        >>> from lexergy import PretrainingRecipe, load_scorer, pretrain
        >>> from lexergy.testing import write_tiny_corpus
        >>> training = {"learning_rate": 0.01, "max_steps": 3, "batch_size": 4}
        >>> shape = {"hidden_size": 16, "num_layers": 1, "num_heads": 2, "training": training}
        >>> recipe = PretrainingRecipe.model_validate(
        ...     {
        ...         "name": "tiny",
        ...         "corpus": {"sources": [str(write_tiny_corpus("texts"))], "validation": 0.2, "test": 0.2},
        ...         "tokenizer": {"vocab_size": 300},
        ...         "block_length": 8,
        ...         "models": {"two-tower": {"kind": "two-tower", **shape}},
        ...     }
        ... )
        >>> result = pretrain(recipe, "runs/tiny", progress=False)
        >>> load_scorer(result.models["two-tower"].folder).kind
        'two-tower PLL'
    """
    with open_workspace(folder, recipe.seed, progress=progress) as workspace:
        return _Pretraining(recipe, workspace).all_stages()


@dataclass(frozen=True)
class _Pretraining:
    recipe: PretrainingRecipe
    workspace: Workspace

    def all_stages(self) -> PretrainResult:
        tokenizer = self.workspace.stage("tokenizer", self._text_settings(), [], self._tokenizer_into)
        tokens = self.workspace.stage("tokens", {}, [tokenizer], self._tokens_into)
        models: dict[str, Stage] = {}
        for name, model in self.recipe.models.items():
            settings = {
                "model": model.model_dump(mode="json"),
                "block_length": self.recipe.block_length,
                "validation_blocks": self.recipe.validation_blocks,
            }
            inputs = [tokens] if model.noise is None else [tokens, models[model.noise.model]]
            models[name] = self.workspace.stage(name, settings, inputs, partial(self._model_into, model), together=True)
        return PretrainResult(self.workspace.folder, tokens.facts["tokens"], models)

    def _text_settings(self) -> Facts:
        corpus = self.recipe.corpus
        return {
            "corpus": corpus.model_dump(mode="json"),
            "content": [fingerprint(source) for source in corpus.sources],
            "apart_from": None if corpus.apart_from is None else fingerprint(corpus.apart_from),
            "tokenizer": self.recipe.tokenizer.model_dump(mode="json"),
        }

    @cached_property
    def _text(self) -> tuple[Splits, int]:
        """The documents, split, and how many lines were left out for their overlap with the test text."""
        corpus = self.recipe.corpus
        documents: list[Document] = []
        for source in corpus.sources:
            loaded = load_corpus(source, text_field=corpus.text_field)
            documents += [replace(document, id=f"{source} {document.id}") for document in loaded]
        removed = 0
        if corpus.apart_from is not None:
            documents, removed = without_overlap(documents, word_ngrams(_references(corpus.apart_from)))
        seed = stage_seed(self.recipe.seed, "split")
        return split_documents(documents, validation=corpus.validation, test=corpus.test, seed=seed), removed

    @cached_property
    def tokenizer(self) -> Any:
        return load_tokenizer(self.workspace.folder / "tokenizer" / "bpe")

    @cached_property
    def tokens(self) -> dict[str, Tensor]:
        path = self.workspace.folder / "tokens" / TOKENS_FILE
        with reading(path):
            return load_file(path)

    @cached_property
    def frequencies(self) -> Tensor:  # (V,), in log space
        return log_frequencies(self.tokens["train"], len(self.tokenizer))

    def _tokenizer_into(self, stage: OpenStage) -> Facts:
        splits, removed = self._text
        settings = self.recipe.tokenizer
        texts = (document.text for document in splits.train)
        trained = train_tokenizer(texts, settings.vocab_size, stage.folder / "bpe", spoken=settings.spoken)
        return {"vocab_size": len(trained), "documents": len(splits.train), "overlapping_lines_removed": removed}

    def _tokens_into(self, stage: OpenStage) -> Facts:
        """Each split's documents one after the other, end-of-text after each, as one stream (T,)."""
        splits, _ = self._text
        streams = {name: self._stream(getattr(splits, name)) for name in ("train", "validation", "test")}
        with atomic_path(stage.folder / TOKENS_FILE) as partial:
            save_file(streams, partial)
        return {"tokens": {name: len(stream) for name, stream in streams.items()}}

    def _stream(self, documents: list[Document]) -> Tensor:
        parts = [np.array([self.tokenizer.eos_token_id], dtype=np.int32)]
        for start in range(0, len(documents), DOCUMENTS_AT_ONCE):
            texts = [document.text for document in documents[start : start + DOCUMENTS_AT_ONCE]]
            encoded = self.tokenizer(texts, add_special_tokens=False, return_attention_mask=False, verbose=False)
            parts += [np.array([*ids, self.tokenizer.eos_token_id], dtype=np.int32) for ids in encoded["input_ids"]]
        return torch.from_numpy(np.concatenate(parts))

    def _model_into(self, recipe: ClozeModelRecipe, stage: OpenStage) -> Facts:
        model = self._build(recipe, stage.seed)
        kept = model.model if isinstance(model, NoisePair) else model

        def save(folder: Path) -> None:
            kept.save_pretrained(folder)
            self.tokenizer.save_pretrained(folder)
            save_frequencies(folder, self.frequencies)
            if isinstance(model, NoisePair):
                model.noise.save_pretrained(folder / NOISE_FOLDER)

        training = seeded(recipe.training, stage)
        facts = train_into(stage, model, self._objective(recipe), training, save=save, label=stage.name)
        return {
            "kind": recipe.kind,
            **facts,
            "parameters": kept.num_parameters(),  # its noise's are its own
            "tokens_seen": facts["steps"] * training.examples_per_step * self.recipe.block_length,
        }

    def _build(self, recipe: ClozeModelRecipe, seed: int) -> NoisePair | TwoTowerModel | MaskedModel:
        shape = BodyShape(
            vocab_size=len(self.tokenizer),
            hidden_size=recipe.hidden_size,
            num_layers=recipe.num_layers,
            num_heads=recipe.num_heads,
            max_length=self.recipe.block_length + ENDS,
            architecture=recipe.architecture,
            feed_forward_size=recipe.feed_forward_size,
            dropout=recipe.dropout,
        )
        start_distribution = self.frequencies if recipe.start == "unigram" else None
        if recipe.kind == "two-tower":
            return TwoTowerModel.from_shape(shape, seed, start_distribution=start_distribution)
        if recipe.kind == "masked-lm":
            return build_masked_lm(
                shape.vocab_size,
                shape.hidden_size,
                shape.num_layers,
                shape.num_heads,
                shape.max_length,
                seed,
                shape.dropout,
                mask_token=self.tokenizer.mask_token_id,
                feed_forward_size=shape.feed_forward_size,
            )
        energies = self._energies(recipe, shape, seed, start_distribution)
        if recipe.noise is not None:
            towers = load_weights(TwoTowerModel, self.workspace.folder / recipe.noise.model)
            return NoisePair(energies, towers, finished=True)
        noise_kind = MaskedGenerator if recipe.kind == "electra" else TwoTowerModel
        noise = noise_kind.from_shape(
            shape.scaled(recipe.noise_scale),
            stage_seed(seed, "noise"),
            embedding_size=shape.hidden_size,
            start_distribution=start_distribution,
        )
        return NoisePair(energies, noise)

    def _energies(
        self, recipe: ClozeModelRecipe, shape: BodyShape, seed: int, start_distribution: Tensor | None
    ) -> ElectricModel:
        """Electric, or ELECTRA's classifier: from a pretrained encoder, or untrained."""
        is_electric = recipe.kind == "electric"
        share = num_noise_positions(self.recipe.block_length) / self.recipe.block_length
        head: dict[str, Any] = {
            "noise_share": None if is_electric else share,
            "neighbours": recipe.neighbours,
            "residual": recipe.residual,
            "start_distribution": start_distribution if is_electric and not recipe.residual else None,
        }
        if recipe.encoder is None:
            return ElectricModel.from_shape(shape, seed, **head)
        backbone = encoder_backbone(recipe.encoder)
        assert backbone.tokenizer is not None
        _check_fits(recipe, backbone)
        vectors = transferred_vectors(token_vectors(backbone.model).detach(), backbone.tokenizer, self.tokenizer)
        return ElectricModel.from_encoder(backbone.model, vectors, recipe.num_layers, seed, **head)

    def _objective(self, recipe: ClozeModelRecipe) -> Objective:
        train_tokens, validation = self.tokens["train"], self.tokens["validation"]
        blocks = self.recipe.validation_blocks
        if recipe.kind == "two-tower":
            return TwoTowerModelling(train_tokens, validation, self.recipe.block_length, validation_blocks=blocks)
        mask_token = self.tokenizer.mask_token_id
        if recipe.kind == "masked-lm":
            return MaskedLanguageModelling(
                train_tokens,
                validation,
                self.recipe.block_length + ENDS,
                mask_token=mask_token,
                vocab_size=len(self.tokenizer),
                validation_blocks=blocks,
            )
        return NoiseDetection(
            train_tokens,
            validation,
            self.recipe.block_length,
            classifier="electric" if recipe.kind == "electric" else "electra",
            residual=recipe.residual,
            mask_token=mask_token if recipe.kind == "electra" else None,
            frequencies=self.frequencies,
            rising_steps=0 if recipe.noise is None else recipe.noise.rising_steps,
            validation_blocks=blocks,
        )


def _check_fits(recipe: ClozeModelRecipe, encoder: Backbone) -> None:
    """The recipe's width is the encoder's; so are its heads, where no noise is built that would have them."""
    checked = {"hidden_size": encoder.model.config.hidden_size}
    if recipe.noise is not None:
        checked["num_heads"] = encoder.model.config.num_attention_heads
    for key, expected in checked.items():
        if getattr(recipe, key) != expected:
            raise LexergyError(
                f"`{key}` is {getattr(recipe, key)} and that of the encoder '{recipe.encoder}' {expected}; "
                "expected the same."
            )


def _references(source: str) -> list[str]:
    paths = librispeech_nbest().values() if source == LIBRISPEECH else [Path(source)]
    utterances = [utterance for path in paths for utterance in load_nbest(path)]
    return [utterance.reference for utterance in utterances if utterance.reference is not None]
