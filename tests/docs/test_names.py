"""What the documentation names is there: paths, modules and what they define, tests, links, guides that run."""

import importlib
import re
import shlex
from pathlib import Path

import pytest

from toys.commands import parse

ROOT = Path(__file__).parents[2]
ROOMS = ("core", "data", "recipes", "runs", "models", "training", "tasks", "report", "studies", "serve", "cli")
PAGES = sorted(
    [
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "docs" / "guides").glob("*.md"),
        *(ROOT / "docs" / "results").glob("*.md"),
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
    ]
)
PATH = re.compile(r"(?:src|tests|docs|benchmarks|\.ci)/[\w./-]*\w")
NAME = re.compile(rf"(?:lexergy\.)?(?:{'|'.join(ROOMS)}|testing)(?:\.\w+)+")
TESTS = {
    name: path
    for path in sorted((ROOT / "tests").rglob("test_*.py"))
    for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
}


def quoted(page: Path) -> list[str]:
    """What stands between backticks, fenced blocks aside."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"`([^`\n]+)`", text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_names_exists(page):
    missing = [f"{span}: {wrong}" for span in quoted(page) for wrong in wrong_names(span)]
    assert missing == []


def wrong_names(span: str) -> list[str]:
    wrong = [path for path in PATH.findall(span) if not (ROOT / path).exists()]
    wrong += [name for name in re.findall(r"\btest_\w+(?!\w*\.py)\b", span) if name not in TESTS and ".py" not in span]
    wrong += [name for path, name in re.findall(r"(\S+\.py)::(\w+)", span) if TESTS.get(name) != ROOT / path]
    if NAME.fullmatch(span.split("(")[0]):
        wrong += [] if resolves(span.split("(")[0]) else [span]
    return wrong


def resolves(dotted: str) -> bool:
    """Whether a dotted name is a module of the package, or something that a module defines."""
    parts = dotted.removeprefix("lexergy.").split(".")
    for count in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(["lexergy", *parts[:count]]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if "://" not in target and not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_can_be_given(page):
    """Every command of a block has a verb, options and arguments that exist."""
    blocks = re.findall(r"^```\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.replace("\\\n", "").splitlines()]
    for line in lines:
        if command := re.match(r"\s*(?:\$ |\.venv/bin/|accelerate launch .*-m )?lexergy (.*)", line):
            parse(shlex.split(command[1], comments=True))


def test_the_python_guide_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    guide = ROOT / "docs" / "guides" / "python.md"
    names: dict[str, object] = {"__name__": "guide"}
    for kind, block in re.findall(r"```(python|text)\n(.*?)```", guide.read_text(encoding="utf-8"), re.DOTALL):
        if kind == "python":
            exec(compile(block, str(guide), "exec"), names)
            printed = capsys.readouterr().out
        else:
            assert printed == block
