import ctypes

import pytest

from lexergy.cli.memory import KEPT, LARGEST, keep_freed_memory


@pytest.fixture
def accepted():
    """The largest block that the library takes."""
    return [2**40]


@pytest.fixture
def asked(monkeypatch, accepted):
    calls = []

    class Library:
        gnu_get_libc_version = None

        def mallopt(self, parameter, value):
            calls.append(value)
            return int(value <= accepted[0])

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library())
    monkeypatch.setattr("sys.platform", "linux")
    for name in ("MALLOC_ARENA_MAX", "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"):
        monkeypatch.delenv(name, raising=False)
    return calls


def test_freed_memory_is_kept(asked):
    keep_freed_memory()
    assert asked == [LARGEST, KEPT]


def test_what_somebody_has_set_stays(asked, monkeypatch):
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "100000")
    keep_freed_memory()
    assert not asked


def test_a_library_that_refuses_is_left_as_it_is(asked, accepted):
    accepted[0] = 2**25
    keep_freed_memory()
    assert asked == [LARGEST]
