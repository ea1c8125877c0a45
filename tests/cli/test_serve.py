"""`lexergy serve` as a process of its own."""

import os
import re
import signal
import subprocess
import sys

import httpx
import pytest

from toys.commands import mistake_of
from toys.served import until


def test_serve_until_told_to_stop(tiny_run):
    command = [sys.executable, "-m", "lexergy", *["serve", str(tiny_run), "--port", "0", "--api-key", "key"]]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stderr.readline()
        url = re.match(r"(http://127\.0\.0\.1:\d+)/", line)[1]

        def ready() -> bool:
            try:
                return httpx.get(f"{url}/ready").status_code == 200
            except httpx.TransportError:
                return False

        until(ready, 120)
        body = {"model": "tiny-lm+second", "prompt": "our union", "max_tokens": 3}
        headers = {"Authorization": "Bearer key"}
        answer = httpx.post(f"{url}/v1/completions", json=body, headers=headers, timeout=30)
        assert answer.json()["usage"]["completion_tokens"] == 3
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 128 + signal.SIGTERM
        assert "Traceback" not in process.stderr.read()
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["serve", "nowhere"], "nowhere"),
        (["serve", "RUN", "--detector", "nowhere"], "no detector at `nowhere`"),
        (["serve", "RUN", "--queue", "0"], "`--queue` is 0"),
        (["serve", "RUN", "--api-key", ","], "`--api-key` is empty"),
        (["serve", "RUN", "--host", "192.0.2.1", "--api-key", "key"], "cannot be listened on"),
    ],
)
def test_mistakes(tiny_run, arguments, words, capsys):
    assert "LEXERGY_API_KEY" not in os.environ
    given = [str(tiny_run) if word == "RUN" else word for word in arguments]
    assert words in mistake_of(given, capsys)


def test_a_missing_extra_is_named(tiny_run, capsys, monkeypatch):
    monkeypatch.setattr("lexergy.serve.extra.PACKAGES", ("no_such_package",))
    assert "pip install 'lexergy[serve]'" in mistake_of(["serve", tiny_run], capsys)
