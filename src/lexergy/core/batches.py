"""Rows of different lengths in batches that hold a bounded number of tokens."""

from collections.abc import Iterator, Sequence

BATCH_COST = 32  # how many tokens could be read in the time that a batch takes beside its tokens


def batches_by_length(
    lengths: Sequence[int], most_tokens: int, *, batch_cost: float = BATCH_COST
) -> Iterator[list[int]]:
    """Places of rows of similar length, the shortest first, at most `most_tokens` with padding in each batch.

    Padding costs as much as text: a batch ends where it would need more of it than `batch_cost`, so that with 0 rows of
    a batch have one length. A row longer than `most_tokens` is a batch of its own.
    """
    batch: list[int] = []
    padding = 0
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch:
            padding += len(batch) * (lengths[place] - lengths[batch[-1]])
            if padding > batch_cost or lengths[place] * (len(batch) + 1) > most_tokens:
                yield batch
                batch, padding = [], 0
        batch.append(place)
    if batch:
        yield batch
