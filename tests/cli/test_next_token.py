"""`lexergy next-token` on a tiny run."""

from lexergy.cli.main import run_command
from toys.commands import json_of


def test_next_token(tiny_run, capsys):
    arguments = ["next-token", tiny_run, "--prompt", "our union", "--candidates", 6]
    arguments += ["--samples", 8, "--horizon", 4, "--top", 3]
    result = json_of(arguments, capsys)
    joint = [entry["joint"] for entry in result["entries"]]
    assert len(joint) == 3
    assert joint == sorted(joint, reverse=True)
    assert run_command(list(map(str, arguments))) == 0
    text = capsys.readouterr().out
    assert repr(result["entries"][0]["text"]) in text
    assert "6 likeliest tokens" in text
