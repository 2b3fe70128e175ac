# SPDX-License-Identifier: BSD-2-Clause
"""Traces that commands read, signed or not."""

from __future__ import annotations

import contextlib
from pathlib import Path

from host_tools.commands.streams import read
from signing import encryption
from signing.delivery import Delivery
from signing.envelope import SignedTrace
from trace_format import layout
from trace_format.errors import EncryptedError
from trace_format.schema import SIGNED_MAGIC
from trace_format.trace import Trace


def read_trace(path: Path) -> tuple[Trace, dict[str, str]]:
    """The trace in a file, signed or not, and who claims to have signed it: nothing is verified here.

    Raises:
        TraceError: it is neither.
    """
    return parse_trace(read(path), str(path))


def parse_trace(data: bytes, file: str) -> tuple[Trace, dict[str, str]]:
    """As `read_trace`, for the content of a file."""
    if not data.startswith(SIGNED_MAGIC):
        return encryption.parse(data, file), {}
    delivery = Delivery(data)
    with layout.naming(file):
        signed = delivery.signed
        return delivery.parse(), claim_of(signed)


def claim_of(signed: SignedTrace) -> dict[str, str]:
    """Who claims to have signed a trace."""
    return {"algorithm": signed.algorithm.title, "key_id": signed.signed_by}


def trace_bytes(path: Path) -> bytes:
    """The bytes of the trace in a file, signed or not: without an envelope; TraceError as `read_trace`.

    One that is encrypted stays so; its content is looked at only if there is a key.
    """
    data = read(path)
    with layout.naming(str(path)), contextlib.suppress(EncryptedError):
        if not data.startswith(SIGNED_MAGIC):
            encryption.parse(data)
        else:
            Delivery(data).parse()
    return bytes(Delivery(data).signed.trace) if data.startswith(SIGNED_MAGIC) else data
