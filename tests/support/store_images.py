# SPDX-License-Identifier: BSD-2-Clause
"""What lies in a rollback store, written and read by Python alone: the layout of docs/FORMAT-DEVICE.md."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable

RECORD, PAIRS = 128, 64
BANK_BYTES = RECORD * PAIRS * 2
TRACE, POLICY, BANK = 1, 2, 3


def record(kind: int, version: int, name: str = "") -> bytes:
    """One record."""
    body = b"GRSTORE1" + struct.pack("<II", kind, version) + name.encode().ljust(64, b"\0") + bytes(16)
    return body + hashlib.sha256(body).digest()


def pair(kind: int, version: int, name: str = "") -> bytes:
    """A record, and the same once more."""
    return record(kind, version, name) * 2


def bank(*parts: bytes) -> bytes:
    """A bank that begins with these pieces."""
    return b"".join(parts).ljust(BANK_BYTES, b"\xff")


def versions(data: bytes) -> dict[tuple[int, str], int]:
    """(kind, name) -> highest version in a bank, of its good records."""
    found: dict[tuple[int, str], int] = {}
    for body in _good(data):
        kind, version = struct.unpack_from("<II", body, 8)
        key = kind, body[16:80].rstrip(b"\0").decode()
        found[key] = max(version, found.get(key, 0))
    return found


def _good(data: bytes) -> Iterable[bytes]:
    for at in range(0, len(data), RECORD):
        body, digest = data[at : at + RECORD - 32], data[at + RECORD - 32 : at + RECORD]
        if body[:8] == b"GRSTORE1" and hashlib.sha256(body).digest() == digest:
            yield body
