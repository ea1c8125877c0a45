"""A function of rows that is not computed again where the answer is known."""

from collections import OrderedDict
from collections.abc import Callable

import torch
from torch import Tensor


class RememberedRows:
    """Answers (N, F) to rows (N, L) of a function that treats each row alone, the last `limit` asked for."""

    def __init__(self, function: Callable[[Tensor], Tensor], limit: int) -> None:
        self.function = function
        self.limit = limit
        self._slots: OrderedDict[bytes, int] = OrderedDict()  # the row that was asked for last stands last
        self._answers = torch.empty(0)  # (slots, F)

    def __call__(self, rows: Tensor) -> Tensor:  # (N, L) -> (N, F)
        keys = [row.tobytes() for row in rows.cpu().numpy()]
        numbers = {key: number for number, key in enumerate(keys)}
        if len(numbers) > self.limit:
            return self.function(rows)
        for key in numbers:
            if key in self._slots:
                self._slots.move_to_end(key)
        new = [key for key in numbers if key not in self._slots]
        if new:
            answers = self.function(rows[[numbers[key] for key in new]])
            slots = torch.tensor([self._slot_for(key) for key in new])
            self._make_room(answers)
            self._answers[slots] = answers
        return self._answers[torch.tensor([self._slots[key] for key in keys])]

    def forget(self) -> None:
        """Answers depend, in their last digits, on the rows that were asked for together: from here on, on new ones."""
        self._slots.clear()
        self._answers = self._answers[:0]

    def _slot_for(self, key: bytes) -> int:
        """A free slot, or that of the row which was not asked for longest."""
        is_full = len(self._slots) == self.limit
        self._slots[key] = self._slots.popitem(last=False)[1] if is_full else len(self._slots)
        return self._slots[key]

    def _make_room(self, answers: Tensor) -> None:
        """Doubled when it is full, up to the limit."""
        size = len(self._answers)
        if len(self._slots) > size:
            room = min(self.limit, max(2 * size, len(self._slots)))
            wider = answers.new_empty(room, answers.shape[1])
            wider[:size] = self._answers.view(size, answers.shape[1])
            self._answers = wider
