"""An option that several verbs have means the same in all of them."""

import pytest
import typer

from lexergy.cli.main import app
from toys.commands import leaves


@pytest.mark.parametrize(
    ("option", "verbs"),
    [
        ("--energy", {"generate", "perplexity", "next-token", "rerank", "lm-eval", "arena make", "reproduce"}),
        ("--text", {"explain"}),
        ("--seeds", {"reproduce"}),
        ("--num-seeds", {"finetune train"}),
        ("--target", {"mcmc"}),
    ],
)
def test_who_has_an_option(option, verbs):
    """The energy by its name among a run's or recipe's; a text itself; which seeds; how many; what is sampled from."""
    commands = leaves(typer.main.get_command(app))
    assert {name for name, command in commands if any(option in param.opts for param in command.params)} == verbs
