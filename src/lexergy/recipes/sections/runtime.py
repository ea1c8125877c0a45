"""What computes the steps of an LM that runs here, and in which numbers."""

from pathlib import Path
from typing import Literal, get_args

from lexergy.errors import LexergyError

Runtime = Literal["auto", "torch", "openvino"]
Precision = Literal["float32", "bfloat16", "int8"]
_MARK = "#precision="


def split_precision(source: str | Path) -> tuple[str | Path, Precision | None]:
    """A source and the precision that it names, as `smollm2-135m#precision=bfloat16` does."""
    name, mark, precision = str(source).rpartition(_MARK)
    if not mark:
        return source, None
    for known in get_args(Precision):
        if precision == known:
            return name, known
    raise LexergyError(
        f"the precision of `{source}` is `{precision}`; expected one of {', '.join(get_args(Precision))}; leave it out "
        "for float32."
    )


def in_precision(name: str, precision: Precision) -> str:
    """An LM's name, which tells of any precision but the usual one: its logits are others."""
    return name if precision == "float32" else f"{name}, in {precision}"
