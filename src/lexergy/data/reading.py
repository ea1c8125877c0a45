"""Files, JSON lines and datasets of the Hub: their content, or an error that says what is wrong and what to do."""

import csv
import gzip
import json
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from lexergy.errors import LexergyError

HUB_REMEDY = "give a text, JSONL or Parquet file, a folder of them, or `sotu`"


LONGEST_CELL = 2**30  # characters
DELIMITERS = {".csv": ",", ".tsv": "\t"}


def read_text(path: Path) -> str:
    """The text of a file, `.gz` or not, its line ends as `\\n`."""
    return decode_text(read_bytes(path), f"The file `{path}`")


def lines_of(path: Path) -> Iterator[str]:
    """The lines of a file, `.gz` or not, one after the other, without their ends."""
    number = 0
    try:
        with path.open("rb") as file:
            packed = path.suffix.lower() == ".gz"
            for number, line in enumerate(gzip.GzipFile(fileobj=file) if packed else file, start=1):
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                yield text.removesuffix("\n").removesuffix("\r")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise LexergyError(f"The file `{path}` is truncated or no gzip file; fetch it again.") from error
    except PermissionError as error:
        raise LexergyError(f"The file `{path}` may not be read; check its permissions.") from error
    except UnicodeDecodeError as error:
        raise LexergyError(
            f"The file `{path}` is not UTF-8 text (line {number}); "
            "if it is Latin-1, convert it with `iconv -f latin1 -t utf8`."
        ) from error


def read_bytes(path: Path) -> bytes:
    """The content of a file, unpacked where it is a `.gz`."""
    try:
        content = path.read_bytes()
        if path.suffix.lower() == ".gz":
            content = gzip.decompress(content)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise LexergyError(f"The file `{path}` is truncated or no gzip file; fetch it again.") from error
    except PermissionError as error:
        raise LexergyError(f"The file `{path}` may not be read; check its permissions.") from error
    return content


def decode_text(content: bytes, where: str) -> str:
    """UTF-8 bytes as text, line ends as `\\n`."""
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise LexergyError(
            f"{where} is not UTF-8 text (byte {error.start}); "
            "if it is Latin-1, convert it with `iconv -f latin1 -t utf8`."
        ) from error


def numbered_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines that are not empty, counted from 1 with those that are."""
    # Not `splitlines`: JSON strings may hold U+2028 and its kin unescaped.
    return ((number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip())


def read_object(text: str, where: str) -> dict[str, Any]:
    """The JSON object that a text, such as a line of JSONL, holds."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise LexergyError(f"{where} is no JSON; expected one object a line.") from error
    if not isinstance(record, dict):
        raise LexergyError(f"{where} is no JSON object; expected one object a line.")
    return record


def read_record(line: str, where: str, text_field: str) -> dict[str, Any]:
    """The JSON object of one line, which has the field `text_field`."""
    record = read_object(line, where)
    check_field(text_field, record, where)
    return record


def starts_with_object(text: str) -> bool:
    first_line = text.lstrip().split("\n", 1)[0]
    try:
        return isinstance(json.loads(first_line), dict)
    except (ValueError, RecursionError):
        return False


def text_of(record: dict[str, Any], text_field: str, where: str) -> str:
    """The text in a record's field; empty where it is null."""
    value = record[text_field]
    if value is None:
        return ""
    if not isinstance(value, str):
        raise LexergyError(
            f"The field `{text_field}` of {where} holds {type(value).__name__}; "
            "expected text: set `text_field` (`--text-field`) to another field."
        )
    return value


def check_field(text_field: str, fields: Iterable[str], where: str) -> None:
    names = list(fields)
    if text_field not in names:
        raise LexergyError(
            f"{where} has no field `{text_field}`; set `text_field` (`--text-field`) to one of: {', '.join(names)}."
        )


def table_rows(path: Path, text_field: str) -> Iterator[tuple[int, dict[str, str | None]]]:
    """The rows of a CSV or TSV file, which has this column, and the line at which each ends."""
    csv.field_size_limit(LONGEST_CELL)
    lines = (f"{line}\n" for line in lines_of(path))
    reader = csv.DictReader(lines, delimiter=DELIMITERS[suffix_of(path)])
    check_field(text_field, reader.fieldnames or (), f"The file `{path}`")
    try:
        for record in reader:
            yield reader.line_num, record
    except csv.Error as error:
        raise LexergyError(f"Line {reader.line_num + 1} of `{path}` is no row of a table: {error}.") from error


def suffix_of(path: Path) -> str:
    """`.csv` of `a.CSV` and of `a.csv.gz`."""
    return (Path(path.stem) if path.suffix.lower() == ".gz" else path).suffix.lower()


def hub_dataset(name: str, split: str, remedy: str = HUB_REMEDY) -> Any:
    """A split of a dataset on the Hub, `name` or `name:configuration`; an error ends with `remedy`."""
    # Imported here: a second of start-up that local corpora do not need.
    from datasets import load_dataset
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    dataset_name, _, configuration = name.partition(":")
    try:
        # Fails at once where `load_dataset` would try again for 25 seconds.
        snapshot_download(dataset_name, repo_type="dataset", allow_patterns="README.md")
        return load_dataset(dataset_name, configuration or None, split=split)
    except (LocalEntryNotFoundError, ConnectionError) as error:
        raise _hub_error(name, split, remedy, "the Hugging Face Hub could not be reached") from error
    except HFValidationError as error:
        raise _hub_error(name, split, remedy, "this is no name of a dataset") from error
    except (HfHubHTTPError, OSError, ValueError) as error:
        raise _hub_error(name, split, remedy, str(error).splitlines()[0].rstrip(".")) from error


def _hub_error(name: str, split: str, remedy: str, reason: str) -> LexergyError:
    return LexergyError(
        f"The corpus `{name}` is no file or folder here, and as a dataset (split `{split}`) it could not be "
        f"loaded: {reason}; {remedy}."
    )
