"""Baselines in a run: trained, measured exactly on the energies' windows, resumable, and seeds on one split."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet
import pytest
import torch
from transformers import AutoModelForCausalLM

from lexergy.models.causal.lm import CausalLM
from lexergy.models.causal.product_lm import num_parameters
from lexergy.recipes.loader import load_recipe
from lexergy.recipes.residual import ResidualRecipe
from lexergy.runs.columns import from_column
from lexergy.runs.records import ESTIMATES_FILE, RUN_FILE, TOKENS_FILE, load_run
from lexergy.runs.stages import MANIFEST
from lexergy.runs.workspace import open_workspace
from lexergy.tasks.residual import run as run_module
from lexergy.tasks.residual.baselines import load_baseline
from lexergy.tasks.residual.context import RunContext
from lexergy.tasks.residual.run import run
from lexergy.training import loop
from toys.kills import killed_when_done
from toys.recipes import ENERGIES, SHAPE, TRAINING, TRANSFORMER, residual_recipe

TABLES = {"orders": [2], "buckets": 64, "width": 4}
BASELINES = {
    "ralm": {"kind": "ralm", "training": TRAINING},
    "ralm-small": {
        "kind": "ralm",
        "from": "scratch",
        "shape": SHAPE | {"hidden_size": 8},
        "ngram_tables": TABLES,
        "training": TRAINING,
    },
    "balm": {"kind": "balm", **TRANSFORMER, "hidden_size": 24, "ngram_tables": TABLES},
    "opt": {"kind": "balm", **TRANSFORMER, "architecture": "opt", "embedding_size": 12, "feed_forward_size": 20},
    "lora": {
        "kind": "lora",
        "lora": {"rank": 2, "alpha": 4},
        "max_length": TRANSFORMER["max_length"],
        "training": TRAINING,
    },
}
SMALL = {"energies": {"states": ENERGIES["states"]}, "masked_lm": None, "generation": None}


def small_recipe(corpus, **changes) -> ResidualRecipe:
    return ResidualRecipe.model_validate(residual_recipe(corpus, **(SMALL | changes)))


@pytest.fixture(scope="module")
def with_baselines(tiny_corpus, finished_run, tmp_path_factory) -> Path:
    """The finished run, whose recipe then got baselines and fewer energies."""
    folder = Path(shutil.copytree(finished_run, tmp_path_factory.mktemp("runs") / "baselines"))
    run(small_recipe(tiny_corpus, baselines=BASELINES), folder, progress=False)
    return folder


def log_probs(folder: Path, name: str) -> torch.Tensor:
    table = parquet.read_table(folder / "baselines" / TOKENS_FILE)
    return torch.from_numpy(from_column(table.column(f"token_log_prob.{name}")))  # (N, C)


def test_each_baseline_is_measured(with_baselines, tiny_corpus):
    result = load_run(with_baselines)
    assert list(result.baselines) == list(BASELINES)
    assert list(result.seconds)[-6:] == [*BASELINES, "baselines"]
    base = log_probs(with_baselines, "base").sum(1)
    for name, baseline in result.baselines.items():
        log_prob = log_probs(with_baselines, name)
        assert log_prob.shape == (10, 5)
        assert baseline.perplexity == pytest.approx(float(torch.exp(-log_prob.mean())))
        assert baseline.gain == pytest.approx(float((log_prob.sum(1) - base).mean() / 5))
        assert baseline.perplexity == pytest.approx(result.energies["states"].perplexity.base * np.exp(-baseline.gain))
        assert 0 < baseline.gain_std_error < baseline.std_error
        assert (baseline.kind, baseline.num_windows) == (BASELINES[name]["kind"], 10)
        assert [record["step"] for record in result.histories[name]] == [0, 4, 8, 12]
    assert result.baselines["ralm-small"].gain > 0  # twelve more steps on the same text


def test_the_windows_and_the_base_are_those_of_the_perplexity_stage(with_baselines):
    shards = sorted((with_baselines / "perplexity" / "weights").glob("*.parquet"))
    stored = np.concatenate([from_column(parquet.read_table(path).column("base_log_prob")) for path in shards])
    np.testing.assert_allclose(log_probs(with_baselines, "base").sum(1), stored, rtol=1e-6)


@torch.no_grad()
def test_a_ralm_is_the_product_without_its_forbidden_tokens(with_baselines, tiny_corpus):
    context = RunContext(load_run(with_baselines).recipe, with_baselines)
    lm = CausalLM.from_pretrained(with_baselines / "lm")
    residual = AutoModelForCausalLM.from_pretrained(with_baselines / "ralm")
    windows = context.test_windows
    assert lm.forbidden_tokens == (0, 1, 2)
    for row in (0, 9):
        tokens = windows.tokens[row : row + 1]
        of_both = [model(input_ids=tokens).logits[0].double().softmax(-1) for model in (lm.model, residual)]
        product = of_both[0] * of_both[1]
        product[:, [0, 1, 2]] = 0
        distribution = product / product.sum(-1, keepdim=True)  # (L, V)
        expected = [float(distribution[position - 1, tokens[0, position]].log()) for position in range(6, 11)]
        np.testing.assert_allclose(log_probs(with_baselines, "ralm")[row], expected, rtol=1e-5)


def test_parameters_count_all_that_a_row_has(with_baselines):
    result = load_run(with_baselines)
    lm = CausalLM.from_pretrained(with_baselines / "lm").model.num_parameters()
    opt = AutoModelForCausalLM.from_pretrained(with_baselines / "opt")
    assert result.baselines["ralm"].parameters == 2 * lm
    assert result.baselines["opt"].parameters == opt.num_parameters()
    context = RunContext(result.recipe, with_baselines)
    assert result.baselines["balm"].parameters == num_parameters(load_baseline(context, "balm"))
    assert opt.get_input_embeddings().embedding_dim == 12


def test_training_changes_the_residual_and_not_the_lm(with_baselines, finished_run):
    lm, kept = (CausalLM.from_pretrained(folder / "lm").model for folder in (with_baselines, finished_run))
    residual = AutoModelForCausalLM.from_pretrained(with_baselines / "ralm")
    for (name, weight), before in zip(lm.named_parameters(), kept.parameters(), strict=True):
        assert torch.equal(weight, before)
        assert not torch.equal(weight, residual.get_parameter(name))


def test_baselines_leave_the_other_stages_as_they_are(with_baselines, finished_run, tiny_corpus):
    for stage in ("tokenizer", "windows", "lm", "negatives", "states"):
        before, after = (
            json.loads((folder / stage / "stage.json").read_text()) for folder in (finished_run, with_baselines)
        )
        assert after == before
    times = {path: path.stat().st_mtime_ns for path in with_baselines.rglob("*") if path.name != ".lock"}
    run(small_recipe(tiny_corpus, baselines=BASELINES), with_baselines, progress=False)
    assert times == {path: path.stat().st_mtime_ns for path in with_baselines.rglob("*") if path.name != ".lock"}


def test_a_killed_training_goes_on_to_the_same_baseline(
    with_baselines, finished_run, tiny_corpus, tmp_path, monkeypatch
):
    folder = Path(shutil.copytree(finished_run, tmp_path / "killed"))
    recipe = small_recipe(tiny_corpus, baselines={"ralm-small": BASELINES["ralm-small"]})
    monkeypatch.setattr(loop, "save_checkpoint", killed_when_done(loop.save_checkpoint))
    with pytest.raises(KeyboardInterrupt):
        run(recipe, folder, progress=False)
    monkeypatch.undo()
    run(recipe, folder, progress=False)
    assert torch.equal(log_probs(folder, "ralm-small"), log_probs(with_baselines, "ralm-small"))


def test_errors_over_windows_of_an_early_run_are_read_as_those_over_documents(with_baselines, tmp_path):
    early = shutil.copytree(with_baselines, tmp_path / "early")
    path = early / "baselines" / ESTIMATES_FILE
    records = json.loads(path.read_text())
    for record in records.values():
        del record["num_documents"]
        record["std_error"] = record["gain_std_error"] = 99.0
    path.write_text(json.dumps(records))
    manifest = json.loads((early / "baselines" / MANIFEST).read_text())
    del manifest["files"]  # which early stages did not list
    (early / "baselines" / MANIFEST).write_text(json.dumps(manifest))
    assert load_run(early).baselines == load_run(with_baselines).baselines


def test_a_run_made_before_there_were_baselines_still_loads(finished_run):
    record = json.loads((finished_run / RUN_FILE).read_text())
    assert "baselines" not in record["recipe"]
    assert load_run(finished_run).baselines == {}


def test_seeds_share_their_windows_where_the_split_has_a_seed_of_its_own(tiny_corpus, tmp_path):
    content = residual_recipe(tiny_corpus)

    def windows(seed, split_seed):
        changes = {"seed": seed, "corpus": content["corpus"] | {"split_seed": split_seed}}
        recipe = ResidualRecipe.model_validate(content | changes)
        folder = tmp_path / f"{seed}-{split_seed}"
        with open_workspace(folder, seed, progress=False) as workspace:
            stages = run_module._Run(recipe, workspace)
            stages._windows(stages._tokenizer())
        context = RunContext(recipe, folder)
        return [context.windows["train"].tokens, context.windows["test"].tokens, context.test_windows.tokens]

    same, other, plain = windows(3, 7), windows(4, 7), windows(3, None)
    assert all(torch.equal(*pair) for pair in zip(same, other, strict=True))
    assert not any(torch.equal(*pair) for pair in zip(same, plain, strict=True))
    assert all(torch.equal(*pair) for pair in zip(plain, windows(4, 3), strict=True))  # null is the recipe's seed


def test_the_key_of_a_stage_is_what_it_was(tmp_path, monkeypatch):
    """Stages of the packaged recipe as they were named before recipes had `baselines` and `split_seed`."""
    monkeypatch.setattr(run_module, "fingerprint", lambda source: source)
    digests = {"train": "a", "validation": "b", "test": "c"}
    monkeypatch.setattr(run_module, "refer_to_lm", lambda context, folder: {})
    monkeypatch.setattr(run_module, "build_windows", lambda *arguments: {"digests": digests})
    monkeypatch.setattr(run_module, "build_negatives", lambda *arguments: {})
    monkeypatch.setattr(run_module, "train_energy", lambda *arguments: {})
    with open_workspace(tmp_path, 0, progress=False) as workspace:
        stages = run_module._Run(load_recipe("energy-alone", ResidualRecipe), workspace)
        lm = stages._found_lm()
        windows = stages._windows(lm)
        negatives = stages._negatives(windows, lm)
        energy = stages._energy("energy", negatives, {"lm": lm})
    assert [stage.key for stage in (lm, windows, negatives, energy)] == [
        "2a4eac6a628c24ad",
        "dc087f7e306726f5",
        "65a10fc70702ed8e",
        "b63c29fb43b64ae8",
    ]
