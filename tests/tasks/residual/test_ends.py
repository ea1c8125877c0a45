"""Runs on windows that have ends: from the documents' last tokens to perplexity, sums and baselines."""

import random

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import torch

from lexergy.core.ends import lengths_until
from lexergy.recipes.residual import ResidualRecipe, WindowsRecipe
from lexergy.runs.columns import from_column
from lexergy.tasks.residual.context import RunContext
from lexergy.tasks.residual.run import run
from toys.recipes import SHAPE, TRAINING, residual_recipe

WINDOWS = {"prefix": 6, "continuation": 5, "train": 70, "validation": 20, "test": 12, "ends": True}
ENERGIES = {
    "states": {"kind": "states", "layers": [1], "training": TRAINING},
    "unit": {"kind": "unit", "training": TRAINING},
    "again": {"kind": "refreshed", "of": "states", "candidates": 4, "training": TRAINING},
    "total": {"kind": "sum", "of": ["states", "unit"]},
}


@pytest.fixture(scope="module")
def short_texts(tmp_path_factory):
    """Many documents of a few words, so that many windows end."""
    folder = tmp_path_factory.mktemp("short")
    for number in range(60):
        chosen = random.Random(number)
        words = ("the people", "our union", "every state", "this congress", "its duty", "the debt", "peace", "war")
        text = " ".join(chosen.choice(words) for _ in range(chosen.randint(4, 8)))
        (folder / f"{number:02d}.txt").write_text(f"{text}.", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def ended(short_texts, tmp_path_factory):
    baselines = {"bigger": {"kind": "balm", **SHAPE, "max_length": 32, "training": TRAINING}}
    content = residual_recipe(short_texts, energies=ENERGIES, masked_lm=None, windows=WINDOWS, baselines=baselines)
    recipe = ResidualRecipe.model_validate(content | {"perplexity": {"samples": 8, "windows": 10}})
    folder = tmp_path_factory.mktemp("runs") / "ended"
    return run(recipe, folder, progress=False)


def test_windows_and_negatives_end(ended):
    context = RunContext(ended.recipe, ended.folder)
    assert context.lm.end_token == context.end_token == context.tokenizer.eos_token_id
    table = pa.concat_tables(
        parquet.read_table(path) for path in sorted((ended.folder / "negatives").glob("*.parquet"))
    )
    negatives = torch.from_numpy(from_column(table.column("tokens"))).long()  # (N, K, C)
    windows = torch.cat([context.windows[split].tokens for split in ("train", "validation")])
    for texts in (windows[:, 6:], negatives):
        lengths = lengths_until(texts, context.end_token)
        assert 1 <= lengths.min() < lengths.max() == 5
    rows = torch.cat([windows[:, None, :6].expand(-1, 2, -1), negatives], -1).flatten(0, 1)  # (N * K, L)
    stored = torch.from_numpy(from_column(table.column("log_prob"))).flatten()
    torch.testing.assert_close(context.lm.log_prob(rows, prefix_length=6), stored, atol=1e-4, rtol=1e-4)
    human = context.lm.state_features(windows, prefix_length=6, features=context.features)
    kept = torch.from_numpy(from_column(table.column("human_features")))
    torch.testing.assert_close(human, kept, atol=1e-3, rtol=1e-3)


def test_perplexity_counts_the_tokens_of_texts_and_their_ends(ended):
    context = RunContext(ended.recipe, ended.folder)
    windows = context.test_windows
    lengths = context.lm.lengths(windows.continuations)
    log_prob = context.lm.log_prob(windows.tokens, prefix_length=6)
    assert lengths.min() < 5
    base = float((-log_prob.sum() / lengths.sum()).exp())
    for name, energy in ended.energies.items():
        assert energy.perplexity.base == pytest.approx(base), name
        own = context.joint(name).score_texts(windows.prefixes, windows.continuations)
        torch.testing.assert_close(energy.perplexity.windows.energy, own.double(), atol=1e-4, rtol=1e-4)
    assert 1 < ended.baselines["bigger"].perplexity < 10**3


def test_a_run_without_ends_writes_none_into_its_recipe():
    assert "ends" not in WindowsRecipe(prefix=6, continuation=5).model_dump()
    assert WindowsRecipe(prefix=6, continuation=5, ends=True).model_dump()["ends"] is True
