import pytest

from lexergy import progress
from lexergy.progress import count, counted, format_values, progress_bar


class Clock:
    def __init__(self):
        self.seconds = 0.0

    def monotonic(self):
        return self.seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


@pytest.fixture
def log(capsys):
    return lambda: capsys.readouterr().err.splitlines()


def test_a_log_gets_a_line_per_tenth(clock, log):
    with progress_bar("negatives", 100) as bar:
        for step in range(100):
            clock.seconds += 1
            bar.advance(1, loss=1 / (step + 1))
    lines = log()
    assert len(lines) == 10
    assert lines[0] == "negatives 10/100 10s loss 0.1"
    assert lines[-1] == "negatives 100/100 100s loss 0.01"


def test_slow_work_gets_a_line_every_15_seconds(clock, log):
    with progress_bar("slow", 1000) as bar:
        for _ in range(4):
            clock.seconds += 10
            bar.advance()
    assert [line.split()[1] for line in log()] == ["2/1000", "4/1000"]


def test_quick_work_gets_one_line(clock, log):
    with progress_bar("quick", 10) as bar:
        for _ in range(10):
            bar.advance()
    assert log() == ["quick 10/10 0s"]


def test_resumed_work_starts_where_it_was(clock, log):
    with progress_bar("again", 10, completed=7) as bar:
        bar.advance(3)
    assert log() == ["again 10/10 0s"]


def test_disabled_it_is_silent_and_failed_work_is_not_called_done(clock, log):
    with progress_bar("off", 3, False) as bar:
        bar.advance(3, loss=1.0)
    with pytest.raises(KeyboardInterrupt), progress_bar("failed", 3):
        raise KeyboardInterrupt
    assert log() == []


def test_work_is_counted_in_its_depths_if_somebody_watches(clock, log):
    count(1)
    with counted("tokens", 6):
        for _ in range(3):
            count(2)
    count(1)
    assert log() == ["tokens 6/6 0s"]


def test_values_are_short():
    assert format_values({"validation_loss": 0.39612, "rate": "12/s"}) == "validation loss 0.396  rate 12/s"
