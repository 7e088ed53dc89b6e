"""The store of a results folder: finished runs, addressed by content.

The results of a replication follow from its *source* (the resolved scenario, the seed, the engine with its
kernel, and the version of lasthop) and its number. They are stored under both, so a changed plan runs only
what is missing. Rows are added in batches, each in one transaction of an SQLite database, so that a killed
process cannot leave part of a batch. The tables:

- `meta`: facts about the store
- `batch`: the rows, as Arrow IPC streams compressed by zstd, each preceded by its CRC-32
- `piece`: the replications `first` .. `first + count - 1` of a source, and their position in a batch
- `memory`: the hosts' memory at the end of the stored part of a chain, also preceded by a CRC-32
- `capture`: the replications whose packets are in `traces`
"""

import functools
import io
import json
import sqlite3
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain, repeat
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeAlias

import polars as pl

from lasthop import _core
from lasthop.campaign.results import shapes
from lasthop.campaign.results.columns import Gathered, Number, gathered_frame
from lasthop.campaign.results.shapes import StoreFacts
from lasthop.common.errors import InputError
from lasthop.common.version import commit
from lasthop.engines.records import TABLES, Columns, Results

STORE = "store.sqlite"
NEW_STORE = f"{STORE}.new"
"""The name of a store while it is being created."""
PIECE = "_piece"
"""The column of a stored table with the position of the row's piece in its batch."""
_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE batch (
    id INTEGER PRIMARY KEY, flows BLOB NOT NULL, pages BLOB NOT NULL, shorts BLOB NOT NULL,
    hops BLOB NOT NULL, stations BLOB NOT NULL, runs BLOB NOT NULL
);
CREATE TABLE piece (
    batch INTEGER NOT NULL REFERENCES batch, position INTEGER NOT NULL, source TEXT NOT NULL,
    first INTEGER NOT NULL, count INTEGER NOT NULL, facts TEXT, PRIMARY KEY (batch, position)
) WITHOUT ROWID;
CREATE TABLE memory (source TEXT PRIMARY KEY, content BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE capture (
    folder TEXT PRIMARY KEY, source TEXT NOT NULL, number INTEGER NOT NULL
) WITHOUT ROWID;
"""
_STATEMENTS = [statement.strip() for statement in _SCHEMA.split(";") if statement.strip()]
_OF_DAMAGE = (
    None,
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_CONSTRAINT,
)
"""SQLite's error codes for a damaged file; text that is not UTF-8 has no code."""
_KINDS = (str, int, int, int, int)
"""The types of a piece's columns, up to its facts."""
_REMEDY = "Discard these results with --overwrite, or choose another folder with --out DIR."
_BUSY_S = 10.0
_CHECK_BYTES = 4


@dataclass(frozen=True, slots=True)
class Piece:
    """Stored replications `first` .. `first + count - 1` of a source, with the engine's `facts`, if any."""

    source: str
    first: int
    count: int
    batch: int
    position: int
    facts: str | None


NewPiece = tuple[str, int, int, str | None]
"""Source, first replication, count and facts of a piece to be stored."""
Memories: TypeAlias = Mapping[str, tuple[int, str]]
"""By source, a replication of a chain and the hosts' memory before it."""


class Batch(NamedTuple):
    """Results as they are stored: pieces, and their tables as bytes. It can be pickled."""

    pieces: Sequence[NewPiece]
    tables: Mapping[str, bytes]
    memories: Memories

    @property
    def runs(self) -> int:
        return sum(count for _, _, count, _ in self.pieces)


@dataclass(slots=True)
class BatchBuilder:
    """Collects the results of several pieces."""

    pieces: list[NewPiece] = field(default_factory=list)
    memories: dict[str, tuple[int, str]] = field(default_factory=dict)
    _results: list[Results] = field(default_factory=list)

    def add(self, source: str, first: int, count: int, facts: str | None, results: Results) -> None:
        """Add the results of a call of an engine."""
        self.pieces.append((source, first, count, facts))
        self._results.append(results)

    def remember(self, source: str, following: int, memory: str) -> None:
        """Add the memory of a chain's hosts before replication `following`."""
        self.memories[source] = following, memory

    def build(self) -> Batch:
        return Batch(self.pieces, _encoded(self._results) if self.pieces else {}, self.memories)


class DamagedBatchError(Exception):
    def __init__(self, number: int) -> None:
        super().__init__(f"batch {number} is damaged")
        self.number = number


def was_left_open(folder: Path) -> bool:
    """Whether the writer of a store was killed or is still running, so that SQLite's journals exist."""
    return any((folder / f"{STORE}-{journal}").exists() for journal in ("wal", "journal"))


class Store:
    """The store in an existing folder. Methods may be called from any thread."""

    def __init__(self, folder: Path, *, read_only: bool = False) -> None:
        """Open the store, or create it unless `read_only`."""
        self.file = folder / STORE
        self._lock = threading.Lock()
        self._read_only = read_only
        if not (read_only or self.file.exists()):
            self._create(folder / NEW_STORE)
        mode = "ro" if read_only else "rw"
        with self._translated_errors():
            self._database = sqlite3.connect(
                f"{self.file.absolute().as_uri()}?mode={mode}",
                uri=True,
                timeout=_BUSY_S,
                check_same_thread=False,
                isolation_level=None,
            )
        with self._translated_errors(close=True):
            statements = self._database.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")
            if [sql for (sql,) in statements] != _STATEMENTS:
                raise self._unknown_tables()
            # SQLite reads what a truncated file lacks as zeros. Its check finds nothing if there were zeros.
            [(verdict,)] = self._database.execute("PRAGMA quick_check(1)").fetchall()
            [(page_bytes,)] = self._database.execute("PRAGMA page_size").fetchall()
            if verdict == "ok" and self.file.stat().st_size % page_bytes:
                verdict = "the file ends within a page"
            if verdict != "ok":
                raise sqlite3.DatabaseError(verdict)
            if not read_only:
                # Transactions survive a kill or a power cut, and few writes wait for the disk.
                self._database.execute("PRAGMA journal_mode = WAL")
                self._database.execute("PRAGMA synchronous = NORMAL")
        self._opened = self._identity()

    def _identity(self) -> tuple[int, int] | None:
        """Return the device and inode of the file; `None` if it does not exist."""
        try:
            status = self.file.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def check_place(self) -> None:
        """Raise `InputError` if the open file is no longer in its folder, where it would be lost."""
        if self._identity() != self._opened:
            gone = self.file if self.file.parent.exists() else self.file.parent
            raise InputError(
                f"{gone} was removed, renamed or replaced during the run, so the results are lost. Repeat "
                "the command to run everything again, or choose another folder with --out DIR."
            )

    def _create(self, new: Path) -> None:
        """Create an empty store atomically."""
        new.unlink(missing_ok=True)
        with self._translated_errors():
            database = sqlite3.connect(new)
            try:
                database.execute("PRAGMA journal_mode = MEMORY")
                database.executescript(_SCHEMA)
            finally:
                database.close()
        new.rename(self.file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            if not self._read_only:
                # This leaves a single file, which can be read without write permission in the folder. If the
                # disk is full, the journal stays and nothing is lost.
                with suppress(sqlite3.Error):
                    self._database.execute("PRAGMA journal_mode = DELETE")
            self._database.close()

    @contextmanager
    def _translated_errors(self, *, close: bool = False) -> Iterator[None]:
        try:
            yield
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            if close:
                self._database.close()
            number = getattr(error, "sqlite_errorcode", None)
            if (number if number is None else number & 0xFF) in _OF_DAMAGE:
                raise self._damaged(error) from error
            raise InputError(
                f"Cannot use the store of the results, {self.file}: {error}. Its contents are safe: once "
                "this is solved, repeat the command to continue."
            ) from error

    def _damaged(self, reason: Exception) -> InputError:
        text = " ".join(str(reason).split())
        return InputError(
            f"{self.file} is damaged, or is not a store of lasthop ({text}); nothing was changed. {_REMEDY}"
        )

    def _unknown_tables(self) -> Exception:
        """Return the error for a store with unknown tables, which is of another version or damaged."""
        with suppress(sqlite3.DatabaseError, ValueError, KeyError, TypeError):
            [(text,)] = self._database.execute("SELECT value FROM meta WHERE key = 'identity'").fetchall()
            number, of_commit = json.loads(text)["lasthop_version"], json.loads(text)["lasthop_commit"]
            if (number, of_commit) != (_core.VERSION, commit()):
                self._database.close()
                return InputError(
                    f"{self.file} was written by lasthop {number} (commit {of_commit}), whose stores have "
                    "other tables; nothing was changed. Results of different versions are never mixed. "
                    f"{_REMEDY}"
                )
        return sqlite3.DatabaseError("its tables are unknown")

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._translated_errors():
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield self._database
                self._database.execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                raise

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with self._lock, self._translated_errors():
            return self._database.execute(query, values).fetchall()

    def facts(self) -> StoreFacts:
        rows = self._rows("SELECT key, value FROM meta")
        try:
            return shapes.store_facts(rows)
        except ValueError as error:
            raise self._damaged(error) from error

    def note(self, **facts: object) -> None:
        """Store facts that JSON can represent."""
        with self._transaction() as database:
            _note(database, facts)

    def add(self, batch: Batch, **facts: object) -> None:
        """Add a batch and facts about the store in one transaction."""
        with self._transaction() as database:
            if batch.pieces:
                blobs = [batch.tables[table] for table in TABLES]
                number = database.execute(
                    f"INSERT INTO batch ({', '.join(TABLES)}) VALUES ({', '.join('?' * len(TABLES))})", blobs
                ).lastrowid
                database.executemany(
                    "INSERT INTO piece VALUES (?, ?, ?, ?, ?, ?)",
                    [(number, position, *piece) for position, piece in enumerate(batch.pieces)],
                )
            database.executemany(
                "INSERT OR REPLACE INTO memory VALUES (?, ?)",
                [
                    (source, _checked(json.dumps([source, *memory]).encode()))
                    for source, memory in batch.memories.items()
                ],
            )
            _note(database, facts)

    def pieces(self) -> list[Piece]:
        """Return the pieces in the order in which they were stored."""
        rows = self._rows(
            "SELECT source, first, count, batch, position, facts FROM piece ORDER BY batch, position"
        )
        try:
            if any(tuple(map(type, row[:5])) != _KINDS for row in rows):
                raise ValueError("the position of a piece is not a number")
            for facts in {row[5] for row in rows} - {None}:
                shapes.parse(facts, shapes.NOTES)
            if len({row[3:5] for row in rows}) < len(rows):
                raise ValueError("two pieces have the same position")
        except ValueError as error:
            raise self._damaged(error) from error
        return [Piece(*row) for row in rows]

    def memories(self) -> Memories:
        """Return the memory of each chain's hosts, unless it is damaged."""
        memories = {}
        for (content,) in self._rows("SELECT content FROM memory"):
            with suppress(TypeError, ValueError):
                source, following, memory = json.loads(_content(content))
                memories[source] = following, memory
        return memories

    def tables(self, batch: int) -> dict[str, pl.DataFrame]:
        """Return the rows of a batch; raise `DamagedBatchError` if they are damaged."""
        rows = self._rows(f"SELECT {', '.join(TABLES)} FROM batch WHERE id = ?", batch)
        try:
            return {
                table: pl.read_ipc_stream(io.BytesIO(_content(blob)))
                for table, blob in zip(TABLES, rows[0], strict=True)
            }
        except (IndexError, TypeError, ValueError, pl.exceptions.PolarsError) as error:
            raise DamagedBatchError(batch) from error

    def drop(self, batches: Sequence[int]) -> None:
        with self._transaction() as database:
            for table, column in (("piece", "batch"), ("batch", "id")):
                database.executemany(
                    f"DELETE FROM {table} WHERE {column} = ?", [(number,) for number in batches]
                )

    def keep_only(self, batch: int, positions: Sequence[int]) -> None:
        """Remove all pieces of a batch but those at `positions`."""
        remaining = pl.col(PIECE).is_in(list(positions))
        blobs = [_encode(frame.filter(remaining)) for frame in self.tables(batch).values()]
        assignments = ", ".join(f"{table} = ?" for table in TABLES)
        with self._transaction() as database:
            database.execute(f"UPDATE batch SET {assignments} WHERE id = ?", (*blobs, batch))
            marks = ", ".join("?" * len(positions))
            database.execute(
                f"DELETE FROM piece WHERE batch = ? AND position NOT IN ({marks})", (batch, *positions)
            )

    def compact(self) -> None:
        """Remove the memories of removed chains, and return unused space to the file system."""
        with self._lock, self._translated_errors():
            self._database.execute("DELETE FROM memory WHERE source NOT IN (SELECT source FROM piece)")
            self._database.execute("VACUUM")

    def captures(self) -> dict[str, tuple[str, int]]:
        """Return the source and number of each captured replication, by its folder below `traces`."""
        rows = self._rows("SELECT folder, source, number FROM capture")
        return {folder: (source, number) for folder, source, number in rows}

    def add_capture(self, folder: str, source: str, number: int) -> None:
        """Record which replication is captured in a folder."""
        with self._transaction() as database:
            database.execute("INSERT OR REPLACE INTO capture VALUES (?, ?, ?)", (folder, source, number))


def _note(database: sqlite3.Connection, facts: Mapping[str, object]) -> None:
    database.executemany(
        "INSERT OR REPLACE INTO meta VALUES (?, ?)",
        [(key, json.dumps(value)) for key, value in facts.items()],
    )


def _encoded(results: Sequence[Results]) -> dict[str, bytes]:
    """Stack the tables of several results and encode them."""
    ours = [each for each in results if isinstance(each, _core.Results)]
    if len(ours) < len(results):
        return {table: _encode(_frame([getattr(each, table) for each in results])) for table in TABLES}
    return {table: _encode_gathered(columns) for table, columns in _core.gather(ours, PIECE).items()}


def _encode_gathered(columns: Gathered) -> bytes:
    if any(len(own if isinstance(own, list) else own[1]) for own in columns.values()):
        return _encode(gathered_frame(columns))
    return _without_rows(
        tuple((name, None if isinstance(own, list) else own[0]) for name, own in columns.items())
    )


@functools.lru_cache(maxsize=64)
def _without_rows(kinds: tuple[tuple[str, Number | None], ...]) -> bytes:
    """Encode an empty table with columns of these kinds (`None` is text). Most batches share two of them."""
    return _encode(gathered_frame({name: [] if kind is None else (kind, b"", b"") for name, kind in kinds}))


def _frame(parts: Sequence[Columns]) -> pl.DataFrame:
    """Stack columns of Python objects; columns that a part lacks are null."""
    names = dict.fromkeys(chain.from_iterable(parts))
    heights = [len(part["replication"]) for part in parts]
    columns: dict[str, list[object]] = {
        PIECE: list(chain.from_iterable(repeat(position, height) for position, height in enumerate(heights)))
    }
    for name in names:
        cells = (part.get(name, repeat(None, height)) for part, height in zip(parts, heights, strict=True))
        columns[name] = list(chain.from_iterable(cells))
    return pl.DataFrame(columns, strict=False, infer_schema_length=None)


def _encode(frame: pl.DataFrame) -> bytes:
    stream = io.BytesIO()
    frame.write_ipc_stream(stream, compression="zstd")
    return _checked(stream.getvalue())


def _checked(content: bytes) -> bytes:
    return zlib.crc32(content).to_bytes(_CHECK_BYTES) + content


def _content(checked: bytes) -> bytes:
    check, content = checked[:_CHECK_BYTES], checked[_CHECK_BYTES:]
    if zlib.crc32(content).to_bytes(_CHECK_BYTES) != check:
        raise ValueError("wrong checksum")
    return content
