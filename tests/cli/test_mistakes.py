"""Mistakes in an input end in a line or two on stderr and a non-zero status, never in a traceback."""

import errno
import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext

import pytest

from lexergy.cli.main import run_command
from lexergy.cli.verbs import run as run_verb
from lexergy.errors import LexergyError
from lexergy.runs.workspace import open_workspace
from toys.commands import mistake_of

PROMPT = ["--prompt", "our union"]


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["generate", "RUN", *PROMPT, "--top-k", 0], ["`--top-k` is 0", "at least 1", "--top-p 1"]),
        (["generate", "RUN", *PROMPT, "--top-p", 0], ["`--top-p` is 0", "at most 1"]),
        (["generate", "RUN", *PROMPT, "--top-p", 1.5], ["`--top-p` is 1.5"]),
        (["generate", "RUN", *PROMPT, "--top-p", "nan"], ["`--top-p` is nan"]),
        (["generate", "RUN", *PROMPT, "--temperature", 0], ["`--temperature` is 0", "1 leaves"]),
        (["generate", "RUN", *PROMPT, "--temperature", "inf"], ["`--temperature` is inf"]),
        (["generate", "RUN", *PROMPT, "--candidates", 1], ["`--candidates` is 1", "at least 2"]),
        (["generate", "RUN", *PROMPT, "--max-new-tokens", 0], ["`--max-new-tokens` is 0"]),
        (["generate", "RUN", *PROMPT, "--seed", -1], ["`--seed` is -1"]),
        (["generate", "RUN", *PROMPT, "--show", -1], ["`--show` is -1"]),
        (["generate", "RUN", *PROMPT, "--max-candidates", 99], ["without `--target-ess`"]),
        (["generate", "RUN", "--prompt", " "], ["prompt is empty", "--prompt -"]),
        (["next-token", "RUN", "--prompt", ""], ["prompt is empty"]),
        (["next-token", "RUN", *PROMPT, "--horizon", 0], ["`--horizon` is 0"]),
        (["perplexity", "RUN", "--samples", 1], ["`--samples` is 1", "leave it out"]),
        (["perplexity", "RUN", "--windows", 3], ["`--windows` was given without `--samples`"]),
        (["perplexity", "RUN", "--seed", 3], ["`--seed` was given without `--samples`"]),
        (["generate", "RUN"], ["--prompt", "lexergy generate --help"]),
        (["generate", "RUN", *PROMPT, "--top-k", "ten"], ["--top-k", "integer"]),
        (["reproduce", "table-9"], ["no study `table-9`", "expected one of table-1, table-1-deep"]),
        (["reproduce", "figure-1", "--size", "huge"], ["--size", "huge", "paper"]),
        (["reproduce", "figure-1", "--seeds", "0"], ["`--seeds` is 0", "`0,` is the seed 0"]),
        (["reproduce", "figure-1", "--seeds", "1,x"], ["`--seeds` is 1,x", "as in 0,1,2"]),
        (["reproduce", "figure-1", "--seeds", "1,1"], ["`--seeds` is 1,1", "each seed once"]),
        (["reproduce", "figure-1", "--set", "samples"], ["`--set` is samples", "as in windows=500"]),
        (["reproduce", "figure-1", "--set", "sample=9"], ["no setting `sample`", "expected one of"]),
        (["reproduce", "figure-1", "--recipe", "nowhere.yaml"], ["no recipe `nowhere.yaml`"]),
        (["reproduce", "figure-1", "--recipe", "quickstart"], ["has no energy `bit`", "`--energy`"]),
        (["genrate"], ["genrate", "Did you mean 'generate'?"]),
    ],
)
def test_wrong_options(arguments, parts, capsys):
    message = mistake_of(arguments, capsys)
    assert message.startswith("error: ")
    for part in parts:
        assert part in message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["score", "none/at/all", "TEXT"], "does not exist"),
        (["rescore", "LIST", "--model", "MODEL"], "neither of `--dev` and `--lambda`"),
        (["rescore", "LIST", "--model", "MODEL", "--lambda", "0"], "`--lambda` is 0"),
        (["rescore", "LIST", "--model", "MODEL", "--lambda", "1", "--relative", "much"], "`--relative` is much"),
        (["rescore", "LIST", "--model", "MODEL", "--lambda", "1", "--relative", "auto"], "expected a dev list"),
        (["rescore", "TEXT", "--model", "MODEL", "--lambda", "1"], "is no valid JSON"),
        (
            ["rescore", "LIST", "--model", "MODEL", "--lambda", "1", "--metric", "rouge"],
            "expected one of wer, bleu, chrf",
        ),
        (["rescore", "LIST", "--model", "MODEL", "--lambda", "1", "--out", "x.txt"], "ends in .json or .jsonl"),
        (["explain", "MODEL"], "neither of `--text` and `--file`"),
        (["explain", "MODEL", "--text", " "], "the text is empty"),
        (["data", "nothing"], "expected one of: librispeech-nbest"),
        (["pretrain", "none.yaml"], "no recipe"),
    ],
    ids=lambda value: "-".join(value[:1] + value[-1:]).replace("/", "_") if isinstance(value, list) else None,
)
@pytest.mark.usefixtures("own_cache")
def test_wrong_inputs(cloze_run, nbest_files, tmp_path, capsys, arguments, message):
    text = tmp_path / "broken.json"
    text.write_text("{no json")
    places = {"MODEL": str(cloze_run / "electric"), "LIST": str(nbest_files["test"]), "TEXT": str(text)}
    assert message in mistake_of([places.get(argument, argument) for argument in arguments], capsys)


