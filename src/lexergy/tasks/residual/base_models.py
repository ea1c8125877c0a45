"""The stages that bring text and base models: tokenizer, windows, LM, masked LM."""

import hashlib
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lexergy.data.windows import Windows, make_windows
from lexergy.errors import LexergyError
from lexergy.models.architectures.initialisation import initialised_from
from lexergy.models.architectures.lora import Lora, add_lora, merge_lora
from lexergy.models.architectures.scratch import build_causal_lm, build_masked_lm
from lexergy.models.causal.language_model import LanguageModel
from lexergy.models.causal.lm import CausalLM, weights_of
from lexergy.models.loading.tokenizer import train_tokenizer
from lexergy.models.remote.opening import open_lm
from lexergy.recipes.sections.base_models import FinetuneRecipe, MaskedLMRecipe, TrainedLMRecipe
from lexergy.runs.processes import is_main_process, meet
from lexergy.runs.stages import Facts, stage_seed
from lexergy.runs.workspace import OpenStage
from lexergy.tasks.residual.context import SPLITS, TOKENIZER_FOLDER, RunContext
from lexergy.training.objectives.language import LanguageModelling, MaskedLanguageModelling
from lexergy.training.stage import seeded, train_into

EVALUATION_LOGITS = 2**26  # at once, when an LM with a large vocabulary is evaluated


def build_tokenizer(context: RunContext, stage: OpenStage) -> Facts:
    """Train a tokenizer on the training documents."""
    trained = _trained_lm(context)
    texts = [document.text for document in context.splits.train]
    tokenizer = train_tokenizer(texts, trained.vocab_size, stage.folder / TOKENIZER_FOLDER)
    return {"vocab_size": len(tokenizer)}


def build_windows(context: RunContext, stage: OpenStage) -> Facts:
    """Cut each split's documents into windows; keep at most as many as the recipe says, drawn at random."""
    facts: Facts = {"documents": {}, "windows": {}, "digests": {}}
    for split in SPLITS:
        documents = context.window_documents[split]
        windows = cut_windows(context, split)
        limit = getattr(context.recipe.windows, split)
        if limit is not None and limit < len(windows):
            windows = windows.sample(limit, stage_seed(context.recipe.split_seed, "windows"))
        windows.save(stage.folder / f"{split}.parquet")
        facts["documents"][split] = len(documents)
        facts["windows"][split] = len(windows)
        facts["digests"][split] = _digest(windows, context.end_token)
    return facts


def cut_windows(context: RunContext, split: str) -> Windows:
    """All windows of a split's documents, of which a run keeps some."""
    recipe, documents = context.recipe.windows, context.window_documents[split]
    try:
        return make_windows(
            context.encode(documents),
            [document.id for document in documents],
            prefix_length=recipe.prefix,
            continuation_length=recipe.continuation,
            stride=recipe.stride,
            end_token=context.end_token,
        )
    except LexergyError as error:
        raise LexergyError(f"{split} documents of {context.recipe.corpus.source}: {error}") from None


def _digest(windows: Windows, end_token: int | None) -> str:
    """A hash of the windows' tokens, and of what ends them: what later stages are built from."""
    ends = "" if end_token is None else f" {end_token}"
    shape = f"{tuple(windows.tokens.shape)} {windows.prefix_length}{ends}".encode()
    return hashlib.sha256(shape + windows.tokens.numpy().tobytes()).hexdigest()[:16]


def refer_to_lm(context: RunContext, stage: OpenStage) -> Facts:
    """Note where the finished LM is found; its weights stay where they are."""
    lm = _finished_lm(context)
    lm.save_pretrained(stage.folder)
    known = {"parameters": lm.model.num_parameters()} if isinstance(lm, CausalLM) else {}
    return {**known, "forbidden_tokens": len(lm.forbidden_tokens)}


def finetune_lm(context: RunContext, stage: OpenStage) -> Facts:
    """Train the finished LM further on the training documents, and keep it as a model like any other.

    The adapters are merged into the weights, so that sampling costs what it did. Tokens that were forbidden
    stay so; end-of-text parts documents in training, where the tokenizer has one.
    """
    assert context.recipe.lm.finetune is not None
    return train_further(context, weights_of(_finished_lm(context)), context.recipe.lm.finetune, stage, "lm")


