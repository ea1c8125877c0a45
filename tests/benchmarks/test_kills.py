"""A few kills of short commands; `make kills` makes 200 of all."""

import subprocess
import sys
from pathlib import Path

KILLS = Path(__file__).parents[2] / "benchmarks" / "kills.py"


def test_what_was_killed_ends_the_same():
    command = [sys.executable, KILLS, "--seed", "1", "--kills", "4", "--only", "arena", "--only", "rescore"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "nothing lost, nothing doubled, nothing changed" in result.stdout.splitlines()[-1]
