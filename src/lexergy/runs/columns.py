"""Arrays of any rank as Parquet columns, one row per window."""

import numpy as np
import pyarrow as pa


def to_column(values: np.ndarray) -> pa.Array:
    """(N, a, b, ...) -> N lists of fixed size a, of lists of fixed size b, ..."""
    column = pa.array(np.ascontiguousarray(values).reshape(-1))
    for size in reversed(values.shape[1:]):
        column = pa.FixedSizeListArray.from_arrays(column, size)
    return column


def from_column(column: pa.ChunkedArray) -> np.ndarray:
    """The inverse of `to_column`, as a writable array."""
    flat, shape = column.combine_chunks(), [len(column)]
    while pa.types.is_fixed_size_list(flat.type):
        shape.append(flat.type.list_size)
        flat = flat.flatten()
    values: np.ndarray = flat.to_numpy(zero_copy_only=False)
    return values.reshape(shape).copy()
