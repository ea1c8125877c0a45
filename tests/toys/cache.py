"""A cache of one test's own."""

from pathlib import Path

import pytest


@pytest.fixture
def own_cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("LEXERGY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"
