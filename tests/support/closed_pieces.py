# SPDX-License-Identifier: BSD-2-Clause
"""Streamed traces that are encrypted: the hostile table once more, of owners whose weights are a secret."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

from signing import encryption, envelope
from tests.support import encryption_samples as e
from tests.support import hostile_pieces
from tests.support import replayer_samples as s
from tests.support.hostile_rows import Hostile
from trace_format.trace import Trace


def closed(trace: bytes) -> bytes:
    """The trace for the device alone, whatever it holds: a hostile owner does not ask `Trace.parse` before."""
    with patch.object(Trace, "parse"):
        return encryption.encrypt(trace, [e.public(e.DEVICE)])


def _closed(row: Hostile) -> Hostile:
    def make() -> bytes:
        return s.signed(closed(bytes(envelope.split(row.make()).trace)))

    return replace(row, name=f"encrypted: {row.name}", make=make)


# Those that a program that encrypts can take apart.
LOADS = tuple(_closed(row) for row in hostile_pieces.LOADS if row.status in ("PIECES", "RANGE"))
GOOD = tuple(_closed(row) for row in hostile_pieces.GOOD)
