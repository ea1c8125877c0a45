"""Whole runs on a tiny corpus: what comes out, what is redone, and that kill -9 changes nothing."""

import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import torch
from transformers import BertConfig, BertModel

from lexergy.errors import LexergyError
from lexergy.models.causal.lm import CausalLM
from lexergy.models.causal.state_features import StateFeatures
from lexergy.models.energies import EnergyModel
from lexergy.models.loading.tokenizer import load_tokenizer
from lexergy.recipes.residual import ResidualRecipe
from lexergy.runs.columns import from_column
from lexergy.runs.records import load_run
from lexergy.runs.stages import MANIFEST
from lexergy.tasks.residual.run import run
from toys.corpora import write_corpus
from toys.recipes import ENERGIES, TRAINING, residual_recipe

STAGES = [
    "tokenizer",
    "windows",
    "lm",
    "masked_lm",
    "negatives",
    "states",
    "unit",
    "bit",
    "perplexity",
    "samples",
]


def negatives_table(folder: Path) -> pa.Table:
    return pa.concat_tables(parquet.read_table(path) for path in sorted((folder / "negatives").glob("*.parquet")))


def modified(folder: Path) -> dict[str, int]:
    """When each file of a run was written last."""
    return {
        str(path.relative_to(folder)): path.stat().st_mtime_ns
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".lock"
    }


def redone(folder: Path, before: dict[str, int]) -> set[str]:
    after = modified(folder)
    return {name.split("/")[0] for name in {*before, *after} if before.get(name) != after.get(name)}


def copy_of(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "copy"))


def test_a_run_measures_every_energy(finished_run, tiny_recipe):
    result = load_run(finished_run)
    assert list(result.energies) == ["states", "unit", "bit"]
    for energy in result.energies.values():
        estimate = energy.perplexity
        assert 1 < estimate.lower <= estimate.upper < math.inf
        assert (estimate.num_windows, estimate.num_samples) == (10, 40)
        assert 1 <= estimate.ess <= 40
        assert estimate.curve[-1].num_samples == 40
        assert (estimate.curve[-1].lower, estimate.curve[-1].upper) == (estimate.lower, estimate.upper)
        assert energy.human_energies.shape == (10,)
        assert energy.lm_energies.shape == (10, 40)
        assert np.isfinite(energy.lm_energies).all()
        assert [record["step"] for record in energy.history] == [0, 4, 8, 12]
        assert energy.history[-1]["validation"]["loss"] < 2 * math.log(2)  # better than chance
    assert len({energy.perplexity.base for energy in result.energies.values()}) == 1
    assert list(result.seconds) == STAGES
    assert result.corpus.documents == {"train": 12, "validation": 4, "test": 4}
    assert result.corpus.windows == {"train": 70, "validation": 20, "test": 12}
    assert set(result.histories) == {"lm", "masked_lm"}
    assert result.recipe == tiny_recipe


def test_a_run_continues_each_prompt_with_each_energy(finished_run):
    generations = load_run(finished_run).generations
    assert [(generation.prompt, generation.energy) for generation in generations] == [
        (prompt, energy) for prompt in ("the people shall", "our union") for energy in ENERGIES
    ]
    for generation in generations:
        best, worst = ([candidate.energy for candidate in some] for some in (generation.best, generation.worst))
        assert best == sorted(best)
        assert worst == sorted(worst, reverse=True)
        assert best[-1] <= worst[-1]
        assert generation.num_candidates == 30
    assert len({generation.base_text for generation in generations[:3]}) == 1


