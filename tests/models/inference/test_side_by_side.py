import threading

import pytest
import torch

from lexergy.models.inference.side_by_side import side_by_side


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_results_are_in_order_and_each_part_has_one_thread(two_threads):
    with torch.no_grad():
        found = side_by_side(lambda part: (part, torch.get_num_threads(), threading.get_ident()), range(20))
    assert [part for part, _, _ in found] == list(range(20))
    assert {threads for _, threads, _ in found} == {1}
    assert threading.get_ident() not in {thread for _, _, thread in found}


def test_nothing_of_it_is_left_behind(two_threads):
    with torch.no_grad():
        side_by_side(lambda part: part, range(4))
    later = []
    thread = threading.Thread(target=lambda: later.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert [torch.get_num_threads(), *later] == [2, 2]


def test_no_gradients_are_kept_in_other_threads_either(two_threads):
    weight = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        assert not any(own.requires_grad for own in side_by_side(lambda part: weight * part, range(4)))
    assert all(own.requires_grad for own in side_by_side(lambda part: weight * part, range(4)))


def test_an_error_reaches_the_caller(two_threads):
    def compute(part):
        if part == 3:
            raise ValueError("three")

    with torch.no_grad(), pytest.raises(ValueError, match="three"):
        side_by_side(compute, range(4))
    assert torch.get_num_threads() == 2
