"""`lexergy data` with data that a package holds."""

from pathlib import Path

from toys.commands import json_of, output_of


def test_the_paths_of_the_data_are_told(own_cache, capsys):
    lines = output_of(["data", "sotu-tasks"], capsys).out.splitlines()
    assert sorted(map(str, own_cache.rglob("*.jsonl"))) == sorted(lines)
    paths = json_of(["data", "sotu-tasks"], capsys)
    assert list(paths.values()) == lines
    assert all(Path(path).stem == name for name, path in paths.items())