def test_negatives_are_what_the_lm_drew_for_each_window(finished_run):
    lm = CausalLM.from_pretrained(finished_run / "lm")
    table = negatives_table(finished_run)
    windows = [parquet.read_table(finished_run / "windows" / f"{split}.parquet") for split in ("train", "validation")]
    tokens = torch.from_numpy(np.concatenate([from_column(some.column("tokens")) for some in windows]))  # (N, L)
    assert table.column("window").to_pylist() == list(range(90))
    negatives = torch.from_numpy(from_column(table.column("tokens"))).long()  # (N, K, C)
    rows = torch.cat([tokens[:, None, :6].expand(-1, 2, -1), negatives], -1).flatten(0, 1)  # (N * K, L)
    log_prob = torch.from_numpy(from_column(table.column("log_prob"))).flatten()
    torch.testing.assert_close(log_prob, lm.log_prob(rows, prefix_length=6), rtol=1e-4, atol=1e-4)
    wanted = StateFeatures((0, 1))
    features = torch.from_numpy(from_column(table.column("features"))).flatten(0, 1)
    human = torch.from_numpy(from_column(table.column("human_features")))
    expected = lm.state_features(rows, prefix_length=6, features=wanted)
    torch.testing.assert_close(features, expected, rtol=1e-4, atol=1e-4)
    expected = lm.state_features(tokens, prefix_length=6, features=wanted)
    torch.testing.assert_close(human, expected, rtol=1e-4, atol=1e-4)
    assert lm.special_tokens == lm.forbidden_tokens == (0, 1, 2)
    assert not torch.isin(negatives, torch.tensor(lm.forbidden_tokens)).any()


def test_a_finished_run_is_only_read(finished_run, tiny_recipe):
    before = modified(finished_run)
    first, second = load_run(finished_run), run(tiny_recipe, finished_run, progress=False)
    assert redone(finished_run, before) == set()
    assert second.generations == first.generations
    assert second.seconds == first.seconds


def test_a_changed_energy_redoes_what_depends_on_it(finished_run, tiny_corpus, tmp_path):
    folder = copy_of(finished_run, tmp_path)
    before = modified(folder)
    energies = ENERGIES | {"bit": ENERGIES["bit"] | {"training": TRAINING | {"learning_rate": 0.02}}}
    result = run(ResidualRecipe.model_validate(residual_recipe(tiny_corpus, energies=energies)), folder, progress=False)
    assert redone(folder, before) == {"bit", "perplexity", "samples", "run.json"}
    old = load_run(finished_run)
    assert result.energies["bit"].perplexity.upper != old.energies["bit"].perplexity.upper
    assert result.energies["unit"].perplexity == old.energies["unit"].perplexity


def test_more_test_windows_leave_the_energies_as_they_are(finished_run, tiny_corpus, tmp_path):
    folder = copy_of(finished_run, tmp_path)
    before = modified(folder)
    windows = residual_recipe(tiny_corpus)["windows"] | {"test": 14}
    perplexity = {"samples": 40, "windows": None}
    changed = ResidualRecipe.model_validate(residual_recipe(tiny_corpus, windows=windows, perplexity=perplexity))
    result = run(changed, folder, progress=False)
    assert redone(folder, before) == {"windows", "perplexity", "run.json"}
    assert result.energies["bit"].perplexity.num_windows == 14


def test_changed_text_is_noticed(finished_run, tiny_corpus, tmp_path):
    folder, texts = copy_of(finished_run, tmp_path), Path(shutil.copytree(tiny_corpus, tmp_path / "texts"))
    small = {"energies": {"states": ENERGIES["states"]}, "masked_lm": None, "generation": None}
    recipe = ResidualRecipe.model_validate(residual_recipe(texts, **small))
    run(recipe, folder, progress=False)
    before = modified(folder)
    run(recipe, folder, progress=False)
    assert redone(folder, before) == set()
    (texts / "00.txt").write_text((texts / "00.txt").read_text() + " liberty shall remain.")
    run(recipe, folder, progress=False)
    assert {"tokenizer", "windows", "lm", "negatives", "states", "perplexity"} <= redone(folder, before)


# Killed by itself just before or after its n-th rename, so at every kind of moment between two atomic writes,
# or from outside after a while; then started again, until it comes to its end.
KILLED = """
import json, os, random, signal, sys, time
from pathlib import Path
import arviz_stats.base, pandas, pyarrow.dataset  # once, and not in every child
from lexergy.recipes.residual import ResidualRecipe
from lexergy.tasks.residual.run import run

recipe = ResidualRecipe.model_validate(json.loads(Path(sys.argv[1]).read_text()))
chance = random.Random(0)
replace = os.replace

def dies_at(rename, after):
    count = 0
    def counted(*arguments, **options):
        nonlocal count
        count += 1
        if count == rename and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        replace(*arguments, **options)
        if count == rename and after:
            os.kill(os.getpid(), signal.SIGKILL)
    return counted

kills = 0
while True:
    by_time = kills % 8 == 0  # the first, when a whole run is ahead of a fast machine too
    rename, after = chance.randint(5, 9), chance.random() < 0.5
    child = os.fork()
    if child == 0:
        if not by_time:
            os.replace = dies_at(rename, after)
        run(recipe, sys.argv[2], progress=False)
        os._exit(0)
    if by_time:
        time.sleep(chance.uniform(0.1, 0.4))
        os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    if status == 0:
        break
    assert os.WTERMSIG(status) == signal.SIGKILL, status
    kills += 1
print(kills)
"""


