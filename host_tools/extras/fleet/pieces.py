# SPDX-License-Identifier: BSD-2-Clause
"""Which device a file is of, and its pieces of a log as one log.

Whoever fills the place is not trusted: which device a file is of is a claim, until its entries are proven by that
device's key.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import PurePosixPath

from host_tools.extras.fleet.places import File, Place
from signing.replay_log import ENTRY_BYTES

LOG, ATTESTATION = ".log", ".cbor"
_LATEST = datetime(9999, 1, 1, tzinfo=UTC).timestamp()


@dataclass(frozen=True)
class Piece:
    """A file with entries.

    Attributes:
        place: where it is.
        file: there; what is appended later is not read.
        seen: when it was collected (UTC): as its name says, or when it was last changed.
    """

    place: Place
    file: File
    seen: datetime

    @property
    def name(self) -> str:
        """What people call it."""
        return self.place.named(self.file.path)

    @property
    def entries(self) -> int:
        """How many whole ones it has."""
        return self.file.size // ENTRY_BYTES

    def read(self, offset: int, size: int) -> bytes:
        """Some of its bytes, as `Place.read`."""
        return self.place.read(self.file, offset, size)


@dataclass
class Collected:
    """What there is of one device, in the order of the names.

    Attributes:
        logs: pieces of its log.
        attestations: its attestations.
        unread: why folders cannot be read.
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
            GramophoneError: a file has become shorter, or nothing can be read at all.
            OSError: it cannot be read.
        """
        return b"".join(
            piece.read(at * ENTRY_BYTES, size * ENTRY_BYTES) for piece, at, size in self.parts(first, count)
        )

    def parts(self, first: int, count: int) -> Iterator[tuple[Piece, int, int]]:
        """In which pieces entries lie: the piece, the first one's number there, how many."""
        index = bisect.bisect_right(self._starts, first) - 1
        while count > 0:
            at = first - self._starts[index]
            size = min(count, self.pieces[index].entries - at)
            yield self.pieces[index], at, size
            first, count, index = first + size, count - size, index + 1


def collected(place: Place, devices: Collection[str]) -> tuple[dict[str, Collected], list[PurePosixPath]]:
    """What is there of each device, and files and unreadable folders that are of no device that is known.

    A file is of the device that is nearest in its path: `device-7.log`, `device-7/2026-11-27.log` and
    `2026-11-27/device-7.log` are all of device-7. Names are in their natural order: 9 is before 10.

    Raises:
        OSError, StoreError: the place cannot be read.
    """
    found: dict[str, Collected] = {device: Collected() for device in devices}
    strange: list[PurePosixPath] = []
    for file in sorted(place.files((LOG, ATTESTATION)), key=lambda file: _natural(file.path)):
        if file.path.name.startswith("."):
            continue
        device = _device(file.path, devices)
        if device is None:
            strange.append(file.path)
            continue
        changed = datetime.fromtimestamp(min(max(file.changed, 0), _LATEST), UTC)
        piece = Piece(place, file, _time(file.path.stem) or changed)
        (found[device].logs if file.path.suffix == LOG else found[device].attestations).append(piece)
    for path, error in place.unread:
        if device := _device(path, devices):
            found[device].unread.append(error)
        else:
            strange.append(path)
    return found, strange


def _device(path: PurePosixPath, devices: Collection[str]) -> str | None:
    words = (path.name, path.stem, *reversed(path.parts[:-1]))
    return next((word for word in words if word in devices), None)


def _natural(path: PurePosixPath) -> list[list[tuple[int, str]]]:
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
    """How its first two entries begin; LimitError, OSError as `Place.read`."""
    return b"".join(piece.read(at * ENTRY_BYTES, 8).ljust(8, b"\0") for at in range(min(piece.entries, 2)))
