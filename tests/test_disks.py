"""Disks that are full or may not be written, mounted for real where a mount namespace may be had."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from lexergy.testing import tiny_recipe, write_tiny_corpus

SCRIPT = Path(__file__).parent / "toys" / "disks.py"
NAMESPACE = ["unshare", "--mount"] if os.getuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]


def may_mount(place):
    with_disk = [*NAMESPACE, "mount", "-t", "tmpfs", "none", str(place)]
    try:
        return subprocess.run(with_disk, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def test_full_and_read_only(tmp_path):
    place = tmp_path / "disk"
    place.mkdir()
    if not may_mount(place):
        pytest.skip("no mount namespaces on this machine")
    recipe = tiny_recipe(write_tiny_corpus(tmp_path / "texts")).plain()
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(recipe))
    command = [*NAMESPACE, sys.executable, SCRIPT, tmp_path, place]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout.splitlines()[-1])
    for result in results["full"]:
        assert (result["status"], result["err"][:11]) == (1, "disk full: "), result
    assert results["room"]["status"] == 0
    assert results["written"] == results["read"]
    for name in ("again", "new"):
        assert results[name]["status"] == 2
        assert f"{place} cannot be written" in results[name]["err"] or "run cannot be written" in results[name]["err"]
