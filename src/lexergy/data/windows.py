"""Windows of prefix + continuation over tokenised documents."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow
import pyarrow.parquet
import torch
from torch import Tensor

from lexergy.errors import LexergyError
from lexergy.files import atomic_path, reading

PREFIX_LENGTH_KEY = b"lexergy.prefix_length"


@dataclass(frozen=True)
class Windows:
    """N windows of P prefix and C continuation tokens, document after document."""

    tokens: Tensor  # (N, P + C) int64
    prefix_length: int
    document_ids: list[str]  # N
    starts: list[int]  # N, position of a window's first token in its document

    @property
    def prefixes(self) -> Tensor:
        return self.tokens[:, : self.prefix_length]  # (N, P)

    @property
    def continuations(self) -> Tensor:
        return self.tokens[:, self.prefix_length :]  # (N, C)

    @property
    def continuation_length(self) -> int:
        return self.tokens.shape[1] - self.prefix_length

    def __len__(self) -> int:
        return len(self.document_ids)

    def select(self, indices: Sequence[int]) -> "Windows":
        """The windows at `indices`, in that order."""
        indices = list(indices)
        return Windows(
            tokens=self.tokens[torch.tensor(indices, dtype=torch.long)],
            prefix_length=self.prefix_length,
            document_ids=[self.document_ids[index] for index in indices],
            starts=[self.starts[index] for index in indices],
        )

    def sample(self, n: int, seed: int) -> "Windows":
        """A random `n` of the windows, spread evenly over the documents, in their order.

        Systematic sampling: window floor((i + u) N / n) for i = 0 .. n - 1 and one u in [0, 1) from the seed.
        Each window is taken with probability n / N, so a mean over the sample estimates the mean over all.
        """
        if not 1 <= n <= len(self):
            raise LexergyError(
                f"{n} windows were asked for; expected 1 to {len(self)}, the number of windows there are: "
                "ask for fewer, or add text."
            )
        generator = torch.Generator().manual_seed(seed)
        offset = torch.rand((), generator=generator, dtype=torch.float64).item()
        return self.select([int((index + offset) * len(self) / n) for index in range(n)])

    def save(self, path: str | Path) -> None:
        """Write the windows to a Parquet file, wholly or not at all."""
        length = self.tokens.shape[1]
        table = pyarrow.table(
            {
                "tokens": pyarrow.FixedSizeListArray.from_arrays(self.tokens.reshape(-1).numpy(), length),
                "document_id": pyarrow.array(self.document_ids, pyarrow.string()),
                "start": pyarrow.array(self.starts, pyarrow.int64()),
            },
            metadata={PREFIX_LENGTH_KEY: str(self.prefix_length).encode()},
        )
        with atomic_path(path) as partial:
            pyarrow.parquet.write_table(table, partial)

    @classmethod
    def load(cls, path: str | Path) -> "Windows":
        """Read what `save` wrote."""
        with reading(path, "expected windows; make them again"):
            table = pyarrow.parquet.read_table(path)
            length = table.schema.field("tokens").type.list_size
            flat = table["tokens"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
            return cls(
                tokens=torch.tensor(flat, dtype=torch.long).reshape(-1, length),
                prefix_length=int((table.schema.metadata or {})[PREFIX_LENGTH_KEY]),
                document_ids=table["document_id"].to_pylist(),
                starts=table["start"].to_pylist(),
            )


def make_windows(
    token_documents: Sequence[Sequence[int] | Tensor],
    document_ids: Sequence[str],
    *,
    prefix_length: int,
    continuation_length: int,
    stride: int | None = None,
    end_token: int | None = None,
) -> Windows:
    """Cut documents into windows such that each continuation token is predicted exactly once.

    With prefix length P = 4 and continuation length C = 3, the stride being C unless given::

        document   a b c d e f g h i j k l
        window 0  [a b c d|e f g]
        window 1        [d e f g|h i j]
                                        k l: fewer than C are left over, and in no window

    Every token after a document's first P is in exactly one continuation, but for the fewer than C at its
    end. A stride above C leaves tokens out (it subsamples); below C some would be predicted twice, an error.
    No window crosses from one document into another.

    With an `end_token`, it stands after each document and is predicted too, once, in the last window, which is padded
    with it::

        window 2              [g h i j|k l .]    or, were there no l,    [g h i j|k . .]
    """
    stride = continuation_length if stride is None else stride
    _check_lengths(prefix_length, continuation_length, stride)
    length = prefix_length + continuation_length
    pieces: list[Tensor] = []
    ids: list[str] = []
    starts: list[int] = []
    longest = 0
    for document, document_id in zip(token_documents, document_ids, strict=True):
        tokens = torch.as_tensor(document, dtype=torch.long)  # (T,)
        longest = max(longest, len(tokens))
        if end_token is not None and len(tokens) >= prefix_length:
            # The last window begins at a multiple of the stride and predicts at least the end.
            last = (len(tokens) - prefix_length) // stride * stride
            tokens = torch.nn.functional.pad(tokens, (0, max(0, last + length - len(tokens))), value=end_token)
            tokens = tokens[: last + length]
        if len(tokens) < length:
            continue
        pieces.append(tokens.unfold(0, length, stride))  # (windows of this document, P + C)
        ids += [document_id] * len(pieces[-1])
        starts += [index * stride for index in range(len(pieces[-1]))]
    if not pieces:
        raise LexergyError(
            f"The longest of {len(document_ids)} documents has {longest} tokens; expected at least "
            f"{length if end_token is None else prefix_length}, a prefix of {prefix_length} and "
            f"{f'a continuation of {continuation_length}' if end_token is None else 'its end'}: "
            "shorten the windows or give longer texts."
        )
    return Windows(torch.cat(pieces), prefix_length, ids, starts)


def _check_lengths(prefix_length: int, continuation_length: int, stride: int) -> None:
    for name, value in (("prefix_length", prefix_length), ("continuation_length", continuation_length)):
        if value < 1:
            raise LexergyError(f"`{name}` is {value}; expected at least 1 token.")
    if stride < continuation_length:
        raise LexergyError(
            f"`stride` is {stride}; expected at least the continuation length, {continuation_length}, "
            "or tokens would be predicted twice: leave it out to predict each once."
        )
