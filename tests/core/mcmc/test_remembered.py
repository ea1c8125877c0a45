import torch

from lexergy.core.mcmc.remembered import RememberedRows


class Squares:
    def __init__(self):
        self.asked = []

    def __call__(self, rows):
        self.asked.append(sorted(rows.tolist()))
        return torch.stack([rows.sum(1), (rows**2).sum(1)], dim=1).double()


def test_each_row_is_computed_once():
    squares = Squares()
    remembered = RememberedRows(squares, limit=10)
    rows = torch.tensor([[1, 2], [3, 4], [1, 2]])
    assert remembered(rows).tolist() == [[3, 5], [7, 25], [3, 5]]
    assert remembered(torch.tensor([[3, 4], [0, 1]])).tolist() == [[7, 25], [1, 1]]
    assert squares.asked == [[[1, 2], [3, 4]], [[0, 1]]]
    assert remembered(rows).tolist() == [[3, 5], [7, 25], [3, 5]]
    assert len(squares.asked) == 2


def test_the_rows_that_were_asked_for_last_are_kept():
    squares = Squares()
    remembered = RememberedRows(squares, limit=2)
    for first in (1, 2, 1, 3, 1, 2):
        assert remembered(torch.tensor([[first, 0]])).tolist() == [[first, first**2]]
    # Where 3 comes, 2 is forgotten, since 1 was asked for after it.
    assert squares.asked == [[[1, 0]], [[2, 0]], [[3, 0]], [[2, 0]]]


def test_more_rows_than_are_kept():
    remembered = RememberedRows(Squares(), limit=2)
    rows = torch.arange(6).view(3, 2)
    assert remembered(rows).tolist() == [[1, 1], [5, 13], [9, 41]]
