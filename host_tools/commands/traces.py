# SPDX-License-Identifier: BSD-2-Clause
"""Traces that commands read, signed or not."""

from __future__ import annotations

import contextlib
from pathlib import Path

from host_tools.commands.facts import check_single
from host_tools.commands.streams import read
from host_tools.record.other_files import HEAD_BYTES, instead
from signing import encryption
from signing.delivery import Delivery
from signing.envelope import SignedTrace, split
from trace_format import layout
from trace_format.errors import EncryptedError, MagicError
from trace_format.schema import SIGNED_MAGIC
from trace_format.trace import Trace


def read_trace(path: Path, *, joint: bool = False) -> tuple[Trace, dict[str, str]]:
    """The trace in a file, signed or not, and who claims to have signed it: nothing is verified here.

    Args:
        path: the file.
        joint: it may be a joint trace.

    Raises:
        TraceError: it is neither.
        GramophoneError: it is a joint trace, and none is wanted.
    """
    return parse_trace(read(path), str(path), joint=joint)


def parse_trace(data: bytes, file: str, *, joint: bool = False) -> tuple[Trace, dict[str, str]]:
    """As `read_trace`, for the content of a file."""
    if not data.startswith(SIGNED_MAGIC):
        try:
            trace, claim = encryption.parse(data, file), {}
        except MagicError as error:
            if not (other := instead(data[:HEAD_BYTES])):
                raise
            raise MagicError(f"not a trace{other}", offset=0, file=file) from error
    else:
        delivery = Delivery(data)
        with layout.naming(file):
            trace, claim = delivery.parse(), claim_of(delivery.signed)
    if not joint:
        check_single(trace, file)
    return trace, claim


def claim_of(signed: SignedTrace) -> dict[str, str]:
    """Who claims to have signed a trace."""
    return {"algorithm": signed.algorithm.title, "key_id": signed.signed_by}


def trace_bytes(path: Path) -> bytes:
    """The bytes of the trace in a file, signed or not: without an envelope; TraceError as `read_trace`.

    One that is encrypted stays so; its content is looked at only if there is a key.
    """
    data = read(path)
    delivery = Delivery(data) if data.startswith(SIGNED_MAGIC) else None
    with layout.naming(str(path)):
        with contextlib.suppress(EncryptedError):
            if delivery:
                delivery.parse()
            else:
                encryption.parse(data)
        return bytes(delivery.signed.trace) if delivery else data


def inside(data: bytes, file: str) -> tuple[memoryview, int]:
    """The trace in a file's content, signed or not, and where it starts; nothing of it is looked at.

    Raises:
        TraceError: what is around a signed one is malformed.
    """
    if not data.startswith(SIGNED_MAGIC):
        return memoryview(data), 0
    with layout.naming(file):
        found = split(data)
    return found.trace, found.offset