def content(folder: Path) -> dict[str, object]:
    """What a run holds, but for times and for the path of its own folder."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.suffix == ".parquet":
            found[name] = parquet.read_table(path).to_pydict()
        elif path.name == MANIFEST:
            manifest = json.loads(path.read_text())
            found[name] = {key: manifest[key] for key in ("key", "facts", "seed")}
        elif path.is_file() and path.name not in (".lock", "lexergy_lm.json", "config.json"):
            found[name] = path.read_bytes()
    return found


def test_kill_9_at_many_moments_changes_nothing(finished_run, tiny_recipe, tmp_path):
    (tmp_path / "recipe.json").write_text(json.dumps(tiny_recipe.plain()))
    folder = tmp_path / "killed"
    command = [sys.executable, "-c", KILLED, str(tmp_path / "recipe.json"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=dict(os.environ), check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 4, done.stdout
    expected, found = content(finished_run), content(folder)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name] == value, name


def test_a_finished_lm_and_an_encoder_with_its_own_tokenizer(finished_run, tiny_corpus, tmp_path):
    encoder = tmp_path / "encoder"
    tokenizer = load_tokenizer(finished_run / "lm")
    tokenizer.save_pretrained(encoder)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    BertModel(BertConfig(vocab_size=len(tokenizer), max_position_embeddings=64, **sizes)).save_pretrained(encoder)
    recipe = ResidualRecipe.model_validate(
        residual_recipe(
            tiny_corpus,
            lm={"source": str(finished_run / "lm"), "forbid_special_tokens": True},
            masked_lm=None,
            energies={"energy": {"kind": "encoder", "source": str(encoder), "training": TRAINING}},
        )
    )
    result = run(recipe, tmp_path / "run", progress=False)
    assert math.isfinite(result.energies["energy"].perplexity.upper)
    assert list(result.seconds) == ["lm", "windows", "negatives", "energy", "perplexity", "samples"]
    assert CausalLM.from_pretrained(tmp_path / "run" / "lm").forbidden_tokens == (0, 1, 2)
    assert EnergyModel.from_pretrained(tmp_path / "run" / "energy").features is None
    assert "features" not in negatives_table(tmp_path / "run").column_names


def test_a_corpus_shorter_than_a_window_is_told_before_anything_is_trained(tmp_path):
    texts = write_corpus(tmp_path / "texts", documents=10, sentences=1)
    windows = {"prefix": 200, "continuation": 200}
    transformer = residual_recipe(texts)["lm"]["train"] | {"max_length": 512}
    short = residual_recipe(
        texts,
        windows=windows,
        lm={"train": transformer},
        masked_lm=None,
        energies={"states": ENERGIES["states"]},
    )
    with pytest.raises(LexergyError, match=r"train documents of .*: The longest of \d+ documents has \d+ tokens"):
        run(ResidualRecipe.model_validate(short), tmp_path / "run", progress=False)
    assert not (tmp_path / "run" / "lm").exists()
    with pytest.raises(LexergyError, match="not finished"):
        load_run(tmp_path / "run")


def test_what_is_not_a_finished_run(finished_run, tmp_path):
    with pytest.raises(LexergyError, match="is not a run"):
        load_run(tmp_path / "nowhere")
    folder = copy_of(finished_run, tmp_path)
    (folder / "perplexity" / MANIFEST).unlink()
    with pytest.raises(LexergyError, match="not finished"):
        load_run(folder)
    folder = Path(shutil.copytree(finished_run, tmp_path / "another"))
    manifest = json.loads((folder / "bit" / MANIFEST).read_text())
    (folder / "bit" / MANIFEST).write_text(json.dumps(manifest | {"key": "other"}))
    with pytest.raises(LexergyError, match="bit is newer"):
        load_run(folder)
