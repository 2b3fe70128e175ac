# SPDX-License-Identifier: BSD-2-Clause
"""What the tests of signing share: published test keys and small traces."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from signing.sign import FileSigner
from trace_format.actions import Op, action, array_of
from trace_format.trace import Trace

# published with their documents, so that nobody mistakes them for secrets: RFC 6979, A.2.5 and
# RFC 8032, 7.1 test 1
P256_SCALAR = 0xC9AFA9D845BA75166B5C215767B1D6934E50C3DB36E89B127B8A622B120F6721
ED25519_SEED = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")

ES256 = FileSigner(ec.derive_private_key(P256_SCALAR, ec.SECP256R1()))
EDDSA = FileSigner(ed25519.Ed25519PrivateKey.from_private_bytes(ED25519_SEED))
SIGNERS = {"es256": ES256, "eddsa": EDDSA}

ENVELOPE_START = 32
ENVELOPE_BYTES = 92
TRACE_START = 128


def small_trace(image_bytes: int = 64) -> bytes:
    """A valid trace with an image of so many bytes, not compressed, in chunks of 4096 bytes."""
    actions = array_of([action(Op.INTERVAL, us=7), action(Op.REPLAY_START), action(Op.INTERVAL, us=9)])
    image = (bytes(range(251)) * (image_bytes // 251 + 1))[:image_bytes]
    trace = Trace("v3d42", actions, image, carveout_bytes=1 << 16, va_bytes=1 << 20, meta={"name": "small"})
    return trace.build(compress=False, chunk_bytes=4096)


def flipped(data: bytes, bit: int) -> bytes:
    """The data with one bit turned over; bit 0 is the lowest of the first byte."""
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)
