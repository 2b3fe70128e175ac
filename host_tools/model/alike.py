# SPDX-License-Identifier: BSD-2-Clause
"""Which bytes have been there before: equal ones are kept once, in the image and among pages."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from trace_format.codec import Buffer

_BEGINNING = 64  # bytes: weights of one size that differ do so there, nearly always


class _First(NamedTuple):
    place: int
    data: list[Buffer]


class Alike:
    """The place of the first of equal bytes. Only those are hashed whose size and beginning are not new."""

    def __init__(self) -> None:
        self._begun: dict[tuple[int, bytes], _First | None] = {}  # None: the first one has been hashed, too
        self._hashed: dict[bytes, int] = {}

    def first(self, data: list[Buffer], place: int) -> int:
        """Where these bytes were before; `place`, where they are, if that is nowhere.

        Args:
            data: the bytes in parts, wherever these are cut; they must stay as they are.
        """
        key = sum(map(len, data)), _beginning(data)
        if key not in self._begun:
            self._begun[key] = _First(place, data)
            return place
        if first := self._begun[key]:
            self._hashed[_digest(first.data)] = first.place
            self._begun[key] = None
        return self._hashed.setdefault(_digest(data), place)


def _beginning(data: list[Buffer]) -> bytes:
    found = b""
    for part in data:
        found += part[: _BEGINNING - len(found)]
        if len(found) == _BEGINNING:
            break
    return found


def _digest(data: list[Buffer]) -> bytes:
    digest = hashlib.sha256()
    for part in data:
        digest.update(part)
    return digest.digest()
