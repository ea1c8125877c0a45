"""Memory that is not needed for now, given back to the system: weights that are only mapped from their file.

Weights in a safetensors file are mapped and not copied. Once read they count as the process's memory, though the system
has them in the file, and the graphs of a sampler have weights of their own.
"""

import ctypes
import mmap
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from torch import nn

MAPS, SMAPS = Path("/proc/self/maps"), Path("/proc/self/smaps")
_OF_THE_PROCESS = ("Anonymous", "Swap")  # pages that have been written to: no file has them


class _Span(NamedTuple):
    """A part of a file in the memory of this process."""

    start: int
    end: int


def give_back(model: nn.Module) -> None:
    """Pages of the model's weights that are as in their file, which come again when they are read."""
    if not sys.platform.startswith("linux"):
        return
    library = ctypes.CDLL(None)
    for start, end in _unchanged(_holding(model)):
        library.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), mmap.MADV_DONTNEED)


def _holding(model: nn.Module) -> set[_Span]:
    """The parts of files that have weights of the model."""
    weights = [(weight.data_ptr(), weight.data_ptr() + weight.nbytes) for weight in model.parameters()]
    spans = filter(None, map(_span, MAPS.read_text().splitlines()))
    return {span for span in spans if any(span.start <= first and last <= span.end for first, last in weights)}


def _unchanged(spans: set[_Span]) -> Iterator[_Span]:
    """Those of which no page has been written to."""
    span, clean = None, 0
    for line in SMAPS.read_text().splitlines() if spans else ():  # to count pages takes the system some time
        name, *values = line.split()
        if not name.endswith(":"):
            span, clean = _span(line), 0
        elif name[:-1] in _OF_THE_PROCESS and span in spans:
            clean += values == ["0", "kB"]
            if clean == len(_OF_THE_PROCESS):
                yield span


def _span(header: str) -> _Span | None:
    """The line of a mapping: `start-end permissions offset device inode path`; None where there is no file."""
    place, *_, path = f"{header} ".split(" ", 5)
    return _Span(*(int(end, 16) for end in place.split("-"))) if path.strip().startswith("/") else None
