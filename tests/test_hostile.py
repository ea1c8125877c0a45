"""What is kept from running, leaving its folder, or being taken for what it is not; each a promise of its own."""

import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import lexergy
from lexergy import CausalLM, ResidualEBM, SumEnergy
from lexergy.cli.main import run_command
from lexergy.errors import LexergyError
from lexergy.files import atomic_path, final_name, inside, read_json
from lexergy.models.energies import EnergyModel, LinearEnergy
from lexergy.models.energies.tokens import LinearEnergyConfig
from lexergy.runs.records import load_run
from lexergy.tasks.residual.run import run
from lexergy.testing import EnumerableLM, tiny_recipe, write_tiny_corpus
from toys.commands import mistake_of


@pytest.fixture(scope="module")
def small_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    run(tiny_recipe(write_tiny_corpus(folder / "texts")), folder / "run", progress=False)
    return folder / "run"


@pytest.fixture
def copy(small_run, tmp_path):
    return shutil.copytree(small_run, tmp_path / "copy")


class Evil:
    def __reduce__(self):
        return os.mkdir, ("unpickled",)


def test_nothing_is_unpickled(copy, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("pytorch_model.bin", "model.safetensors", "training_args.bin"):
        (copy / "lm" / name).write_bytes(pickle.dumps(Evil()))
    with pytest.raises(LexergyError, match="missing, truncated or damaged"):
        CausalLM.from_pretrained(copy / "lm")
    (copy / "lm" / "model.safetensors").unlink()
    with pytest.raises(LexergyError, match="pickled weights are not read"):
        CausalLM.from_pretrained(copy / "lm")
    assert not (tmp_path / "unpickled").exists()


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/../../x", ".."])
def test_paths_from_files_stay_inside(name, copy):
    with pytest.raises(LexergyError, match="expected something inside"):
        inside(copy, name)
    content = json.loads((copy / "run.json").read_text())
    content["stages"][name] = "0"
    (copy / "run.json").write_text(json.dumps(content))
    with pytest.raises(LexergyError, match="expected something inside"):
        load_run(copy)


@pytest.mark.parametrize(
    "file", ["run.json", "lm/stage.json", "lm/lexergy_lm.json", "lm/config.json", "states/history.json"]
)
@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 10**5, b'{"a": ' + b"9" * 5000 + b"}"])
def test_damaged_files_of_a_run_are_named(file, content, copy, capsys):
    (copy / file).write_bytes(content)
    message = mistake_of(["generate", copy, "--prompt", "our union", "--candidates", 4, "--max-new-tokens", 2], capsys)
    assert file.rpartition("/")[2] in message or "lm" in message


def test_a_run_repairs_itself(copy, small_run, tmp_path):
    (copy / "lm" / "stage.json").write_text("{")
    (copy / "lm" / "lexergy_lm.json").unlink()
    (copy / "perplexity" / "weights" / "shard-000000.parquet").unlink()
    recipe = load_run(small_run).recipe
    run(recipe, copy, progress=False)
    kept, again = load_run(small_run), load_run(copy)
    assert again.energies["states"].perplexity.bound == kept.energies["states"].perplexity.bound
    assert (copy / "lm" / "model.safetensors").read_bytes() == (small_run / "lm" / "model.safetensors").read_bytes()


def test_a_sum_that_is_its_own_part(tmp_path):
    energy = LinearEnergy(LinearEnergyConfig(vocab_size=7))
    energy.save_pretrained(tmp_path / "linear")
    SumEnergy.of([tmp_path / "linear"]).save_pretrained(tmp_path / "sum")
    shutil.copytree(tmp_path / "sum", tmp_path / "linear", dirs_exist_ok=True)  # a circle of two
    config = json.loads((tmp_path / "linear" / "config.json").read_text())
    (tmp_path / "linear" / "config.json").write_text(json.dumps(config | {"parts": ["../sum"]}))
    with pytest.raises(LexergyError, match="part of itself"):
        EnergyModel.from_pretrained(tmp_path / "sum")


def test_python_mistakes():
    with pytest.raises(LexergyError, match="the LM is a NoneType; expected a CausalLM"):
        ResidualEBM(None, lambda tokens: tokens.sum(-1))
    lm = EnumerableLM()
    strict = ResidualEBM(CausalLM(lm.model, forbidden_tokens=(3,)), lambda tokens: 0.0 * tokens.sum(-1))
    with pytest.raises(LexergyError, match="row 1 holds a token that the LM may not write"):
        strict.perplexity(torch.tensor([[1, 2, 4, 5], [1, 2, 3, 4]]), prefix_length=2, num_samples=4)
    for seed in (-1, 0.5):
        with pytest.raises(LexergyError, match="`seed` is"):
            strict.generate([1, 2], num_candidates=4, max_new_tokens=2, seed=seed)


