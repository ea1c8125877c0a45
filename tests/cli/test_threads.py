import os

import pytest
import torch
import typer

from lexergy.cli.main import app
from lexergy.cli.threads import SHORT_WAIT, spin_shortly
from toys.commands import leaves, mistake_of, output_of


@pytest.fixture
def own_environment(monkeypatch):
    for name in [*SHORT_WAIT, "OMP_WAIT_POLICY", "OMP_NUM_THREADS", "MKL_NUM_THREADS"]:
        monkeypatch.setenv(name, "before")  # remembered, so that what the test sets is undone
        monkeypatch.delenv(name)
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def test_every_command_has_the_option():
    commands = dict(leaves(typer.main.get_command(app)))
    assert len(commands) > 20
    for name, command in commands.items():
        assert any("--threads" in parameter.opts for parameter in command.params), name


@pytest.mark.usefixtures("own_environment")
def test_the_option_is_obeyed_by_torch_and_by_what_is_started_later(capsys):
    output_of(["arena", "plan", "--threads", 2], capsys)
    assert os.environ["OMP_NUM_THREADS"] == "2"
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize(("number", "expected"), [(0, "at least 1"), (-1, "at least 1"), (10**30, "at most 4096")])
def test_impossible_numbers_are_refused(number, expected, capsys):
    message = mistake_of(["data", "ud-ewt", "--threads", number], capsys)
    assert f"`--threads` is {number}; expected {expected}" in message


@pytest.mark.usefixtures("own_environment")
@pytest.mark.parametrize("own", ["OMP_WAIT_POLICY", "GOMP_SPINCOUNT"])
def test_threads_spin_shortly_unless_somebody_says_otherwise(own, monkeypatch):
    spin_shortly()
    assert {name: os.environ[name] for name in SHORT_WAIT} == SHORT_WAIT
    for name in SHORT_WAIT:
        monkeypatch.delenv(name)
    monkeypatch.setenv(own, "7")
    spin_shortly()
    assert os.environ[own] == "7"
    assert not (SHORT_WAIT.keys() - {own}) & os.environ.keys()