def train_further(context: RunContext, lm: CausalLM, recipe: FinetuneRecipe, stage: OpenStage, label: str) -> Facts:
    """Adapters in the LM's weights, trained on the training documents, merged and saved."""
    assert lm.tokenizer is not None
    if is_main_process():
        lm.tokenizer.save_pretrained(stage.folder)
    meet()  # all read the tokenizer
    streams = token_streams(context)
    objective = LanguageModelling(
        streams["train"],
        streams["validation"],
        recipe.max_length,
        validation_blocks=recipe.validation_blocks,
        evaluation_rows=max(1, EVALUATION_LOGITS // (recipe.max_length * lm.vocab_size)),
    )
    body = lm.model.base_model
    parameters = lm.model.num_parameters()  # the adapters will be gone
    with initialised_from(stage.seed):
        add_lora(body, Lora(**recipe.lora.model_dump()))

    def save(folder: Path) -> None:
        merge_lora(body)
        lm.source = str(folder.resolve())
        lm.save_pretrained(folder)

    facts = train_into(stage, lm.model, objective, seeded(recipe.training, stage), save=save, label=label)
    return {**facts, "parameters": parameters, "forbidden_tokens": len(lm.forbidden_tokens)}


def _finished_lm(context: RunContext) -> LanguageModel:
    """The LM that the recipe names, without the tokens that it forbids."""
    recipe = context.recipe.lm
    source = recipe.full_source
    if Path(source).expanduser().exists():
        source = str(Path(source).expanduser().resolve())  # the run may be used from another folder
    lm = open_lm(source, precision=recipe.precision)
    if lm.tokenizer is None:
        raise LexergyError(f"the LM {source} has no tokenizer; expected one beside its weights.")
    return lm if recipe.forbid_special_tokens is False else lm.without_special_tokens()


def train_lm(context: RunContext, stage: OpenStage) -> Facts:
    """Train the causal LM; end-of-text parts documents in training and is forbidden inside windows.

    One that writes right to left is trained on the same text reversed; `RightToLeftLM.from_pretrained` loads it.
    """
    recipe = _trained_lm(context)
    model = build_causal_lm(len(context.tokenizer), **sizes_of(recipe), seed=stage.seed)
    streams = token_streams(context)
    if recipe.direction == "right_to_left":
        streams = {split: tokens.flip(0) for split, tokens in streams.items()}
    objective = LanguageModelling(streams["train"], streams["validation"], recipe.max_length)

    def save(folder: Path) -> None:
        lm = CausalLM(model, context.tokenizer, source=str(folder.resolve()), direction=recipe.direction)
        lm.without_special_tokens().save_pretrained(folder)

    return train_into(stage, model, objective, seeded(recipe.training, stage), save=save, label="lm")


def train_masked_lm(context: RunContext, stage: OpenStage) -> Facts:
    """Train the masked LM on the same documents and tokens as the LM."""
    recipe = context.recipe.masked_lm
    assert recipe is not None
    vocab_size = len(context.tokenizer)
    mask_token = context.tokenizer.mask_token_id
    pad_token = context.tokenizer.pad_token_id
    model = build_masked_lm(vocab_size, **sizes_of(recipe), seed=stage.seed, mask_token=mask_token, pad_token=pad_token)
    streams = token_streams(context)
    objective = MaskedLanguageModelling(
        streams["train"],
        streams["validation"],
        recipe.max_length,
        mask_token=mask_token,
        vocab_size=vocab_size,
    )

    def save(folder: Path) -> None:
        model.save_pretrained(folder)
        context.tokenizer.save_pretrained(folder)

    return train_into(stage, model, objective, seeded(recipe.training, stage), save=save, label="masked lm")


def _trained_lm(context: RunContext) -> TrainedLMRecipe:
    assert context.recipe.lm.train is not None
    return context.recipe.lm.train


def sizes_of(recipe: TrainedLMRecipe | MaskedLMRecipe) -> dict[str, Any]:
    """The arguments that build a transformer as the recipe asks for, but for vocabulary and seed."""
    return recipe.model_dump(exclude={"training", "vocab_size", "direction"})


def token_streams(context: RunContext) -> dict[str, Tensor]:
    """The tokens of all documents of a split one after the other, end-of-text after each where there is one: (T,)."""
    end_of_text = context.tokenizer.eos_token_id
    end = torch.tensor([] if end_of_text is None else [end_of_text], dtype=torch.long)
    return {
        split: torch.cat([part for tokens in context.encode(documents) for part in (tokens, end)])
        for split, documents in (("train", context.splits.train), ("validation", context.splits.validation))
    }
