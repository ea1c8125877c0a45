"""Whether a configuration can be that of the weights beside it, told from names and shapes before anything is built."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lexergy.errors import LexergyError

LAYERS = re.compile(r"(num|n|encoder|decoder|num_hidden|num_decoder|num_encoder)_layers?")
WIDTHS = re.compile(r"(hidden|intermediate|embedding|encoder|decoder|vocab)_size|n_embd|d_model|dim|ffn_dim")
NESTED = ("encoder", "body", "backbone", "text_config")


def check_sizes(path: Path, config: dict[str, Any], shapes: Sequence[tuple[int, ...]]) -> None:
    """Refuse a configuration whose model could only be far larger than the weights.

    A layer has at least one tensor, and a width divides some dimension of one. Without this, a thousand million
    layers would be built before it is seen that there are no weights for them.
    """
    if "quantization_config" in config:  # several numbers lie in one
        return
    dimensions = {size for shape in shapes for size in shape}
    for name, value in _numbers(config):
        if LAYERS.fullmatch(name) and value > len(shapes):
            expected = f"at most {len(shapes)}, as many as it has tensors"
        elif WIDTHS.fullmatch(name) and not any(value > 0 and size % value == 0 for size in dimensions):
            expected = "a width that some tensor has"
        else:
            continue
        raise LexergyError(
            f"the weights in '{path.parent}' do not fit its config.json: `{name}` is {value}; expected {expected}; "
            "fetch or save the model again."
        )


def _numbers(config: dict[str, Any]) -> Iterator[tuple[str, int]]:
    for name, value in config.items():
        if isinstance(value, int) and not isinstance(value, bool):
            yield name, value
        elif name in NESTED and isinstance(value, dict):
            yield from _numbers(value)
