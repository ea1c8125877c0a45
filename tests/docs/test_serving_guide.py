"""What the guide to serving tells readers to send is answered."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "serving.md"


def adapted(block: str, served) -> str:
    """For the toy that is served here."""
    replaced = block.replace("http://127.0.0.1:8000", served.url)
    return replaced.replace("SmolLM2-135M-Instruct-Q4_1+energy", served.joint).replace(
        "SmolLM2-135M-Instruct-Q4_1", served.base
    )


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl on this machine: the guide's commands are not run")
def test_commands_of_the_guide_are_answered(served):
    blocks = re.findall(r"^```bash\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    commands = [command for block in blocks for command in re.split(r"\n(?=curl )", adapted(block, served))]
    assert len(commands) >= 11
    for command in commands:
        result = subprocess.run(["bash", "-euc", command], capture_output=True, text=True, check=False)
        assert result.returncode == 0, (command, result.stdout, result.stderr)
        if result.stdout.startswith("{"):
            json.loads(result.stdout)
        else:
            assert result.stdout.strip().endswith("data: [DONE]") or result.stdout.startswith("# HELP")


def test_the_client_of_the_guide(served, capsys):
    (block,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict = {}
    exec(compile(adapted(block, served), str(GUIDE), "exec"), names)
    names["client"].close()
    assert float(capsys.readouterr().out.split()[-1]) >= 1
