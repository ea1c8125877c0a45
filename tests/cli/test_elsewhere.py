"""Commands on a run that is at an address: made there by one machine, used by another."""

import json

import fsspec
import pytest
import yaml

from lexergy.cli.main import run_command
from toys.commands import json_of, mistake_of, output_of
from toys.places import another_machine


def test_a_run_on_s3_is_that_of_a_folder_and_every_machine_can_use_it(
    s3_place, tiny_run, tiny_recipe_file, monkeypatch, tmp_path, capsys
):
    texts = yaml.safe_load(tiny_recipe_file.read_text())
    source = texts["corpus"]["source"]
    bucket = s3_place.removesuffix("/run")
    fsspec.filesystem("s3").put(f"{source}/", f"{bucket}/texts/", recursive=True)
    recipe = tmp_path / "on-s3.yaml"
    recipe.write_text(yaml.safe_dump(texts | {"corpus": {**texts["corpus"], "source": f"{bucket}/texts"}}))

    made = json_of(["run", recipe, "--out", s3_place], capsys)
    assert made["energies"] == json.loads((tiny_run.parent / "summary.json").read_text())["energies"]
    assert made["report"] == f"{s3_place}/report.html"

    cache = another_machine(monkeypatch, tmp_path)
    options = ["--prompt", "the state", "--candidates", 4, "--max-new-tokens", 4, "--top-p", 1]
    here, there = (json_of(["generate", run, *options], capsys) for run in (tiny_run, s3_place))
    assert here == there
    filesystem = fsspec.filesystem("s3")
    filesystem.rm_file(f"{s3_place}/report.html")
    assert output_of(["report", s3_place], capsys).out == f"{s3_place}/report.html\n"
    assert b"<html" in filesystem.cat_file(f"{s3_place}/report.html")
    assert any(cache.rglob("run.json"))


def test_mistakes_name_the_address(s3_place, tiny_recipe_file, capsys):
    assert f"there is nothing at {s3_place}" in mistake_of(["generate", s3_place, "--prompt", "a"], capsys)
    assert mistake_of(["generate", "nothing://x/y", "--prompt", "a"], capsys).startswith("error: `nothing://` of")
    fsspec.filesystem("s3").pipe_file(f"{s3_place}/some.txt", b"text")
    message = mistake_of(["generate", s3_place, "--prompt", "a"], capsys)
    assert f"{s3_place} is not a run" in message
    assert "/storage/" not in message


@pytest.mark.parametrize(
    "command",
    [["arena", "make", "{run}", "--out", "s3://bucket/study"], ["mcmc", "x", "--plot", "s3://bucket/plot.png"]],
)
def test_what_must_be_here_is_not_written_to_folders_of_strange_names(command, tiny_run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run_command([part.format(run=tiny_run) for part in command]) != 0
    error = capsys.readouterr().err
    assert "s3://bucket" in error
    assert "Traceback" not in error
    assert not list(tmp_path.iterdir())
