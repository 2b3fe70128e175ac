# SPDX-License-Identifier: BSD-2-Clause
"""For the fuzz target of encrypted traces: messages that say who can read one, and what the device has."""

from __future__ import annotations

from collections.abc import Iterator

from cryptography.hazmat.primitives.asymmetric import ec

from signing.cose_encrypt import Encryption, Recipient
from tests.support import encryption_samples as e

SECRET, FLEET = 1, 2  # what the device has
COUNTER = bytes(range(12)) + bytes(4)


def message(recipients: int) -> bytes:
    """A message whose bytes are the same each time; the first point is good for the fuzz target: its y is odd."""
    points = [
        e.public(ec.derive_private_key(2000 + number, ec.SECP256R1())).raw for number in range(recipients + 8)
    ]
    points.sort(key=lambda point: point[-1] % 2, reverse=True)
    rows = [
        Recipient(bytes([number]) * 16, points[number], bytes(range(number, number + 24)))
        for number in range(recipients)
    ]
    return Encryption(COUNTER, tuple(rows)).encode()


def messages() -> Iterator[tuple[str, bytes]]:
    """(name, input): good messages for devices with one key, both and none, and messages cut or changed."""
    for count in (1, 3, 16):
        for has in (0, SECRET, FLEET, SECRET | FLEET):
            for good in (0, 1, 2, 17):
                yield f"good-{count}-{has}-{good}", bytes([has, good]) + message(count)
    for failing in (1, 2, 5, 9):
        yield f"hash-{failing}", bytes([SECRET | failing << 2, 1]) + message(2)
    one = message(1)
    for size in (0, 28, 29, 100, len(one) - 1):
        yield f"cut-{size}", bytes([SECRET, 1]) + one[:size]
    for at in (1, 8, 26, 27, 28, e.ROW + 5, e.ROW + 30, e.Y - 3, e.Y + 31, e.WRAPPED - 1):
        changed = bytearray(one)
        changed[at] ^= 1
        yield f"changed-{at}", bytes([SECRET, 1]) + bytes(changed)
