# SPDX-License-Identifier: BSD-2-Clause
"""What the kinds of COSE messages share (RFC 9052)."""

from __future__ import annotations

import cbor2

from signing.keys import Algorithm
from trace_format.errors import TraceError

HEADER_ALGORITHM = 1  # RFC 9052, table 2
HEADER_KID = 4


def protected_header(algorithm: Algorithm, kid: bytes) -> bytes:
    """The signed part of a header: the algorithm, and the key's id."""
    return cbor2.dumps({HEADER_ALGORITHM: int(algorithm), HEADER_KID: kid}, canonical=True)


def check_encoding(data: bytes, canonical: bytes, error: type[TraceError], what: str) -> None:
    """Raise an error where bytes are not a message's one encoding; its offset is that of the first difference."""
    if data != canonical:
        at = next((i for i, (a, b) in enumerate(zip(data, canonical, strict=False)) if a != b), len(canonical))
        raise error(
            what,
            offset=at,
            expected=canonical[at : at + 1].hex() or "the end",
            found=data[at : at + 1].hex() or "the end",
        )
