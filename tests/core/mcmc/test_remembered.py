import torch

from lexergy.core.mcmc.remembered import RememberedRows


def test_each_row_is_computed_once():
    asked = []

    def squares(rows):
        asked.append(rows.tolist())
        return torch.stack([rows.sum(1), (rows**2).sum(1)], dim=1).double()

    remembered = RememberedRows(squares)
    rows = torch.tensor([[1, 2], [3, 4], [1, 2]])
    assert remembered(rows).tolist() == [[3, 5], [7, 25], [3, 5]]
    assert remembered(torch.tensor([[3, 4], [0, 1]])).tolist() == [[7, 25], [1, 1]]
    assert [sorted(some) for some in asked] == [[[1, 2], [3, 4]], [[0, 1]]]
    assert remembered(rows).tolist() == [[3, 5], [7, 25], [3, 5]]
    assert len(asked) == 2
