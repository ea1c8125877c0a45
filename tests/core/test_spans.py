import torch

from lexergy.core.spans import best_spans


def test_the_best_span_is_that_of_brute_force():
    generator = torch.Generator().manual_seed(0)
    rows, length, longest = 20, 7, 3
    start = torch.randn(rows, length, generator=generator).log_softmax(-1)
    end = torch.randn(rows, length, length, generator=generator).log_softmax(-1)
    allowed = torch.rand(rows, length, generator=generator) < 0.7
    allowed[:, 2] = True
    found = best_spans(start, torch.arange(length).expand(rows, -1), end, allowed, longest)
    for row in range(rows):
        scores = {
            (first, last): float(start[row, first] + end[row, first, last])
            for first in range(length)
            for last in range(first, min(length, first + longest))
            if allowed[row, first] and allowed[row, last]
        }
        best = max(scores, key=scores.__getitem__)
        assert (int(found.starts[row]), int(found.ends[row])) == best
        assert float(found.log_prob[row]) == scores[best]


def test_without_an_allowed_token_no_span_is_found():
    nothing = torch.zeros(1, 3)
    found = best_spans(nothing, torch.arange(3)[None], torch.zeros(1, 3, 3), nothing.bool(), 2)
    assert found.log_prob.tolist() == [-torch.inf]
