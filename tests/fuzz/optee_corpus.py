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


def sharing() -> Iterator[tuple[str, bytes]]:
    """For a pseudo-TA with a queue: sessions, by bits 4 and 5 of `how`, each with a network."""
    a, b, c = 0x00, 0x10, 0x20
    choose, submit, step, give = 17, 19, 20, 21
    close, size, late = 0xFF, 24, 0xFFFFFFFF
    loaded = call(0, how=a) + call(1, how=a) + call(2, how=a)
    both = loaded + call(choose, 1, how=b)
    data = call(4, 0, 0, size, how=a) + call(4, 2, 0, size, how=b)
    asked = call(submit, late, late, how=a) + call(submit, late, late, how=b)
    taken = call(6, 1, 0, size, how=a) + call(6, 3, 0, size, how=b)
    yield "two", both + data + asked + call(step, how=a) + call(step, how=b) + taken
    yield "one-steps", both + data + asked + call(step, how=b) * 2 + taken + call(step, how=a) + taken
    yield "runs", both + data + call(5, how=a) + call(5, how=b) + taken + call(10, how=a) + taken
    yield "loads-again", both + data + loaded + asked + call(5, how=b) + taken
    yield "others-slots", both + data + call(4, 2, 0, size, how=a) + call(4, 0, 0, size, how=b) + call(6, 3, how=a)
    yield "not-chosen", loaded + call(4, 2, 0, size, how=b) + call(submit, how=b) + call(step, how=b)
    yield "taken-twice", both + call(choose, 0, how=b) + call(choose, 1, how=a) + call(choose, 2, how=a)
    yield "closes", both + data + asked + call(close, how=b) + call(choose, 1, how=a) + taken + call(step, how=a)
    later = call(4, 2, 20, 4, how=a) + call(5, how=a) + call(6, 3, 0, size, how=a)
    yield "after-another", both + data + call(close, how=b) + call(choose, 1, how=a) + later
    yield (
        "loader-closes",
        both + data + asked + call(close, how=a) + call(step, how=b) + taken + call(choose, how=c),
    )
    yield (
        "unloads",
        both + asked + call(7, how=b) + call(7, how=a) + call(9, size=255, how=b),
    )
    yield "sends-together", call(0, how=a) + call(0, how=b) + call(1, how=b) + call(7, how=b) + call(1, how=a)
    yield "gives", both + data + asked + call(give, how=a) * 2 + call(step, how=b) + call(give, how=b) + taken
    yield "gives-and-closes", both + data + call(give, how=a) + call(close, how=a) + call(close, how=b)
    yield "describes", both + call(18, 1, size=80, how=b) + call(18, 2, size=80) + call(3, 3, size=88) + call(11)
    # Every command in every state: nothing sent, half of it, loaded by another and nothing chosen, chosen.
    every = b"".join(
        call(command, 0, 0, 512 if command in (8, 9) else 88, how=b)
        for command in (*range(1, 7), *range(8, 22))
        if command != 2
    )
    yield "every-command-at-first", every
    yield "every-command-half-sent", call(0, how=a) + call(1, how=a) + every
    yield "every-command-not-chosen", loaded + every + call(give, how=b)
    yield "every-command-chosen", both + data + every
    part = call(4, 2, 0, size - 1, how=b) + call(5, how=b) + taken
    yield "part-of-an-input", both + part + call(4, 2, size - 1, 1, how=b) + call(5, how=b) + taken + part
    yield "late", both + data + call(submit, 0, how=a) + call(submit, 1, how=b) + call(step, how=a) + taken


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
