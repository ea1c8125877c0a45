"""Rows of different lengths in batches that hold a bounded number of tokens."""

from collections.abc import Iterator, Sequence

# The longest row of a batch beside its shortest: padding costs as much as text, a batch of its own very little.
_STRETCH, _SLACK = 1.1, 2


def batches_by_length(lengths: Sequence[int], most_tokens: int, *, equal: bool = False) -> Iterator[list[int]]:
    """Places of rows of similar length, or of `equal` length, at most `most_tokens` of them with padding in each batch.

    A row longer than `most_tokens` is a batch of its own.
    """
    batch: list[int] = []
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        shortest = lengths[batch[0]] if batch else lengths[place]
        too_long = lengths[place] > (shortest if equal else _STRETCH * shortest + _SLACK)
        if batch and (too_long or lengths[place] * (len(batch) + 1) > most_tokens):
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch
