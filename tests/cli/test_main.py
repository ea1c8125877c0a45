"""What the command does whatever the verb: help, start-up, warnings."""

import ast
import os
import re
import resource
import shlex
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import typer

from lexergy.cli.main import app, quieten_libraries, run_command
from toys.commands import output_of, parse


def commands(group=None, path=()):
    """Every verb and verb of a verb, as the words that call it."""
    for name, command in (group or typer.main.get_command(app)).commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name)


COMMANDS = list(commands())
EVERY_COMMAND = pytest.mark.parametrize("command", COMMANDS, ids=" ".join)


def test_the_verbs():
    assert {command[0] for command in COMMANDS} >= {"quickstart", "run", "generate", "detect", "finetune"}
    assert {("detect", "files"), ("detect", "train"), ("finetune", "train"), ("finetune", "predict")} <= set(COMMANDS)


@EVERY_COMMAND
def test_every_command_is_called_in_the_tests_of_its_verb(command):
    """A list of arguments that begins with its words, in a file named after the verb."""
    paths = Path(__file__).parent.glob(f"test_{command[0].replace('-', '_')}*.py")
    nodes = [node for path in paths for node in ast.walk(ast.parse(path.read_text()))]
    lists = [node.elts for node in nodes if isinstance(node, ast.List)]
    words = [tuple(word.value for word in words[: len(command)] if isinstance(word, ast.Constant)) for words in lists]
    assert command in words


@EVERY_COMMAND
def test_examples_in_help_can_be_given(command, capsys):
    text = output_of([*command, "--help"], capsys).out
    lines = re.split("Examples?:|Arguments:|Options:", text)[1].splitlines()
    assert all(len(line) <= 100 for line in lines)
    examples = "\n".join(lines).replace("\\\n", "").strip().splitlines()
    assert examples
    for example in examples:
        _, verb, words = example.partition(f"lexergy {command[0]}")
        assert verb
        parse([command[0], *shlex.split(words.partition(" > ")[0])])


def test_no_arguments_shows_help(capsys):
    assert run_command([]) == 0
    assert "quickstart" in capsys.readouterr().out


def test_help_is_quick_and_imports_nothing_heavy():
    heavy = ["torch", "transformers", "datasets", "matplotlib", "pyarrow", "numpy", "rich", "jinja2"]
    program = (
        "import sys; from lexergy.cli.main import run_command; run_command(['--help']); "
        "run_command(['generate', '--help']); "
        f"print([name for name in {heavy} if name in sys.modules], file=sys.stderr)"
    )
    seconds = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert result.stderr.strip() == "[]"
        # Processor time: the clock on the wall depends on what else the machine does.
        seconds.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    assert min(seconds) < 0.5


@pytest.mark.parametrize("module", ["models.scoring.kinds", "models.detection.detector", "tasks.residual.run"])
def test_a_command_starts_without_libraries_that_it_may_never_need(module):
    unneeded = ["pandas", "sklearn", "matplotlib", "scipy.stats", "openvino", "fastapi", "ray"]
    program = f"import sys, lexergy.{module}; print([name for name in {unneeded} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_only_warnings_of_lexergy_are_shown(capsys, monkeypatch):
    monkeypatch.setattr(os, "environ", os.environ.copy())
    monkeypatch.delenv("LEXERGY_DEBUG", raising=False)
    with warnings.catch_warnings():
        quieten_libraries()
        warnings.warn_explicit("k-hat is high", UserWarning, "residual.py", 1, module="lexergy.models.joint.model")
        warnings.warn_explicit("chatter", UserWarning, "nn.py", 1, module="torch.nn")
    assert capsys.readouterr().err == "warning: k-hat is high\n"
    assert os.environ["TRANSFORMERS_VERBOSITY"] == "error"
