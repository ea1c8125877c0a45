"""A resumable store of Parquet shards, for long computations that are pure functions of the shard index."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from lexergy.errors import LexergyError
from lexergy.files import atomic_path, canonical_json, remove_partials
from lexergy.progress import progress_bar
from lexergy.runs.engines import Compute, InPlace, Read, current_engine, number
from lexergy.runs.parts import current_part
from lexergy.storage import mirror_of, refresh

PROVENANCE_KEY = b"lexergy.provenance"
SHARDS = "shard-*.parquet"


class ShardStore:
    """A folder of shards 0 .. n-1, each written wholly or not at all, all of one provenance.

    The work is resumed by computing what is missing::

        store = ShardStore(folder, provenance={"lm": hash, "seed": 0})
        store.fill(num_shards(len(texts), per_shard=128), compute, "scores")
        table = store.table(num_shards(len(texts), per_shard=128))

    `provenance` is all that the content depends on; shards of another provenance are refused at opening.
    """

    def __init__(self, folder: str | Path, provenance: dict[str, Any]):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._provenance = canonical_json(provenance).encode("utf-8")
        if current_part() is None:  # the other parts' writers may live on other machines
            remove_partials(self.folder)
        for file in _shard_files(self.folder):
            stored = _provenance_of(file)
            if stored is not None and stored != self._provenance:
                raise LexergyError(
                    f"The shard `{file}` was made with other settings ({stored.decode()}) than those "
                    f"asked for ({self._provenance.decode()}); remove the folder or use another one."
                )

    def missing(self, num_shards: int) -> list[int]:
        """The shards of 0 .. num_shards - 1 still to be written; a truncated one counts as missing."""
        elsewhere = self._published()
        return [index for index in range(num_shards) if not self._is_there(self._path(index), elsewhere)]

    def _published(self) -> set[str]:
        """The names of shards at the run's address, where it has one; other machines may have written them."""
        mirror = mirror_of(self.folder)
        return set() if mirror is None else {name.rpartition("/")[2] for name in mirror.list(self.folder)}

    def _is_there(self, path: Path, elsewhere: set[str]) -> bool:
        return _provenance_of(path) is not None or (path.name in elsewhere and not path.exists())

    def write(self, index: int, table: pyarrow.Table) -> None:
        """Store shard `index`, wholly or not at all, with the provenance in its schema's metadata."""
        metadata = {**(table.schema.metadata or {}), PROVENANCE_KEY: self._provenance}
        with atomic_path(self._path(index)) as partial:
            pyarrow.parquet.write_table(table.replace_schema_metadata(metadata), partial)

    def fill(
        self,
        num_shards: int,
        compute: Compute,
        label: str,
        *,
        read: Read = number,
        progress: bool = True,
        tokens_per_row: int | None = None,
    ) -> None:
        """Have the engine in use compute the shards that are missing, each from what `read` gives, and write them.

        With `tokens_per_row`, progress shows tokens per second.

        Where only a part of the shards is to be computed, this ends with `PartDone`, unless none is missing.
        """
        missing, part = self.missing(num_shards), current_part()
        if part is None or not missing:
            refresh(self.folder)
            self._fill(missing, num_shards, compute, read, label, progress, tokens_per_row)
            return
        part.end_turns()
        own = part.share(missing)
        share = len(part.share(range(num_shards)))
        self._fill(own, share, compute, read, f"{label}, part {part}", progress, tokens_per_row)
        raise part.done(label, share, len(self.missing(num_shards)), num_shards)

    def _fill(
        self,
        shards: Sequence[int],
        total: int,
        compute: Compute,
        read: Read,
        label: str,
        progress: bool,
        tokens_per_row: int | None,
    ) -> None:
        engine, started, rows = current_engine() or InPlace(), time.monotonic(), 0
        with progress_bar(label, total, progress, completed=total - len(shards)) as bar:
            for index, table in engine.tables(shards, compute, read):
                self.write(index, table)
                rows += len(table)
                values = {} if engine.workers is None else {"workers": float(engine.workers)}
                if tokens_per_row is not None:
                    values["tokens_per_second"] = rows * tokens_per_row / (time.monotonic() - started)
                bar.advance(1, **values)

    def read(self, index: int) -> pyarrow.Table | None:
        """Shard `index`, None while it is missing."""
        path = self._path(index)
        return None if _provenance_of(path) is None else pyarrow.parquet.read_table(path)

    def table(self, num_shards: int) -> pyarrow.Table:
        """Shards 0 .. num_shards - 1 one after the other."""
        missing = self.missing(num_shards)
        if missing or num_shards < 1:
            raise LexergyError(
                f"{len(missing)} of {num_shards} shards are missing in `{self.folder}`, first {missing[:5]}; "
                "run the stage again to write them."
            )
        tables = [pyarrow.parquet.read_table(self._path(index)) for index in range(num_shards)]
        return pyarrow.concat_tables(tables)

    def _path(self, index: int) -> Path:
        return self.folder / f"shard-{index:06d}.parquet"


def num_shards(num_rows: int, per_shard: int) -> int:
    """How many shards hold so many rows."""
    return -(-num_rows // per_shard)


def shard_rows(index: int, num_rows: int, per_shard: int) -> range:
    """The rows of shard `index`."""
    return range(index * per_shard, min((index + 1) * per_shard, num_rows))


def _shard_files(folder: Path) -> list[Path]:
    return sorted(folder.glob(SHARDS))


def _provenance_of(file: Path) -> bytes | None:
    """The provenance of a shard, None when it is missing or damaged (Parquet keeps its schema at the end)."""
    try:
        metadata: dict[bytes, bytes] = pyarrow.parquet.read_schema(file).metadata or {}
    except (FileNotFoundError, pyarrow.ArrowException, OSError):
        return None
    return metadata.get(PROVENANCE_KEY, b"")
