"""A few of the many requests of `benchmarks/serve_fuzz.py`: no server error, and answers as the schema says."""

from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def fuzz(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import serve_fuzz

    return serve_fuzz


def test_requests_made_from_the_schema(fuzz, served):
    counts = fuzz.follow_schema(served.url, 40)
    assert counts["get /v1/models 200"] == 1
    assert counts["post /v1/completions 400"] + counts["post /v1/completions 404"] > 0


def test_bodies_right_and_wrong(fuzz, served):
    counts = fuzz.send_bodies(served.url, list(served.catalogue.models), 90)
    statuses = {name.rsplit(" ", 1)[1] for name in counts}
    assert {"200", "400", "404"} <= statuses <= {"200", "400", "404", "408", "429"}
