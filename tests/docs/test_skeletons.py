"""What CONTRIBUTING.md gives to copy works as it stands: its blocks are written into a copy of the package and run."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import lexergy
from lexergy.testing import tiny_recipe, write_tiny_corpus

ROOT = Path(__file__).parents[2]
WRITE, PLACE = re.compile(r"# new file: (\S+)\n"), re.compile(r"# (\S+), (in|before) (.+)\n")

TRAIN = """
from lexergy import ResidualRecipe, run
from lexergy.testing import tiny_recipe, write_tiny_corpus

plain = tiny_recipe(write_tiny_corpus("texts")).plain()
training = plain["energies"]["states"]["training"]
plain["energies"] = {{"mine": {energy}}}
result = run(ResidualRecipe.model_validate(plain), "runs/mine", progress=False)
perplexity = result.energies["mine"].perplexity
assert 1 < perplexity.lower <= perplexity.upper
"""


@pytest.fixture
def house(tmp_path) -> Path:
    """A copy of the package, to be built on."""
    source = Path(lexergy.__file__).parent
    shutil.copytree(source, tmp_path / "src" / "lexergy", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_an_energy(house):
    build(house, "An energy")
    python(house, "-c", TRAIN.format(energy='{"kind": "edges", "training": training}'))
    command = ("generate", "runs/mine", "--prompt", "our union", "--candidates", "8", "--max-new-tokens", "4")
    assert "Joint model" in python(house, "-m", "lexergy", *command)


def test_an_objective(house):
    build(house, "An objective")
    energy = '{"kind": "linear", "objective": {"loss": "least_squares"}, "training": training}'
    python(house, "-c", TRAIN.format(energy=energy))


def test_a_study(house):
    build(house, "A study")
    recipe = tiny_recipe(write_tiny_corpus(house / "texts"))
    (house / "tiny.yaml").write_text(yaml.safe_dump(recipe.plain()), encoding="utf-8")
    python(house, "-m", "lexergy", "reproduce", "sample-sizes", "--recipe", "tiny.yaml", "--energy", "states")
    page = (house / "results" / "sample-sizes.md").read_text(encoding="utf-8")
    assert "A tenth of the samples counts." in page
    assert (house / "results" / "sample-sizes.png").is_file()


def build(house: Path, heading: str) -> None:
    """Put the blocks below a heading of CONTRIBUTING.md where their first lines say."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.split(f"\n### {heading}\n")[1].split("\n### ")[0]
    blocks = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    assert blocks
    for block in blocks:
        if new := WRITE.match(block):
            path = house / new[1]
            assert not path.exists(), f"{new[1]} exists; the skeleton needs another name"
            path.write_text(block[new.end() :], encoding="utf-8")
        else:
            place = PLACE.match(block)
            assert place, f"the first line does not say where this belongs: {block.splitlines()[0]}"
            insert(house / place[1], block[place.end() :], place[2], place[3])


def insert(path: Path, block: str, where: str, anchor: str) -> None:
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    (number,) = (number for number, line in enumerate(lines) if re.match(rf"{re.escape(anchor)}\b", line))
    if where == "in":
        assert lines[number].rstrip().endswith("{"), f"{anchor} opens no table"
        lines.insert(number + 1, block)
    else:
        lines.insert(number, block + "\n\n")
    path.write_text("".join(lines), encoding="utf-8")


def python(house: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(house / "src"), "OMP_NUM_THREADS": "1"}
    result = subprocess.run(
        [sys.executable, *arguments], cwd=house, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout
