# SPDX-License-Identifier: BSD-2-Clause
"""A replay log of any length as runs: entries that lie one after the other, each with the hash of the one before.

It is read once, in chunks. A log in which nothing is wrong is one run. `long_log.py` judges the runs.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from construct import FormatField
from numpy.typing import NDArray

from signing.replay_log import ENTRY_BYTES, MAC_BYTES, mac
from trace_format import packing
from trace_format.errors import GramophoneError
from trace_format.schema.log import LOG_MAGIC, LogKind

CHUNK = 1024  # entries that are read at once
MOST = 1000  # irregularities of one log that are told apart

Read = Callable[[int, int], bytes]  # entries from a position on, how many: their bytes
Take = Callable[[int, NDArray[np.void], NDArray[np.bool_]], None]  # position, entries, which are the device's


def _dtype() -> np.dtype[np.void]:
    """An entry as NumPy reads it: numbers, and bytes as arrays of bytes."""
    fields: list[tuple[str, str] | tuple[str, str, int]] = []
    for item in packing.shape_of("log_entry").subcons:
        size = int(item.sizeof())
        number = isinstance(packing.kind_of(item), FormatField)
        fields.append((item.name, f"<u{size}") if number else (item.name, "u1", size))
    return np.dtype(fields)


ENTRY = _dtype()
assert ENTRY.itemsize == ENTRY_BYTES


class TooManyError(GramophoneError):
    """A log has more irregularities than are told apart."""


@dataclass(frozen=True)
class Run:
    """Entries that lie one after the other and follow one another.

    Attributes:
        position: of the first, in the log.
        first: the number that the device gave it.
        count: of entries.
        branch: it continues the other side of a fork, which is told already.
    """

    position: int
    first: int
    count: int
    branch: bool = False

    @property
    def end(self) -> int:
        """Number after the last one."""
        return self.first + self.count

    def at(self, number: int) -> int:
        """Position of the entry with a number."""
        return self.position + number - self.first

    def part(self, first: int, end: int, *, branch: bool = False) -> Run:
        """The entries of some numbers."""
        return Run(self.at(first), first, end - first, branch)


@dataclass
class Scan:
    """What a log consists of.

    Attributes:
        count: of all entries.
        runs: in the log's order.
        altered: position and claimed number of the first MOST entries that are not the device's.
        altered_count: how many there are.
        unknown: positions and kinds of the first MOST entries of an unknown kind.
    """

    count: int
    runs: list[Run] = field(default_factory=list)
    altered: list[tuple[int, int]] = field(default_factory=list)
    altered_count: int = 0
    unknown: list[tuple[int, int, int]] = field(default_factory=list)


def scan_log(read: Read, count: int, key: bytes | None, take: Take) -> Scan:
    """Take a log apart into runs.

    Args:
        read: gives entries by their position.
        count: how many entries there are.
        key: the device's log key; None: no entry is refused.
        take: is given all entries, in chunks.

    Raises:
        TooManyError: it has too many irregularities.
    """
    scan = Scan(count)
    last: tuple[int, int, bytes] | None = None  # number, boot and hash of the entry before, if it is the device's
    for at in range(0, count, CHUNK):
        data = read(at, min(CHUNK, count - at))
        rows: NDArray[np.void] = np.frombuffer(data, ENTRY)
        raws = [data[start : start + ENTRY_BYTES] for start in range(0, len(data), ENTRY_BYTES)]
        good = np.array([key is None or _is_of(raw, key) for raw in raws], bool)
        hashes = [hashlib.sha256(raw).digest() for raw in raws]
        follows = _follows(rows, hashes, good, last)
        take(at, rows, good)
        scan.altered_count += int(np.count_nonzero(~good))
        for index in np.flatnonzero(~good)[: MOST - len(scan.altered)].tolist():
            scan.altered.append((at + index, int(rows["sequence"][index])))
        known = np.isin(rows["kind"], [kind.value for kind in LogKind])
        for index in np.flatnonzero(good & ~known)[: MOST - len(scan.unknown)].tolist():
            scan.unknown.append((at + index, int(rows["sequence"][index]), int(rows["kind"][index])))
        _extend(scan.runs, at, rows["sequence"], good, follows)
        if len(scan.runs) > MOST:
            text = f"more than {MOST} places where entries do not follow one another; 'verify log' tells all"
            raise TooManyError(text)
        end = int(rows["sequence"][-1]), int(rows["boot"][-1]), hashes[-1]
        last = end if good[-1] else None
    return scan


def _is_of(raw: bytes, key: bytes) -> bool:
    return raw.startswith(LOG_MAGIC) and hmac.compare_digest(mac(raw[:-MAC_BYTES], key), raw[-MAC_BYTES:])


def _follows(
    rows: NDArray[np.void], hashes: Sequence[bytes], good: NDArray[np.bool_], last: tuple[int, int, bytes] | None
) -> NDArray[np.bool_]:
    """Which entries follow the one that lies before them: by number, boot and hash."""
    numbers, boots = rows["sequence"], rows["boot"]
    starts = rows["kind"] == LogKind.BOOT.value
    digests = np.frombuffer(b"".join(hashes), np.uint8).reshape(len(hashes), -1)
    found = np.zeros(len(rows), bool)
    found[1:] = (
        good[1:]
        & good[:-1]
        & (numbers[1:] - numbers[:-1] == 1)
        & (boots[1:] - boots[:-1] == starts[1:])
        & (rows["previous"][1:] == digests[:-1]).all(axis=1)
    )
    if last is not None and good[0]:
        number, boot, digest = last
        same = rows["previous"][0].tobytes() == digest and int(boots[0]) == boot + bool(starts[0])
        found[0] = same and int(numbers[0]) == number + 1
    return found


def _extend(
    runs: list[Run], at: int, numbers: NDArray[np.uint64], good: NDArray[np.bool_], follows: NDArray[np.bool_]
) -> None:
    """Add a chunk's entries to the runs: to the last one, and new ones."""
    breaks = [0, *(np.flatnonzero(~follows[1:] | ~good[1:]) + 1).tolist(), len(good)]
    for start, end in itertools.pairwise(breaks):
        if not good[start]:
            continue
        if start == 0 and follows[0]:
            before = runs.pop()
            runs.append(Run(before.position, before.first, before.count + end))
        else:
            runs.append(Run(at + start, int(numbers[start]), end - start))
        if len(runs) > MOST:
            return
