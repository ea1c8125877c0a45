import pytest

from lexergy.report import plots
from lexergy.report.page import render_page
from toys.finished_run import make_run

HOSTILE = "<script>alert(1)</script> & \"quoted\" <img src=x onerror='alert(2)'>"


@pytest.fixture
def run_result(tmp_path):
    return make_run(tmp_path)


@pytest.fixture(scope="session")
def page_text(tmp_path_factory):
    """A page with its figures, drawn once for all tests, on which a model wrote HTML."""
    return render_page(make_run(tmp_path_factory.mktemp("run"), sample_text=HOSTILE))


@pytest.fixture
def no_drawing(monkeypatch):
    """Empty figures, for tests of what stands beside them."""
    for name in (
        "perplexity_curve",
        "energy_histogram",
        "training_curves",
        "sorted_weights",
        "stage_seconds",
    ):
        monkeypatch.setattr(plots, name, lambda *arguments: "<svg/>")
