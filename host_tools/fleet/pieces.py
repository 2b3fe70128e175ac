# SPDX-License-Identifier: BSD-2-Clause
"""Where the devices' logs are: files below a folder, each a piece of one device's log.

Whoever fills the folder is not trusted: which device a file is of is a claim, until its entries are proven by that
device's key.
"""

from __future__ import annotations

import bisect
import os
import re
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from signing.replay_log import ENTRY_BYTES
from trace_format.errors import TruncatedError
from trace_format.files import open_regular

LOG, ATTESTATION = ".log", ".cbor"
_LATEST = datetime(9999, 1, 1, tzinfo=UTC).timestamp()


@dataclass(frozen=True)
class Piece:
    """A file with entries.

    Attributes:
        path: where it is.
        seen: when it was collected (UTC): as its name says, or when it was last changed.
        size: bytes, at first sight; what is appended later is not read.
    """

    path: Path
    seen: datetime
    size: int

    @property
    def entries(self) -> int:
        """How many whole ones it has."""
        return self.size // ENTRY_BYTES


@dataclass
class Collected:
    """What there is of one device, in the order of the names.

    Attributes:
        logs: pieces of its log.
        attestations: its attestations.
        unread: folders that cannot be read.
    """

    logs: list[Piece] = field(default_factory=list)
    attestations: list[Piece] = field(default_factory=list)
    unread: list[OSError] = field(default_factory=list)


class Pieces:
    """Pieces of a log as one log, read by the positions of its entries."""

    def __init__(self, pieces: Collection[Piece]) -> None:
        self.pieces = [piece for piece in pieces if piece.entries]
        self._starts = [0]
        for piece in self.pieces:
            self._starts.append(self._starts[-1] + piece.entries)

    @property
    def entries(self) -> int:
        """How many there are in all."""
        return self._starts[-1]

    def read(self, first: int, count: int) -> bytes:
        """The bytes of entries from a position on.

        Raises:
            GramophoneError: a file has become shorter.
            OSError: it cannot be read.
        """
        return b"".join(
            read_range(piece.path, at * ENTRY_BYTES, size * ENTRY_BYTES)
            for piece, at, size in self.parts(first, count)
        )

    def parts(self, first: int, count: int) -> Iterator[tuple[Piece, int, int]]:
        """In which pieces entries lie: the piece, the first one's number there, how many."""
        index = bisect.bisect_right(self._starts, first) - 1
        while count > 0:
            at = first - self._starts[index]
            size = min(count, self.pieces[index].entries - at)
            yield self.pieces[index], at, size
            first, count, index = first + size, count - size, index + 1


def read_range(path: Path, offset: int, size: int) -> bytes:
    """Some bytes of a file. The only place where a log's content is read.

    Raises:
        TruncatedError: there are fewer.
        LimitError: it is no regular file.
        OSError: it cannot be read.
    """
    with open_regular(path) as file:
        file.seek(offset)
        data = file.read(size)
    if len(data) != size:
        raise TruncatedError(
            "entries of a log", offset=offset, expected=f"{size} bytes", found=len(data), file=str(path)
        )
    return data


def collected(folder: Path, devices: Collection[str]) -> tuple[dict[str, Collected], list[Path]]:
    """What is there of each device, and files and unreadable folders that are of no device that is known.

    A file is of the device that is nearest in its path: `device-7.log`, `device-7/2026-11-27.log` and
    `2026-11-27/device-7.log` are all of device-7. Names are in their natural order: 9 is before 10.

    Raises:
        OSError: the folder cannot be read.
    """
    found: dict[str, Collected] = {device: Collected() for device in devices}
    strange: list[Path] = []
    unread: list[OSError] = []
    for path in sorted(_files(folder, unread), key=lambda path: _natural(path.relative_to(folder))):
        device = _device(path.relative_to(folder), devices)
        try:
            about = path.stat()
        except OSError:  # it is gone, or a link to nothing
            continue
        if device is None:
            strange.append(path)
            continue
        size = about.st_size if stat.S_ISREG(about.st_mode) else ENTRY_BYTES  # a pipe is refused when it is opened
        changed = datetime.fromtimestamp(min(max(about.st_mtime, 0), _LATEST), UTC)
        piece = Piece(path, _time(path.stem) or changed, size)
        (found[device].logs if path.suffix == LOG else found[device].attestations).append(piece)
    for error in unread:
        path = Path(error.filename)
        if path == folder:
            raise error
        if device := _device(path.relative_to(folder), devices):
            found[device].unread.append(error)
        else:
            strange.append(path)
    return found, strange


def _device(path: Path, devices: Collection[str]) -> str | None:
    words = (path.name, path.stem, *reversed(path.parts[:-1]))
    return next((word for word in words if word in devices), None)


def _files(folder: Path, unread: list[OSError]) -> Iterator[Path]:
    for parent, _, names in os.walk(folder, onerror=unread.append):
        for name in names:
            path = Path(parent, name)
            if path.suffix in (LOG, ATTESTATION) and not name.startswith("."):
                yield path


def _natural(path: Path) -> list[list[tuple[int, str]]]:
    return [
        [(int(word), "") if word.isdecimal() else (-1, word) for word in re.split(r"([0-9]+)", part)]
        for part in path.parts
    ]


def _time(name: str) -> datetime | None:
    """The time that a name is, in a form of ISO 8601; without a zone it is UTC."""
    try:
        found = datetime.fromisoformat(name)
    except ValueError:
        return None
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


def magic_of(piece: Piece) -> bytes:
    """How its first two entries begin; LimitError, OSError as `read_range`."""
    return b"".join(
        read_range(piece.path, at * ENTRY_BYTES, 8).ljust(8, b"\0") for at in range(min(piece.entries, 2))
    )
