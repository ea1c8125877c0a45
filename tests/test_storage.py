"""What is written in a mirror is at its address, whole or not at all, and comes back to any machine."""

import threading
from pathlib import Path

import fsspec
import pytest
from fsspec.core import url_to_fs

from lexergy.data.corpora import load_corpus
from lexergy.errors import LexergyError
from lexergy.files import atomic_path, atomic_write_bytes, atomic_write_text, remove
from lexergy.models.masked.lm import MaskedLM
from lexergy.models.scoring.kinds import load_scorer
from lexergy.runs.fingerprint import fingerprint
from lexergy.storage import addressed, fetched, is_address, mirror_of, mirrored, refresh
from lexergy.testing import EnumerableMaskedLM
from toys.places import Disk, another_machine


def put(address, content):
    filesystem, path = url_to_fs(address)
    filesystem.makedirs(path.rpartition("/")[0], exist_ok=True)
    filesystem.pipe_file(path, content)


def names_at(address):
    filesystem, root = url_to_fs(address)
    filesystem.invalidate_cache()
    return {path.removeprefix(root).lstrip("/") for path in filesystem.find(root)}


def files_in(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_is_written_comes_back_to_another_machine(place, monkeypatch, tmp_path):
    folder = mirrored(place)
    atomic_write_text(folder / "a.txt", "one")
    with atomic_path(folder / "model") as partial:
        (partial / "deep").mkdir(parents=True)
        (partial / "deep" / "weights").write_bytes(b"\x00" * 1000)
    assert names_at(place) == {"a.txt", "model/deep/weights"}
    written = files_in(folder)
    cache = another_machine(monkeypatch, tmp_path)
    assert files_in(fetched(place)) == written
    assert fetched(place).is_relative_to(cache)


def test_a_change_of_the_same_size_is_fetched_and_nothing_else(place, monkeypatch, tmp_path):
    folder = mirrored(place)
    atomic_write_text(folder / "same.txt", "same")
    atomic_write_text(folder / "a.txt", "one")
    mine = another_machine(monkeypatch, tmp_path)
    copy = fetched(place)
    before = (copy / "same.txt").stat().st_ino
    put(f"{place}/a.txt", b"two")
    assert (fetched(place) / "a.txt").read_text() == "two"
    assert (copy / "same.txt").stat().st_ino == before
    assert copy.is_relative_to(mine)


def test_what_is_removed_is_gone_everywhere(place, monkeypatch, tmp_path):
    folder = mirrored(place)
    for name in ("kept", "gone", "stage/one", "stage/deep/two"):
        atomic_write_text(folder / name, name)
    remove(folder / "gone")
    remove(folder / "stage")
    assert names_at(place) == {"kept"}
    filesystem, root = url_to_fs(place)
    atomic_write_text(folder / "later", "later")
    filesystem.rm_file(f"{root}/later")
    (folder / "unpublished").write_text("being written by somebody")
    assert set(files_in(fetched(place))) == {"kept", "unpublished"}
    mirror_of(folder).discard_unpublished(folder)
    assert set(files_in(folder)) == {"kept"}


def test_what_others_wrote_in_a_folder_is_published_by_synchronising(place):
    folder = mirrored(place)
    atomic_write_text(folder / "stage" / "old", "old")
    atomic_write_text(folder / "stage" / "note", "note")
    atomic_write_text(folder / "elsewhere", "kept")
    (folder / "stage" / "old").unlink()
    (folder / "stage" / "new").write_text("new")
    mirror_of(folder).synchronise(folder / "stage", keep=("note",))
    assert names_at(place) == {"stage/new", "stage/note", "elsewhere"}


def test_a_file_that_fails_on_the_way_is_not_there(disk_place, monkeypatch):
    folder = mirrored(disk_place)
    pieces = []

    def fail(self):
        pieces.append(set(names_at(disk_place)))
        if len(pieces) == 3:
            raise ConnectionResetError("the cable")

    monkeypatch.setattr(Disk, "piece_written", fail)
    with pytest.raises(LexergyError, match=r"disk://.*the cable.*credentials"):
        atomic_write_bytes(folder / "shard", b"x" * 800)
    assert len(pieces) == 3
    assert "shard" not in set().union(*pieces)
    assert names_at(disk_place) == set()
    assert not (folder / "shard").exists()
    monkeypatch.undo()
    atomic_write_bytes(folder / "shard", b"x" * 800)
    assert names_at(disk_place) == {"shard"}


def test_a_killed_writers_half_file_is_no_file_and_is_removed(disk_place):
    folder = mirrored(disk_place)
    atomic_write_text(folder / "whole", "whole")
    put(f"{disk_place}/.shard.1234-0123abcd-0123abcd.partial", b"half")
    assert set(files_in(fetched(disk_place))) == {"whole"}
    mirror_of(folder).discard_unpublished(folder)
    assert names_at(disk_place) == {"whole"}


@pytest.mark.parametrize("place", ["disk_place", "memory_place"], indirect=True)
def test_a_reader_sees_one_of_two_writers_files_and_never_a_mixture(place):
    folder = mirrored(place)
    filesystem, root = url_to_fs(place)
    contents = {bytes([letter]) * 40_000 for letter in b"ab"}
    atomic_write_bytes(folder / "shard", next(iter(contents)))
    done = threading.Event()

    def write(content):
        for _ in range(15):
            atomic_write_bytes(folder / "shard", content)

    writers = [threading.Thread(target=write, args=[content]) for content in contents]
    seen = set()

    def read():
        while not done.is_set():
            seen.add(bytes(filesystem.cat_file(f"{root}/shard")))

    reader = threading.Thread(target=read)
    for thread in [reader, *writers]:
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    reader.join()
    assert seen
    assert seen <= contents


def test_a_name_at_the_address_stays_inside_of_the_mirror(memory_place, tmp_path):
    put(f"{memory_place}/fine", b"fine")
    filesystem, root = url_to_fs(memory_place)
    filesystem.store[f"{root}/../../evil"] = filesystem.store[f"{root}/fine"]
    try:
        with pytest.raises(LexergyError, match=r"evil.*inside of that folder"):
            fetched(memory_place)
    finally:
        del filesystem.store[f"{root}/../../evil"]
    assert not list(tmp_path.rglob("evil"))


def test_files_left_at_the_address_are_fetched_when_they_are_wanted(place, monkeypatch, tmp_path):
    folder = mirrored(place)
    for name in ("stage.json", "rows/shard-000001.parquet"):
        atomic_write_text(folder / name, name)
    another_machine(monkeypatch, tmp_path)
    folder = mirrored(place)
    refresh(folder, leave="shard-*.parquet")
    assert set(files_in(folder)) == {"stage.json"}
    refresh(folder)
    assert set(files_in(folder)) == {"stage.json", "rows/shard-000001.parquet"}


def test_a_corpus_at_an_address_is_the_corpus(place, tmp_path):
    texts = {"a.txt": "One sentence here.\n", "deep/b.jsonl": '{"text": "Another."}\n', "c.md": "A third.\n"}
    for name, text in texts.items():
        put(f"{place}/{name}", text.encode())
        atomic_write_text(tmp_path / "texts" / name, text)
    assert load_corpus(place) == load_corpus(tmp_path / "texts")
    assert load_corpus(f"{place}/a.txt") == load_corpus(tmp_path / "texts" / "a.txt")
    assert fingerprint(place) == fingerprint(str(tmp_path / "texts"))
    put(f"{place}/a.txt", b"Two sentences here.\n")
    assert fingerprint(place) != fingerprint(str(tmp_path / "texts"))


def test_a_model_at_an_address_is_the_model(place, tmp_path):
    EnumerableMaskedLM().save_pretrained(tmp_path / "model")
    for file in (tmp_path / "model").iterdir():
        put(f"{place}/{file.name}", file.read_bytes())
    here, there = (load_scorer(source).score(["the state of union"]) for source in (tmp_path / "model", place))
    assert here[0].log_scores == there[0].log_scores
    assert MaskedLM.from_pretrained(place).tokenizer.get_vocab()


def test_an_address_of_nothing_is_a_mistake(place):
    with pytest.raises(LexergyError, match=r"there is nothing at .*://.*; check the address"):
        fetched(place)


def test_paths_are_paths(own_cache, tmp_path):
    assert mirrored("runs/mine") == Path("runs/mine")
    assert mirrored(f"file://{tmp_path}/x") == tmp_path / "x"
    assert mirror_of(tmp_path / "x") is None
    assert not is_address("http://localhost:8000/v1")
    with pytest.raises(LexergyError, match="expected a string"):
        mirrored(Path("s3://bucket/run"))


def test_people_read_addresses(memory_place):
    folder = mirrored(memory_place)
    assert addressed(f"the run {folder / 'lm'} is broken") == f"the run {memory_place}/lm is broken"
    assert addressed(folder) == memory_place


@pytest.mark.parametrize(
    ("address", "remedy"),
    [("s3://bucket/run", r"pip install 'lexergy\[storage\]'"), ("gs://bucket/run", "install gcsfs")],
)
def test_a_package_that_is_not_there_is_named(own_cache, monkeypatch, address, remedy):
    def fail(url, **options):
        raise ImportError("Install s3fs to access S3" if url.startswith("s3") else "Please install gcsfs to access")

    monkeypatch.setattr(fsspec.core, "url_to_fs", fail)
    with pytest.raises(LexergyError, match=rf"`\w+://` needs a package that is not installed; .*{remedy}"):
        mirrored(address)


@pytest.mark.parametrize("address", ["nothing://x/y", "memory://", "s3://"])
def test_addresses_that_are_none(own_cache, address):
    with pytest.raises(LexergyError, match="expected"):
        mirrored(address)


def test_no_such_bucket(s3_place):
    with pytest.raises(LexergyError, match="s3://no-such-bucket/run cannot be used"):
        atomic_write_text(mirrored("s3://no-such-bucket/run") / "a", "a")
