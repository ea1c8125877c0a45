"""The guide of lm-eval: its task is written down as it stands there, and evaluated."""

import re
from pathlib import Path

from toys.commands import json_of

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "lm-eval.md"


def test_the_task_of_the_guide_runs(tiny_run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = GUIDE.read_text(encoding="utf-8")
    Path("my-tasks").mkdir()
    for kind, name in (("json", "pairs.jsonl"), ("yaml", "pairs.yaml")):
        (block,) = re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL)
        Path("my-tasks", name).write_text(block)
    arguments = ["lm-eval", tiny_run, "--tasks", "pairs", "--include-path", "my-tasks", "--samples", 30]
    (row,) = json_of(arguments, capsys)["result"]["metrics"]
    assert (row["metric"], row["num_items"]) == ("acc", 3)
