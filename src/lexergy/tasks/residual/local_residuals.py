"""The stages that correct the base LM token by token: what it has read, one fit for each residual, what each adds."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from pkgutil import resolve_name
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import torch
from torch import Tensor

from lexergy.core.ends import inside, lengths_until
from lexergy.core.estimation.perplexity import exact_perplexity
from lexergy.core.local_residuals.ngrams import fit_weights, kneser_ney
from lexergy.core.local_residuals.unigrams import log_ratio
from lexergy.data.corpora import Document
from lexergy.data.windows import Windows, make_windows
from lexergy.files import atomic_path, atomic_write_json
from lexergy.models.causal.lm import CausalLM, weights_of
from lexergy.models.causal.local_residuals import LocalResidual, NgramResidual, UnigramResidual
from lexergy.models.causal.log_probs import pick_log_prob
from lexergy.models.causal.output_adapter import OutputAdapter
from lexergy.models.causal.positions import (
    Positions,
    check_output_layer,
    last_states,
    position_log_probs,
    position_logits,
)
from lexergy.recipes.sections.local_residuals import (
    LOCAL_RESIDUALS,
    AdapterRecipe,
    NgramRecipe,
    ResidualKind,
    UnigramRecipe,
)
from lexergy.runs.columns import from_column, to_column
from lexergy.runs.records import BARE, ESTIMATES_FILE, TOKENS_FILE, token_column
from lexergy.runs.shards import num_shards, shard_rows
from lexergy.runs.stages import Facts, Stage, stage_seed
from lexergy.runs.workspace import OpenStage, stage_store
from lexergy.tasks.residual.context import RunContext
from lexergy.training.objectives.output_layer import OutputLayerModelling
from lexergy.training.stage import seeded, train_into

ROWS_PER_SHARD = 16
STRENGTHS = torch.linspace(0, 1, 11)  # of the log-ratio, tried on validation text
STATES = "states"


def read_positions(context: RunContext, stage: OpenStage) -> Facts:
    """Let the frozen LM read some training and validation text; its last states are kept in shards."""
    lm, rows = weights_of(context.frozen_lm), torch.cat([_blocks(context, split).tokens for split in _READ])
    length = _predicted(context)
    check_output_layer(lm, rows[:1])

    def compute(shard: int) -> pa.Table:
        ids = shard_rows(shard, len(rows), ROWS_PER_SHARD)
        states = last_states(lm, rows[ids.start : ids.stop], length)
        return pa.table({"row": pa.array(ids, pa.int64()), "states": to_column(states.numpy())})

    shards = num_shards(len(rows), ROWS_PER_SHARD)
    stage.store(STATES).fill(shards, compute, "states", progress=stage.progress, tokens_per_row=rows.shape[1])
    return {"rows": len(rows), "shards": shards, "tokens": int(rows.numel())}


_READ: dict[str, Callable[[RunContext], list[Document]]] = {
    "train": lambda context: context.residual_documents,
    "validation": lambda context: context.splits.validation,
}


def _predicted(context: RunContext) -> int:
    """How many tokens of a block are predicted: all but the first few."""
    windows = context.recipe.windows
    return windows.prefix + windows.continuation - max(1, windows.prefix // 4)


def _blocks(context: RunContext, split: str) -> Windows:
    """Blocks as long as the run's windows, spread evenly over the documents."""
    fit, length, documents = context.recipe.lm.residual_fit, _predicted(context), _READ[split](context)
    blocks = make_windows(
        context.encode(documents),
        [document.id for document in documents],
        prefix_length=context.recipe.windows.prefix + context.recipe.windows.continuation - length,
        continuation_length=length,
        end_token=context.end_token,
    )
    wanted = fit.tokens if split == "train" else fit.validation_tokens
    seed = stage_seed(context.recipe.split_seed, f"residual {split}")
    return blocks.sample(min(len(blocks), -(-wanted // length)), seed)


@dataclass(frozen=True)
class Fitting:
    """What a residual is fitted with: the LM with those before it, and what the frozen LM has read."""

    context: RunContext
    read: Stage
    stage: OpenStage
    lm: CausalLM

    @cached_property
    def positions(self) -> dict[str, Positions]:
        """Of training and validation text."""
        table = stage_store(self.read, STATES).table(self.read.facts["shards"])
        states, first = torch.from_numpy(from_column(table.column("states"))), 0
        positions = {}
        for split in _READ:
            blocks = _blocks(self.context, split)
            is_text = inside(lengths_until(blocks.continuations, self.context.end_token), blocks.continuation_length)
            positions[split] = Positions(blocks.tokens, states[first : first + len(blocks)], is_text)
            first += len(blocks)
        return positions

    @cached_property
    def documents(self) -> list[np.ndarray]:
        """The tokens of each document that is counted, with its end where texts end."""
        end = self.context.end_token
        ends = np.array([] if end is None else [end], np.int64)
        return [
            np.concatenate([tokens.numpy(), ends]) for tokens in self.context.encode(self.context.residual_documents)
        ]

    def save(self, residual: LocalResidual) -> None:
        """The LM with this residual too, as the stage's own."""
        self.lm.corrected([*self.lm.residuals, residual]).save_pretrained(self.stage.folder)


def fit_residual(context: RunContext, kind: ResidualKind, read: Stage, stage: OpenStage) -> Facts:
    """Fit one residual on top of those before it; the stage's folder is the LM with all of them."""
    lm = weights_of(context.corrected_lm(kind, included=False))
    return resolve_name(LOCAL_RESIDUALS[kind].fit)(
        context.recipe.lm.residual_of(kind), Fitting(context, read, stage, lm)
    )


@torch.inference_mode()
def fit_unigram(recipe: UnigramRecipe, fitting: Fitting) -> Facts:
    """The log-ratio from counts and from what the LM expects; its strength by the likelihood of validation text."""
    expected = torch.zeros(fitting.lm.vocab_size, dtype=torch.double)
    for _, logits in position_logits(fitting.lm, fitting.positions["train"]):
        expected += logits.softmax(-1).sum(0).double().cpu()
    counts = torch.from_numpy(np.bincount(np.concatenate(fitting.documents), minlength=len(expected)))
    ratio = log_ratio(counts, expected, recipe.smoothing)
    strength = _best_strength(fitting, ratio) if recipe.strength is None else recipe.strength
    fitting.save(UnigramResidual(ratio, strength))
    return {"strength": strength, "positions": len(fitting.positions["train"]), "tokens": int(counts.sum())}


def _best_strength(fitting: Fitting, ratio: Tensor) -> float:
    total = torch.zeros(len(STRENGTHS), dtype=torch.double)
    ratio = ratio.to(fitting.lm.device)
    for tokens, logits in position_logits(fitting.lm, fitting.positions["validation"]):
        total += torch.stack([pick_log_prob(logits + s * ratio, tokens, torch.float32).sum().cpu() for s in STRENGTHS])
    return round(float(STRENGTHS[int(total.argmax())]), 3)


def fit_adapter(recipe: AdapterRecipe, fitting: Fitting) -> Facts:
    """A change of the output layer by maximum likelihood, stopped where validation text gets no likelier."""
    adapter = OutputAdapter(fitting.lm, recipe.rank, recipe.tied, fitting.stage.seed)
    read = fitting.positions
    objective = OutputLayerModelling(read["train"], read["validation"], fitting.lm.context_length)

    def save(folder: Any) -> None:
        fitting.save(adapter.residual())

    training = seeded(recipe.training, fitting.stage)
    facts = train_into(fitting.stage, adapter, objective, training, save=save, label="adapter")
    return {**facts, "positions": len(read["train"])}


@torch.inference_mode()
def fit_ngram(recipe: NgramRecipe, fitting: Fitting) -> Facts:
    """Count n-grams; the weight of each length of context by the likelihood of validation text."""
    vocab_size, read = fitting.lm.vocab_size, fitting.positions["validation"]
    levels = kneser_ney(fitting.documents, recipe.order, vocab_size)
    residual = NgramResidual(levels, vocab_size, torch.zeros(len(levels) + 1))
    matches = residual.matches(read.before(len(levels)))
    if recipe.weight is None:
        log_prob = position_log_probs(fitting.lm, read)[read.is_text]  # (N,)
        weights = fit_weights(log_prob.exp(), matches.prob_of(read.tokens), matches, len(levels) + 1)
    else:
        weights = torch.full((len(levels) + 1,), recipe.weight)
    fitting.save(NgramResidual(levels, vocab_size, weights.float()))
    return {
        "weights": weights.tolist(),
        "matched": matches.length.bincount(minlength=len(levels) + 1).tolist(),
        "contexts": [len(level.keys) for level in levels],
        "tokens": sum(map(len, fitting.documents)),
    }


def measure_residuals(context: RunContext, stage: OpenStage) -> Facts:
    """What each residual adds to those before it: exact perplexities on validation and test windows."""
    kinds = [residual.kind for residual in context.recipe.lm.residual]
    test = context.test_windows
    validation = context.windows["validation"]
    if len(validation) > len(test):
        validation = validation.sample(len(test), stage.seed)
    records: dict[str, dict[str, Any]] = {}
    for split, windows in (("validation", validation), ("test", test)):
        positions = _read_windows(context, windows)
        log_probs = {BARE: position_log_probs(weights_of(context.frozen_lm), positions)}  # (N, C)
        for kind in kinds:
            log_probs[kind] = position_log_probs(weights_of(context.corrected_lm(kind)), positions)
        length, documents = context.mean_length(windows), windows.document_ids
        records[split] = {
            name: asdict(exact_perplexity(own.sum(1), log_probs[BARE].sum(1), length, stage.seed, documents=documents))
            for name, own in log_probs.items()
        }
    columns = {token_column(name): to_column(own.numpy()) for name, own in log_probs.items()}  # of test windows
    with atomic_path(stage.folder / TOKENS_FILE) as partial:
        parquet.write_table(pa.table(columns), partial)
    atomic_write_json(stage.folder / ESTIMATES_FILE, records)
    return {split: {name: record["perplexity"] for name, record in own.items()} for split, own in records.items()}


def _read_windows(context: RunContext, windows: Windows) -> Positions:
    lm, length = weights_of(context.frozen_lm), windows.continuation_length
    states = torch.cat([last_states(lm, rows, length) for rows in windows.tokens.split(ROWS_PER_SHARD)])
    is_text = inside(lengths_until(windows.continuations, context.end_token), length)
    return Positions(windows.tokens, states, is_text)
