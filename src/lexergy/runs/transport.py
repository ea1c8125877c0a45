"""What shards are computed with, as bytes for another process, in which it gives the same to the last bit.

Matrix products round differently on weights that lie differently in memory, as weights mapped from a file do: a tensor
arrives at an address that is the same modulo a cache line, or the other process would disagree in the last digits.
Only Lexergy's own workers read these bytes, from Ray and never from a file.
"""

import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy
import torch
from torch import Tensor

CACHE_LINE = 64
REDUCERS: dict[type, Callable[[Any], Any]] = {}  # of classes that know better how they are sent, with their subclasses


def to_bytes(compute: Any, pickler: type[Any]) -> bytes:
    """A function with all that it holds; `pickler` is cloudpickle's class."""

    class AlignedPickler(pickler):  # type: ignore[misc]
        def __init__(self, file: io.BytesIO) -> None:
            super().__init__(file, protocol=5)
            self.storages: dict[int, _Storage] = {}

        def reducer_override(self, value: Any) -> Any:
            for kind, reduce in REDUCERS.items():
                if isinstance(value, kind):
                    return reduce(value)
            if type(value) is not Tensor or not _is_plain(value):
                return super().reducer_override(value)
            address = value.untyped_storage().data_ptr()
            # One object for each storage: tensors that share it share it afterwards too.
            storage = self.storages.setdefault(address, _Storage(value))
            place = (value.storage_offset(), tuple(value.shape), value.stride())
            return _rebuild, (storage, value.dtype, *place, value.requires_grad)

    file = io.BytesIO()
    AlignedPickler(file).dump(compute)
    return file.getvalue()


def from_bytes(content: bytes) -> Any:
    """What `to_bytes` was given."""
    return pickle.loads(content)


class _Storage:
    """The memory below tensors, and where it began in a cache line."""

    def __init__(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        self.bytes = torch.empty(0, dtype=torch.uint8).set_(storage)
        self.remainder = storage.data_ptr() % CACHE_LINE

    def __reduce__(self) -> Any:
        return _room, (self.bytes.numpy().tobytes(), self.remainder)


def _room(content: bytes, remainder: int) -> Tensor:
    room = torch.empty(len(content) + CACHE_LINE, dtype=torch.uint8)
    start = (remainder - room.data_ptr()) % CACHE_LINE
    room = room[start : start + len(content)]
    room.numpy()[:] = numpy.frombuffer(content, numpy.uint8)  # torch would copy once more to be able to write
    return room


def _rebuild(
    room: Tensor, dtype: torch.dtype, offset: int, shape: tuple[int, ...], stride: tuple[int, ...], requires_grad: bool
) -> Tensor:
    first = room.storage_offset() // dtype.itemsize + offset
    tensor = torch.empty(0, dtype=dtype).set_(room.untyped_storage(), first, shape, stride)
    return tensor.requires_grad_(requires_grad)


def _is_plain(tensor: Tensor) -> bool:
    """Whether it is memory of the CPU and nothing else; the rest is torch's own business."""
    return (
        tensor.device.type == "cpu"
        and tensor.layout is torch.strided
        and not tensor.is_quantized
        and not tensor.is_conj()
        and not tensor.is_neg()
        and tensor.is_leaf
        and tensor.untyped_storage().nbytes() > 0
        and tensor.untyped_storage().data_ptr() % tensor.dtype.itemsize == 0
    )