def test_a_file_that_is_not_there(cloze_run, capsys):
    message = mistake_of(["score", cloze_run / "electric", "none.txt"], capsys)
    assert message.startswith("error: none.txt: No such file")


@pytest.mark.parametrize("verb", ["generate", "perplexity", "next-token", "report"])
def test_folder_that_is_not_a_run(verb, tmp_path, capsys):
    more = PROMPT if verb in ("generate", "next-token") else []
    for folder in (tmp_path, tmp_path / "missing"):
        message = mistake_of([verb, folder, *more], capsys)
        assert f"{folder} is not a run" in message
        assert "lexergy quickstart" in message


def stub_run(monkeypatch, tmp_path, error, keeps=False):
    """A recipe whose run fails with the given error, with or without a folder that it keeps its work in."""

    def fail(recipe, folder, *, as_json):
        with open_workspace(folder, seed=0) if keeps else nullcontext():
            raise error

    monkeypatch.setattr(run_verb, "run_and_show", fail)
    return ["run", "quickstart", "--out", str(tmp_path)]


def test_full_disk(monkeypatch, tmp_path, capsys):
    arguments = stub_run(monkeypatch, tmp_path, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "shard-3"))
    assert mistake_of(arguments, capsys, status=1).startswith("disk full: ")


def test_full_disk_seen_through_a_library(monkeypatch, tmp_path, capsys):
    wrapped = RuntimeError("Error while serializing")
    wrapped.__cause__ = OSError(errno.ENOSPC, "no room")
    for error in (wrapped, RuntimeError("I/O error: No space left on device (os error 28)")):
        arguments = stub_run(monkeypatch, tmp_path, error)
        assert mistake_of(arguments, capsys, status=1).startswith("disk full: ")


def test_ctrl_c_says_how_to_go_on_where_something_is_kept_and_nowhere_else(monkeypatch, tmp_path, capsys):
    for keeps, message in ((True, "stopped; run the same command again to go on\n"), (False, "stopped\n")):
        arguments = stub_run(monkeypatch, tmp_path, KeyboardInterrupt(), keeps)
        assert run_command(arguments) == 130
        assert capsys.readouterr().err == message


def test_files_that_cannot_be_opened_are_named(monkeypatch, tmp_path, capsys):
    arguments = stub_run(monkeypatch, tmp_path, PermissionError(errno.EACCES, "Permission denied", "/data/lm"))
    assert mistake_of(arguments, capsys, status=1).startswith("error: /data/lm: Permission denied")


def test_a_group_without_a_verb_shows_its_help(capsys):
    assert run_command(["detect"]) == 2
    assert capsys.readouterr().err.startswith("Usage: lexergy detect ")


def test_a_bug_shows_its_traceback(monkeypatch, tmp_path):
    with pytest.raises(ZeroDivisionError):
        run_command(stub_run(monkeypatch, tmp_path, ZeroDivisionError()))


def test_debug_shows_everything(monkeypatch, tmp_path):
    arguments = stub_run(monkeypatch, tmp_path, LexergyError("wrong"))
    monkeypatch.setenv("LEXERGY_DEBUG", "1")
    with pytest.raises(LexergyError):
        run_command(arguments)


# A shell starts background jobs with SIGINT ignored, which a test's children would inherit.
READY = """
import signal, sys
from lexergy.cli.main import main
signal.signal(signal.SIGINT, signal.default_int_handler)
print("ready", file=sys.stderr, flush=True)
main()
"""


def test_ctrl_c_from_outside():
    command = [sys.executable, "-c", READY, "generate", "runs/none", "--prompt", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr.readline() == "ready\n"
        time.sleep(0.3)  # it now waits for the prompt on stdin
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=20)
        assert process.returncode == 130
    assert error == "stopped\n"


def version_to(stdout):
    """Run a command whose output waits in Python's buffer until the end."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-m", "lexergy", "--version"]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, env=environment, text=True, check=False)


def test_output_to_a_full_disk():
    with open("/dev/full", "w") as full:
        result = version_to(full)
    assert result.returncode == 1
    assert result.stderr.startswith("disk full: ")
    assert len(result.stderr.splitlines()) == 1


def test_reader_that_has_gone():
    read, write = os.pipe()
    os.close(read)
    result = version_to(write)
    os.close(write)
    assert (result.returncode, result.stderr) == (1, "")
