"""The README's Python example runs as it stands."""

import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_python_example_runs(capsys):
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    exec(compile(example, str(README), "exec"), {})
    assert re.search(
        r"LM \d+\.\d\d, joint at most \d+\.\d\d; \d+\.\d\d to \d+\.\d\d, ESS \d+ of 200", capsys.readouterr().out
    )
