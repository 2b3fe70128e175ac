# SPDX-License-Identifier: BSD-2-Clause
"""Committed inputs for the replay log and its attestations (c/log.c): histories of a device."""

from __future__ import annotations

import struct
from collections.abc import Iterator

APPEND, BEGIN, TRACE, PART, BYTES, ATTEST = range(6)
BOOT, LOAD, REFUSAL, REPLAY = range(4)
PROLOGUE, PROLOGUE_DONE, RUN, RUN_DONE = range(4)
# Numbers on both sides of each form of RFC 8949, 3.
FORMS = (0, 23, 24, 0xFF, 0x100, 0xFFFF, 0x10000, 0xFFFFFFFF, 1 << 32, (1 << 64) - 1)


def device(
    *steps: bytes, fails_at: int = 0, secret: int = 7, more: int = 1, entries: int = 40, boots: int = 7
) -> bytes:
    """A device that has booted, and what it then does."""
    return struct.pack("<BBBQQB", fails_at, secret, more, entries, boots, 9) + b"".join(steps)


def append(kind: int, status: int | None = None) -> bytes:
    """An entry; a status: not OK."""
    said = b"\1" if status is None else b"\0" + struct.pack("<I", status)
    return bytes([APPEND, kind]) + said + struct.pack("<HBI", 3, 2, 0xFFFFFFFF)


def trace(version: int = 3) -> bytes:
    """A trace whose signature was good."""
    return bytes([TRACE]) + struct.pack("<QIB", 0x1122334455667788, version, 96)


def copied(to_gpu: int) -> bytes:
    """A slot that is copied."""
    return bytes([BYTES, 2]) + struct.pack("<QBBB", 16, to_gpu, 0xA5, 16)


def attest(nonce: int = 16) -> bytes:
    """An attestation on a nonce of so many bytes."""
    return bytes([ATTEST, nonce]) + bytes(range(nonce))


def part(which: int) -> bytes:
    """A part of a replay."""
    return bytes([PART, which])


PROLOGUE_PARTS = part(PROLOGUE) + copied(1) + part(PROLOGUE_DONE)
LOADED = bytes([BEGIN]) + trace() + append(LOAD) + PROLOGUE_PARTS
REPLAYED = part(RUN) + copied(1) + copied(0) + part(RUN_DONE) + append(REPLAY)


def histories() -> Iterator[tuple[str, bytes]]:
    """By name."""
    yield "replay", device(LOADED, REPLAYED, attest(), REPLAYED, attest())
    yield "nothing", device(attest())
    yield "refused", device(bytes([BEGIN]), append(REFUSAL, 5), attest())
    yield "failed", device(LOADED, REPLAYED, part(RUN), append(REPLAY, 0xFFFFFFFF), attest())
    for size in (0, 7, 8, 23, 24, 64, 65, 71):
        yield f"nonce-{size}", device(LOADED, attest(size))
    for at, number in enumerate(FORMS):
        version = min(number, 0xFFFFFFFF)
        steps = (bytes([BEGIN]), trace(version), append(REPLAY, version), attest(64))
        yield f"form-{at}", device(*steps, entries=number, boots=number)
    yield "blank-secret", device(attest(), more=0)
    yield "second-candidate", device(attest(), secret=6)
    yield "out-of-turn", device(part(RUN_DONE), part(PROLOGUE_DONE), copied(0), append(REPLAY), attest())
    for call in range(1, 24):
        yield f"fails-{call}", device(LOADED, REPLAYED, attest(), fails_at=call)
