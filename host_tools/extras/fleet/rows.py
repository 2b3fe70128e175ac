# SPDX-License-Identifier: BSD-2-Clause
"""Entries of many logs as rows of Parquet, and questions to them, by DuckDB with a limit of memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from host_tools.extras.fleet.pieces import Piece
from signing.replay_log import ZERO
from trace_format.schema.log import LogKind

MEMORY = "256MB"  # of DuckDB; what needs more goes to its temporary files
PART = 16384  # entries of a file of Parquet
COLUMNS = (
    ("device", "VARCHAR"),
    ("position", "UBIGINT"),  # in the device's log
    ("file", "VARCHAR"),
    ("seen", "TIMESTAMP"),  # UTC: when the file was collected
    ("sequence", "UBIGINT"),
    ("boot", "UBIGINT"),
    ("kind", "VARCHAR"),
    ("status", "VARCHAR"),
    ("retries", "UINTEGER"),
    ("security_version", "UINTEGER"),
    ("subject", "VARCHAR"),
    ("trace", "VARCHAR"),
    ("trust_policy", "VARCHAR"),
    ("trust_version", "UINTEGER"),
)
UNSIGNED = "without a good signature"
_KINDS = {kind.value: kind.name.lower() for kind in LogKind}


@dataclass(frozen=True)
class _Batch:
    device: str
    position: int
    piece: Piece
    which: NDArray[np.int64]  # of the entries, those that are the device's
    entries: NDArray[np.void]


class Rows:
    """What devices have logged, while it is collected and afterwards.

    Args:
        traces: hash of a trace's head -> its name.
        status_name: name of a replayer's status.
    """

    def __init__(self, traces: Mapping[bytes, str], status_name: Callable[[int], str]) -> None:
        self.traces = traces
        self._status_name = status_name
        self._held: list[_Batch] = []
        self._size = 0
        self._parts = 0
        self._begun = ("", 0)  # the device whose entries are added, and its first part

    def __enter__(self) -> Rows:
        """OSError: there is no room for temporary files."""
        self._place = TemporaryDirectory(prefix="gramophone-fleet-")
        self._folder = Path(self._place.name)
        self._db = duckdb.connect(
            ":memory:",
            config={"memory_limit": MEMORY, "threads": "1", "temp_directory": str(self._folder / "spilled")},
        )
        self._db.execute(f"CREATE TABLE form ({', '.join(map(' '.join, COLUMNS))})")
        self._write("form")  # so that there is a file, and types, even without an entry
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._db.close()
        self._place.cleanup()

    def add(
        self, device: str, position: int, piece: Piece, entries: NDArray[np.void], good: NDArray[np.bool_]
    ) -> None:
        """Add entries of one file, of which `good` are the device's; OSError: the disk is full."""
        which = np.flatnonzero(good)
        if device != self._begun[0]:
            self._begun = device, self._parts
        if len(which):
            self._held.append(_Batch(device, position, piece, which, entries[which]))
            self._size += len(which)
        if self._size >= PART:
            self._flush()

    def drop(self, device: str, ranges: Iterable[tuple[int, int]]) -> None:
        """Take back entries of the device that was added last: first position and count of each stretch.

        Its parts are written again, one by one: a join with all parts would be one with all entries in memory.
        """
        dropped = [(first, first + count) for first, count in ranges if count]
        if not dropped or device != self._begun[0]:
            return
        self._flush()
        self._db.execute("CREATE OR REPLACE TEMP TABLE dropped (low UBIGINT, high UBIGINT)")
        self._db.executemany("INSERT INTO dropped VALUES (?, ?)", dropped)
        self._db.execute("CREATE OR REPLACE TEMP TABLE whose AS SELECT ? AS name", [device])
        for number in range(self._begun[1], self._parts):
            part, fresh = self._part(number), self._folder / "fresh"
            kept = (
                f"{_read(part)} WHERE device <> (SELECT name FROM whose) OR NOT EXISTS "
                "(SELECT 1 FROM dropped WHERE position >= low AND position < high)"
            )
            self._copy(kept, fresh)
            os.replace(fresh, part)

    def finish(self) -> None:
        """Make `entries` what questions can be asked about; nothing is added after this."""
        self._flush()
        self._db.execute(f"CREATE VIEW entries AS SELECT * FROM {_read(self._folder / 'part-*.parquet')}")

    def ask(self, question: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """The answer to SQL about `entries`."""
        return self._db.execute(question, values).fetchall()

    def save(self, path: Path) -> None:
        """Write all rows as one file of Parquet, or leave everything as it was; OSError: it cannot."""
        with TemporaryDirectory(prefix=".gramophone.", dir=path.parent) as name:
            fresh = Path(name) / "rows.parquet"
            self._copy("entries", fresh)
            os.replace(fresh, path)

    def _flush(self) -> None:
        if self._held:
            batch = {name: np.concatenate(columns) for name, columns in self._columns().items()}
            self._db.register("batch", batch)
            self._write("batch")
            self._db.unregister("batch")
        self._held, self._size = [], 0

    def _write(self, table: str) -> None:
        self._copy(table, self._part(self._parts))
        self._parts += 1

    def _part(self, number: int) -> Path:
        return self._folder / f"part-{number:08d}.parquet"

    def _copy(self, table: str, path: Path) -> None:
        columns = ", ".join(f"{name}::{kind} AS {name}" for name, kind in COLUMNS)
        place = str(path).replace("'", "''")
        try:
            self._db.execute(
                f"COPY (SELECT {columns} FROM {table}) TO '{place}' (FORMAT parquet, COMPRESSION zstd)"
            )
        except duckdb.IOException as error:
            raise OSError(0, str(error).partition("\n")[0], str(path)) from None

    def _columns(self) -> dict[str, list[NDArray[Any]]]:
        found: dict[str, list[NDArray[Any]]] = {name: [] for name, _ in COLUMNS}
        for batch in self._held:
            rows, size = batch.entries, len(batch.entries)
            subjects = _each(rows["subject"], bytes.hex)
            loads = rows["kind"] == LogKind.LOAD.value
            policies = _each(rows["inputs"], lambda value: None if value == ZERO else value.hex())
            policies[~loads] = None
            has_policy = policies != None  # noqa: E711 -- each element
            versions = np.ascontiguousarray(rows["outputs"][:, :4]).view("<u4")[:, 0]
            for name, column in (
                ("device", _same(batch.device, size)),
                ("position", (batch.position + batch.which).astype(np.uint64)),
                ("file", _same(batch.piece.name, size)),
                ("seen", np.full(size, np.datetime64(batch.piece.seen.replace(tzinfo=None), "us"))),
                *((name, rows[name]) for name in ("sequence", "boot", "retries", "security_version")),
                (
                    "kind",
                    _each(rows["kind"], lambda value: _KINDS.get(int.from_bytes(value, "little"), "unknown")),
                ),
                (
                    "status",
                    _each(rows["status"], lambda value: self._status_name(int.from_bytes(value, "little"))),
                ),
                ("subject", subjects),
                ("trace", self._names(rows)),
                ("trust_policy", policies),
                ("trust_version", np.where(has_policy, versions, 0)),
            ):
                found[name].append(column)
        return found

    def _names(self, rows: NDArray[np.void]) -> NDArray[Any]:
        """What people call the traces: the file that was given, or the head's hash, which the device computed."""

        def name(subject: bytes) -> str:
            return self.traces.get(subject) or (subject.hex() if subject != ZERO else UNSIGNED)

        found = _each(rows["subject"], name)
        found[rows["kind"] == LogKind.BOOT.value] = None
        return found


def _read(path: Path) -> str:
    place = str(path).replace("'", "''")
    return f"read_parquet('{place}')"


def _each(values: NDArray[Any], told: Callable[[bytes], str | None]) -> NDArray[Any]:
    """What is told of each value's bytes; it is asked once for those that are the same."""
    width = values.nbytes // len(values)
    # As texts of bytes NumPy sorts them; it takes zeros at the end away, and all have one width.
    flat = np.ascontiguousarray(values).view(f"S{width}").reshape(-1)
    different, which = np.unique(flat, return_inverse=True)
    words = np.array([told(bytes(value).ljust(width, b"\0")) for value in different], object)
    found: NDArray[Any] = words[which.reshape(-1)]
    return found


def _same(value: str, size: int) -> NDArray[Any]:
    return np.full(size, value, object)
