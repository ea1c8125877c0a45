"""A finished LM adapted to the corpus: better on it, a plain model afterwards, the same after a kill."""

import copy
import json
import shutil
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from lexergy.data.windows import Windows
from lexergy.models.architectures.initialisation import initialised_from
from lexergy.models.architectures.lora import Lora, add_lora, is_adapter, merge_lora
from lexergy.models.causal.lm import CausalLM
from lexergy.models.causal.runtimes.llama_rows import is_plain_llama
from lexergy.models.energies import EnergyModel
from lexergy.recipes.residual import ResidualRecipe
from lexergy.runs.stages import read_stage
from lexergy.tasks.residual.base_models import token_streams
from lexergy.tasks.residual.context import RunContext
from lexergy.tasks.residual.run import run
from lexergy.training.objectives.language import LanguageModelling
from toys.kills import killed_once
from toys.recipes import TRAINING, residual_recipe

FINETUNE = {"lora": {"rank": 2, "alpha": 4}, "max_length": 16, "training": TRAINING}
UNIT = {"kind": "unit", "lora": {"rank": 1}, "training": TRAINING | {"max_steps": 4}}


def finetune_recipe(corpus: Path, source: Path, **changes) -> ResidualRecipe:
    lm = {"source": str(source), "finetune": FINETUNE}
    content = residual_recipe(corpus, lm=lm, masked_lm=None, energies={"unit": UNIT}, generation=None)
    return ResidualRecipe.model_validate(content | changes)


@pytest.fixture(scope="module")
def adapted(finished_run, tiny_corpus, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "adapted"
    run(finetune_recipe(tiny_corpus, finished_run / "lm"), folder, progress=False)
    return folder


def test_merged_adapters_are_the_adapted_model(finished_run):
    model = AutoModelForCausalLM.from_pretrained(finished_run / "lm")
    plain, tokens = copy.deepcopy(model), torch.arange(3, 23).view(2, 10)
    with initialised_from(1):
        add_lora(model.base_model, Lora(rank=2, alpha=4))
        for name, weight in model.named_parameters():
            if is_adapter(name):
                torch.nn.init.normal_(weight, std=0.3)
    model.eval()
    with torch.no_grad():
        with_adapters = model(input_ids=tokens).logits
        merge_lora(model.base_model)
        torch.testing.assert_close(model(input_ids=tokens).logits, with_adapters, atol=1e-4, rtol=1e-4)
        assert (plain(input_ids=tokens).logits - with_adapters).abs().max() > 0.1
    assert is_plain_llama(model)
    assert model.state_dict().keys() == plain.state_dict().keys()


def test_the_adapted_lm_is_a_better_lm_of_the_corpus(adapted, finished_run):
    before, after = (CausalLM.from_pretrained(folder / "lm") for folder in (finished_run, adapted))
    windows = Windows.load(adapted / "windows" / "test.parquet")
    base, better = (lm.log_prob(windows.tokens, prefix_length=6).mean() for lm in (before, after))
    assert better > base + 0.02  # its head stays that of an LM of 12 steps
    assert after.forbidden_tokens == before.forbidden_tokens == (0, 1, 2)
    assert is_plain_llama(after.model)
    # Only the adapted layers have changed: embeddings and norms are as they were.
    old, new = before.model.state_dict(), after.model.state_dict()
    assert old.keys() == new.keys()
    changed = {name for name in old if not torch.equal(old[name], new[name])}
    assert changed == {name for name in old if name.endswith("_proj.weight")}
    facts = read_stage(adapted / "lm").facts
    history = json.loads((adapted / "lm" / "history.json").read_text())
    assert facts["validation"]["loss"] < history[0]["validation"]["loss"]
    assert (facts["steps"], facts["forbidden_tokens"]) == (12, 3)
    assert 0 < facts["trained_parameters"] < facts["parameters"] / 2


def test_energies_start_from_the_adapted_lm_wherever_the_run_is(adapted, tmp_path):
    moved = Path(shutil.copytree(adapted, tmp_path / "moved"))
    lm, energy = CausalLM.from_pretrained(moved / "lm"), EnergyModel.from_pretrained(moved / "unit")
    assert Path(lm.source) == moved / "lm"
    assert Path(energy.config.backbone_source) == moved / "lm"
    assert torch.equal(energy.backbone.embed_tokens.weight, lm.model.model.embed_tokens.weight)
    assert torch.equal(
        energy.backbone.layers[0].mlp.up_proj.base_layer.weight, lm.model.model.layers[0].mlp.up_proj.weight
    )


@pytest.mark.parametrize("steps", [2, 7])  # before the first checkpoint and after the second
def test_a_killed_training_goes_on_to_the_same_weights(
    adapted, finished_run, tiny_corpus, tmp_path, monkeypatch, steps
):
    recipe = finetune_recipe(tiny_corpus, finished_run / "lm")
    monkeypatch.setattr(LanguageModelling, "loss", killed_once(LanguageModelling.loss, steps + 1))
    with pytest.raises(KeyboardInterrupt):
        run(recipe, tmp_path / "run", progress=False)
    monkeypatch.undo()
    monkeypatch.setattr("lexergy.tasks.residual.run.build_negatives", killed_once(print, 1))
    with pytest.raises(KeyboardInterrupt):
        run(recipe, tmp_path / "run", progress=False)
    for name in ("model.safetensors", "history.json"):
        assert (tmp_path / "run" / "lm" / name).read_bytes() == (adapted / "lm" / name).read_bytes()
    assert read_stage(tmp_path / "run" / "lm").attempts == 2
    assert read_stage(tmp_path / "run" / "lm").key == read_stage(adapted / "lm").key


def test_documents_are_parted_where_there_is_an_end_of_text(adapted, finished_run, tiny_corpus):
    context = RunContext(finetune_recipe(tiny_corpus, finished_run / "lm"), adapted)
    end = context.tokenizer.eos_token_id
    parted = token_streams(context)["train"]
    assert int((parted == end).sum()) == len(context.splits.train)
    context.tokenizer.eos_token = None
    joined = token_streams(context)["train"]
    assert torch.equal(joined, parted[parted != end])


def test_validation_blocks_are_spread_evenly():
    tokens = torch.arange(41)
    objective = LanguageModelling(tokens, tokens, 4, validation_blocks=3)
    assert objective.validation[:, 0].tolist() == [0, 12, 24]
    assert len(LanguageModelling(tokens, tokens, 4, validation_blocks=11).validation) == 10


def test_an_lm_trained_here_is_not_fine_tuned_too(tiny_corpus, finished_run):
    lm = residual_recipe(tiny_corpus)["lm"] | {"finetune": FINETUNE}
    with pytest.raises(ValueError, match="`finetune` is for an LM from a `source`"):
        finetune_recipe(tiny_corpus, finished_run / "lm", lm=lm)
