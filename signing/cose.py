# SPDX-License-Identifier: BSD-2-Clause
"""What the kinds of COSE messages share (RFC 9052)."""

from __future__ import annotations

import cbor2

from signing.keys import Algorithm

HEADER_ALGORITHM = 1  # RFC 9052, table 2
HEADER_KID = 4


def protected_header(algorithm: Algorithm, kid: bytes) -> bytes:
    """The signed part of a header: the algorithm, and the key's id."""
    return cbor2.dumps({HEADER_ALGORITHM: int(algorithm), HEADER_KID: kid}, canonical=True)
