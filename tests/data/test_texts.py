"""Texts to be judged: tables, and pipes that are read while they are written."""

import io
import os

import pytest

from lexergy.data.texts import EMPTY, PlacedText, Unreadable, arriving_texts, read_texts


def test_a_pipe_is_read_line_by_line(monkeypatch):
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as pipe, io.TextIOWrapper(os.fdopen(reading, "rb")) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        pipe.write(b'\n{"text": "first"}\n')
        pipe.flush()
        texts = read_texts(["-"])
        assert next(texts) == PlacedText("-:2", "first")
        pipe.write('no json\n{"text": "third \u2028"}'.encode())
        pipe.close()
        refused, last = texts
    assert isinstance(refused, Unreadable)
    assert last == PlacedText("-:4", "third \u2028")


def test_a_pipe_tells_when_the_next_text_is_not_written_yet(monkeypatch):
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as pipe, io.TextIOWrapper(os.fdopen(reading, "rb")) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        texts = arriving_texts(["-"])
        assert next(texts) is None
        pipe.write(b'{"text": "first"}\n{"text": "second"}\n{"text": "th')
        pipe.flush()
        assert [next(texts).text for _ in range(2)] == ["first", "second"]
        assert next(texts) is None
        pipe.write(b'ird"}\n')
        pipe.close()
        assert list(texts) == [PlacedText("-:3", "third")]


@pytest.mark.parametrize(("name", "delimiter"), [("a.csv", ","), ("a.tsv", "\t")])
def test_a_table_has_a_text_in_each_row(tmp_path, name, delimiter):
    rows = [["id", "body"], ["1", '"two\nlines, ""said"""'], ["2", ""], ["3", "x" * 200_000]]
    path = tmp_path / name
    path.write_text("\n".join(delimiter.join(row) for row in rows))
    first, empty, long = read_texts([str(path)], text_field="body")
    assert first == PlacedText(f"{path}:3", 'two\nlines, "said"')
    assert isinstance(empty, Unreadable)
    assert len(long.text) == 200_000
    (missing,) = read_texts([str(path)])
    assert "has no field `text`; set `text_field` (`--text-field`) to one of: id, body" in missing.reason


def test_tables_in_a_folder_are_read_and_empty_files_told(tmp_path):
    (tmp_path / "a.CSV").write_text("text\nfirst\n")
    (tmp_path / "b.jsonl").write_text("\n\n")
    (tmp_path / "c.tsv").write_text("text\tid\n")
    (tmp_path / "d.txt").write_text("last")
    first, *empty, last = read_texts([str(tmp_path)])
    assert (first.text, last.text) == ("first", "last")
    assert empty == [Unreadable(str(tmp_path / name), EMPTY) for name in ("b.jsonl", "c.tsv")]


def test_an_empty_name_is_not_this_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "essay.txt").write_text("a text that nobody asked about")
    (read,) = read_texts([""])
    assert isinstance(read, Unreadable)
    assert "name of a file is empty" in read.reason
