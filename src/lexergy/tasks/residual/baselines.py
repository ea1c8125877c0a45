"""The stages of the autoregressive baselines: train RALM, BALM and LoRA, measure them on the energies' test windows."""

import pyarrow as pa
import pyarrow.parquet as parquet
import torch
from torch import Tensor, nn

from lexergy.core.ends import inside
from lexergy.core.estimation.perplexity import exact_perplexity
from lexergy.data.windows import Windows
from lexergy.files import atomic_path, atomic_write_json
from lexergy.models.causal import log_probs
from lexergy.models.causal.lm import CausalLM, weights_of
from lexergy.models.causal.product_lm import NgramLM, ProductLM, frozen_logits, make_baseline, num_parameters
from lexergy.models.loading.weights import load_causal_lm
from lexergy.recipes.residual import BalmRecipe, BaselineRecipe, LoraBaselineRecipe, ResidualRecipe
from lexergy.runs.columns import to_column
from lexergy.runs.records import BASE_TOKENS, ESTIMATES_FILE, TOKENS_FILE, token_column
from lexergy.runs.stages import Facts
from lexergy.runs.workspace import OpenStage
from lexergy.tasks.residual.base_models import token_streams, train_further
from lexergy.tasks.residual.context import RunContext
from lexergy.training.objectives.language import LanguageModelling
from lexergy.training.stage import seeded, train_into


def train_baseline(context: RunContext, name: str, stage: OpenStage) -> Facts:
    """Train one baseline on the LM's own training text by exact maximum likelihood."""
    recipe = context.recipe.baselines[name]
    if isinstance(recipe, LoraBaselineRecipe):
        lm = CausalLM.from_pretrained(context.folder / "lm")  # a copy of its own, without local residuals
        return train_further(context, lm, recipe, stage, name)
    length = block_length(context.recipe, recipe)
    model = make_baseline(recipe, weights_of(context.lm), length, stage.seed)
    streams = token_streams(context)
    objective = LanguageModelling(streams["train"], streams["validation"], length)
    training = seeded(recipe.training, stage)
    return train_into(stage, model, objective, training, save=model.save_pretrained, label=name)


def block_length(recipe: ResidualRecipe, baseline: BaselineRecipe) -> int:
    """The length of the blocks that a baseline is trained on."""
    if baseline.max_length is not None:
        return baseline.max_length
    assert recipe.lm.train is not None  # `ResidualRecipe` asks for `max_length` otherwise
    return recipe.lm.train.max_length


def load_baseline(context: RunContext, name: str) -> nn.Module:
    """A trained baseline of the run, ready to score."""
    recipe, folder = context.recipe.baselines[name], context.folder / name
    if isinstance(recipe, LoraBaselineRecipe):
        return load_causal_lm(str(folder)).model.eval()
    has_tables = recipe.ngram_tables is not None
    trained = NgramLM.from_pretrained(folder) if has_tables else load_causal_lm(str(folder)).model.eval()
    return (
        trained if isinstance(recipe, BalmRecipe) else ProductLM(frozen_logits(weights_of(context.lm)), trained).eval()
    )


def measure_baselines(context: RunContext, stage: OpenStage) -> Facts:
    """The perplexity of each baseline, exact, on the windows that the energies are tested on."""
    windows = context.test_windows
    length, documents = context.mean_length(windows), windows.document_ids
    base = context.lm.token_log_prob(windows.tokens, prefix_length=windows.prefix_length)  # (N, C)
    columns = {"window": pa.array(range(len(windows)), pa.int64()), token_column(BASE_TOKENS): to_column(base.numpy())}
    records = {}
    for name in context.recipe.baselines:
        model = load_baseline(context, name).to(context.lm.device)
        log_prob = token_log_prob(model, weights_of(context.lm), windows)  # (N, C)
        columns[token_column(name)] = to_column(log_prob.numpy())
        measured = exact_perplexity(log_prob.sum(1), base.sum(1), length, stage.seed, documents=documents)
        records[name] = {**vars(measured), "parameters": num_parameters(model)}
    with atomic_path(stage.folder / TOKENS_FILE) as partial:
        parquet.write_table(pa.table(columns), partial)
    atomic_write_json(stage.folder / ESTIMATES_FILE, records)
    return {"windows": len(windows)}


@torch.inference_mode()
def token_log_prob(model: nn.Module, lm: CausalLM, windows: Windows) -> Tensor:
    """log P(x_t | x_<t) of each continuation token (N, C), float64, 0 after its end.

    What `lm` forbids has no probability here.
    """
    length = windows.continuation_length

    def logits_of(rows: Tensor) -> Tensor:  # (b, L) -> (b, C, V)
        return lm.forbid_(model(input_ids=lm.with_start(rows)).logits[:, -length - 1 : -1].float())

    rows = windows.tokens.to(lm.device)
    log_prob = log_probs.token_log_prob(logits_of, rows, rows[:, -length:], lm.vocab_size)
    return log_prob.masked_fill(~inside(lm.lengths(windows.continuations), length), 0)
