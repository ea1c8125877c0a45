"""What a processor announces and does not have.

Some virtual machines announce tiles (AMX) and hide the part of CPUID that says how large they are. oneDNN, which torch
and OpenVINO compute with, takes them for empty there, and the first product in bfloat16 ends the process.
"""

import os
from pathlib import Path

ALL_BUT_TILES = "AVX512_CORE_FP16"  # oneDNN's name
_TILE_SIZES = 0x1D  # the leaf of CPUID


def avoid_empty_tiles(facts: Path = Path("/proc/cpuinfo")) -> None:
    """Keep oneDNN from such tiles, unless somebody has said what it may use; it reads this at its first product."""
    if facts.exists() and _announces_empty_tiles(facts.read_text()):
        os.environ.setdefault("ONEDNN_MAX_CPU_ISA", ALL_BUT_TILES)


def _announces_empty_tiles(facts: str) -> bool:
    lines = (line.partition(":") for line in facts.split("\n\n", 1)[0].splitlines())  # of the first core
    values = {name.strip(): value.strip() for name, _, value in lines}
    last_leaf = values.get("cpuid level", "")
    return "amx_tile" in values.get("flags", "").split() and last_leaf.isdigit() and int(last_leaf) < _TILE_SIZES
