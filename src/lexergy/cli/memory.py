"""Freed memory stays with the process: what a layer writes is then written where the last one wrote.

The C library of Linux gives blocks of more than 32 MB back at once, and asks for new ones, which the kernel fills with
zeros page by page. The logits of a few hundred tokens are larger, and reading a text with an LM takes a tenth longer.
"""

import ctypes
import os
import sys

KEPT, LARGEST = 2**29, 2**28  # bytes of free memory, and of a block that is taken from it
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # as malloc.h numbers them


def keep_freed_memory() -> None:
    """Do so where the C library is GNU's and can, unless somebody has set it otherwise."""
    if not sys.platform.startswith("linux") or any(name.startswith("MALLOC_") for name in os.environ):
        return
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):
        return
    # An older library refuses so large a block. Setting only the other would fix its threshold at 128 kB, not 32 MB.
    if library.mallopt(_MMAP_THRESHOLD, LARGEST):
        library.mallopt(_TRIM_THRESHOLD, KEPT)
