"""Samples as a tree: as long as several have the same tokens, one row is fed for all of them."""

import torch
from torch import Tensor

ROWS_AT_ONCE = 16  # a runtime makes kernels for each number of rows, and a few rows more are no longer than these
WORTH_IT = 0.95  # as many of the rows or fewer: to gather the logits of each sample takes time too
_APART = 2**32  # between the keys of two rows: more than there are tokens


class Branches:
    """Which of the rows that are fed stands for each of R = B * K samples, K of each of B prefixes in turn.

    There are W rows of each prefix in turn: K at the beginning, and one alone is needed until tokens are drawn.
    """

    def __init__(self, num_prefixes: int, num_samples: int, device: torch.device) -> None:
        self._prefixes, self._samples, self._width = num_prefixes, num_samples, num_samples
        self._apart = False  # whether each sample has a row of its own, in order
        self._is_fed = False
        self.rows = torch.arange(num_prefixes, device=device).repeat_interleave(num_samples) * num_samples  # (R,)

    def of_samples(self, values: Tensor) -> Tensor:  # (B W, ...) -> (R, ...)
        """Each sample's, of what there is of each row."""
        return values if self._apart else values[self.rows]

    def reorder(self, index: Tensor) -> None:  # (R,)
        """Sample r goes on from sample `index[r]`, of the same prefix."""
        self.rows, self._apart = self.rows[index], False

    def grow(self, tokens: Tensor, needed: Tensor) -> tuple[Tensor | None, Tensor]:  # (R,), (R,) bool
        """What to feed so that the samples that are needed go on with these tokens.

        The rows that each row goes on from, (B W,), where they are not as they were; and the tokens of rows, (B W,).
        """
        if self._apart and bool(needed.all()):
            return None, tokens
        was_fed, self._is_fed = self._is_fed, True
        heirs, place = (self.rows[needed] * _APART + tokens[needed]).unique(return_inverse=True)
        parents, drawn = heirs // _APART, heirs % _APART
        prefixes = parents // self._width
        counts = prefixes.bincount(minlength=self._prefixes)
        width = self._rounded(int(counts.max()))
        if width > WORTH_IT * self._samples:
            return self._part(was_fed), tokens
        if width > WORTH_IT * self._width and len(parents.unique()) == len(parents):  # nothing branches
            return None, tokens.new_zeros(self._prefixes * self._width).index_put_((parents,), drawn)
        rows = prefixes * width + torch.arange(len(heirs), device=tokens.device) - (counts.cumsum(0) - counts)[prefixes]
        spare = self._first_rows(self._width, width)
        self._width, self._apart = width, False
        self.rows = self._first_rows(width, self._samples).masked_scatter_(needed, rows[place])
        return spare.index_put_((rows,), parents), torch.zeros_like(spare).index_put_((rows,), drawn)

    def _first_rows(self, width: int, times: int) -> Tensor:  # (B * times,)
        """Of each prefix, of which there are so many."""
        return torch.arange(self._prefixes, device=self.rows.device).repeat_interleave(times) * width

    def _rounded(self, width: int) -> int:
        together = -(-ROWS_AT_ONCE // self._prefixes)
        return min(self._samples, -(-width // together) * together)

    def _part(self, was_fed: bool) -> Tensor | None:
        """From now on each sample has a row of its own. Before anything was fed, the K of a prefix are all alike."""
        parents, self.rows = self.rows, torch.arange(len(self.rows), device=self.rows.device)
        is_new = was_fed and not (self._width == self._samples and torch.equal(parents, self.rows))
        self._width, self._apart = self._samples, True
        return parents if is_new else None
