# SPDX-License-Identifier: BSD-2-Clause
"""Committed inputs for OP-TEE's parts: calls of the pseudo-TA, and clients of the user TA."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from tests.support import replayer_samples


def call(command: int, a: int = 0, b: int = 0, size: int = 0, how: int = 0, types: int = 0) -> bytes:
    """A call of c/pta.c."""
    return struct.pack("<BBHIII", command, how, types, a, b, size)


def sessions() -> Iterator[tuple[str, bytes]]:
    """For the pseudo-TA: sessions as clients have them, and others."""
    size = len(replayer_samples.signed(replayer_samples.trace()))
    begin, load, run, unload = call(0), call(2), call(5), call(7)
    loaded = begin + call(1, size=size) + load
    yield "replay", loaded + call(4, 0, 0, 24) + run + call(6, 1, 0, 24) + call(8, size=80) + call(9, size=512)
    yield (
        "in-pieces",
        begin + call(1, size=1000) + call(1, size=size - 1000) + load + call(3, 0, 0, 88) + call(3, 1),
    )
    yield "inputs-in-pieces", loaded + call(4, 0, 0, 8) + call(4, 0, 8, 16) + run + call(6, 1, 20, 100) + run
    yield "out-of-turn", run + call(6, 1, 0, 24) + load + call(1, size=9) + call(3) + call(9, size=512)
    yield "too-much", begin + call(1, size=size + 1) + load
    yield "too-little", begin + call(1, size=size - 1) + load
    yield "damaged", begin + call(1, size=size, how=4) + load + run
    yield "announced", call(0, 0xFFFFFFFF, 0xFFFFFFFF, how=4) + call(0, 0, 0, how=4) + call(0, 0x4001, 0, how=4)
    yield "other-types", call(4, types=0x5151, how=2) + call(99, how=1) + call(6, types=0x55, how=2)
    yield (
        "other-slot",
        loaded + call(4, 1, 0, 24) + call(6, 0, 0, 24) + call(4, 7) + call(4, 0, 25, 0) + call(4, 0, 20, 9),
    )
    yield "no-output", loaded + call(4, 0, 0, 24) + call(6, 1, 0, 24) + run + unload + call(6, 1, 0, 24)
    forget = call(10)
    yield "forgotten", forget + loaded + call(4, 0, 0, 24) + run + forget + call(6, 1, 0, 24) + run + forget
    yield "again", loaded + loaded + call(4, 0, 0, 24) + run + run + begin + run
    yield "short", loaded + call(3, 0, 0, 87) + call(8, size=79) + call(9, size=511)


def clients() -> Iterator[tuple[str, bytes]]:
    """For the user TA: clients, and storage that fails."""
    load, run, unload = call(2), call(5), call(7)
    replay = call(0) + call(1, size=70_000) + load + call(4, size=140_000) + run + call(6, size=140_000)
    for name, setup in {"replay": "", "user": "01", "nobody": "02", "corrupt": "000001", "unreadable": "000002",
                        "full": "000004", "short": "00000001"}.items():  # fmt: skip
        yield name, bytes.fromhex(setup).ljust(8, b"\0") + replay + call(8, size=80) + call(9, size=512) + unload
    versions = bytes([0, 0, 0, 0, 2, 1, 3, 0])
    yield "versions", versions + b"".join(call(2, a=trace) + run for trace in (0, 1, 2, 0))
    yield "strange", bytes(8) + call(99, how=1) + call(5, how=2, types=0x55) + call(3, size=9, how=4) + call(10)
    yield (
        "exaggerates",
        bytes(8) + call(8, 200, size=80, how=8) + call(6, 1 << 20, size=9, how=8),
    )
    yield "far", bytes(8) + call(6, 0, 0xFFFFFFF0, 4096) + call(4, 0, 0xFFFFFFF0, 4096)