def test_half_written_names_are_not_shown(tmp_path):
    with atomic_path(tmp_path / "result.json") as partial:
        partial.write_text("x")
        assert final_name(str(partial)) == str(tmp_path / "result.json")
    assert final_name("/some/file.partial") == "/some/file.partial"


def test_json_of_the_wrong_kind(tmp_path):
    (tmp_path / "list.json").write_text("[1]")
    with pytest.raises(LexergyError, match=r"list\.json` holds a JSON list; expected an object"):
        read_json(tmp_path / "list.json", dict)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["generate", "RUN", "--prompt", "caf\udce9"], "is not UTF-8 text"),
        (["run", "none.yaml", "--out", ""], "`--out` is the current folder"),
        (["run", "none.yaml", "--out", "/dev/null/x"], "cannot be written"),
        (["explain", "none", "--text", "x", "--html", "/dev/null/x.html"], "cannot be written"),
        (["explain", "none", "--text", "x", "--html", "/proc/x.html"], "/proc cannot be written"),
        (["explain", "none", "--text", "x", "--html", "."], "a folder; expected a file"),
        (["generate", "RUN", "--prompt", "x", "--candidates", "9" * 30], "expected at most 1048576"),
        (["generate", "RUN", "--prompt", "x", "--seed", "9" * 30], "expected at most"),
        (["score", "nope", "none.txt"], "none.txt: No such file"),
    ],
)
def test_refused_before_any_work(arguments, message, capsys):
    assert message in mistake_of(arguments, capsys)


def test_scorers_are_suggested_where_scores_are_asked_for(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    (tmp_path / "text.txt").write_text("our union\n")
    message = mistake_of(["score", "nope", tmp_path / "text.txt"], capsys)
    assert "smollm2-135m, " in message
    assert "trigram" in message
    assert "minilm" not in message


def test_sigterm_is_told():
    ready = "import sys; from lexergy.cli.main import main; sys.stderr.write('ready\\n'); sys.stderr.flush(); main()"
    command = [sys.executable, "-c", ready, "generate", "none", "--prompt", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr.readline() == "ready\n"
        time.sleep(1.0)  # it now waits for the prompt on stdin
        process.send_signal(signal.SIGTERM)
        _, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (143, "stopped\n")


@pytest.mark.parametrize(
    ("closed", "status", "message"), [("<&-", 2, b"prompt is empty"), (">&-", 1, b"output is closed")]
)
def test_closed_streams(closed, status, message):
    command = f"exec {sys.executable} -m lexergy generate none --prompt - {closed}"
    result = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, check=False)
    assert result.returncode == status
    assert message in result.stderr
    assert b"Traceback" not in result.stderr


def test_every_mistake_has_one_status(capsys, tmp_path):
    for arguments in (["score", "none", "none.txt"], ["run", "none.yaml"], ["generate", "none", "--prompt", "x"]):
        assert run_command(arguments) == 2
    capsys.readouterr()


def test_what_a_killed_command_left_beside_its_file_is_removed(tmp_path, capsys):
    names = [f".{name}.999999-0123abcd-0123abcd.partial" for name in ("page.html", "other.html")]
    for name in names:
        (tmp_path / name).write_text("x")
    mistake_of(["explain", "none", "--text", "x", "--html", tmp_path / "page.html"], capsys)
    assert [path.name for path in tmp_path.iterdir()] == names[1:]


DANGEROUS = re.compile(
    r"\b(import|from) (pickle|cloudpickle|dill|shelve|marshal|joblib)\b|torch\.load\(|yaml\.(unsafe_)?load\("
    r"|trust_remote_code=(?!False)|allow_pickle=(?!False)"
)
BETWEEN_OWN_PROCESSES = {"runs/transport.py", "runs/ray_engine.py"}  # Ray's messages, which are in no file


def test_nothing_in_the_source_unpickles_a_file_or_runs_its_code():
    source = Path(lexergy.__file__).parent
    found = {path.relative_to(source).as_posix() for path in source.rglob("*.py") if DANGEROUS.search(path.read_text())}
    assert found == BETWEEN_OWN_PROCESSES
