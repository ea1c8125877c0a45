import os
import subprocess
import sys
from pathlib import Path

import pytest

from lexergy.processor import ALL_BUT_TILES, avoid_empty_tiles

CORE = "processor\t: {number}\ncpuid level\t: {level}\nflags\t\t: fpu avx512_bf16 {flags}\n\n"
PRODUCT = """
import lexergy, torch
left = torch.ones(64, 64, dtype=torch.bfloat16)
print(float((left @ left).sum()))
"""


def facts_of(folder: Path, flags: str, level: int) -> Path:
    path = folder / "cpuinfo"
    path.write_text("".join(CORE.format(number=number, level=level, flags=flags) for number in range(2)))
    return path


@pytest.mark.parametrize(
    ("flags", "level", "expected"),
    [
        ("amx_tile amx_bf16", 0x1C, ALL_BUT_TILES),
        ("amx_tile amx_bf16", 0x1D, None),
        ("amx_tile amx_bf16", 0x20, None),
        ("avx_vnni", 0x1C, None),
    ],
)
def test_tiles_of_unknown_size_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: str, level: int, expected: str | None
) -> None:
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    avoid_empty_tiles(facts_of(tmp_path, flags, level))
    assert os.environ.pop("ONEDNN_MAX_CPU_ISA", None) == expected


def test_what_somebody_has_set_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    avoid_empty_tiles(facts_of(tmp_path, "amx_tile", 0x1C))
    assert os.environ["ONEDNN_MAX_CPU_ISA"] == "AVX2"


def test_a_system_without_such_facts_is_no_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    avoid_empty_tiles(tmp_path / "missing")
    assert "ONEDNN_MAX_CPU_ISA" not in os.environ


def test_products_in_bfloat16_do_not_end_the_process() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "ONEDNN_MAX_CPU_ISA"}
    done = subprocess.run([sys.executable, "-c", PRODUCT], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "262144.0")
