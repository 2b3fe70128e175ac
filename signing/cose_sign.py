# SPDX-License-Identifier: BSD-2-Clause
"""COSE_Sign messages (RFC 9052, 4.1): one payload, signed by several keys.

As with COSE_Sign1 (envelope.py), each message has one encoding, and only that one is read; the message is

    d8 62 84                            tag 98, array of 4
       40 a0                            protected header, empty; unprotected header, empty
       f6 or 58 .. or 59 .. ..          payload: nil, it is elsewhere; or a byte string
       80 to 88                         array of signatures, in ascending order of their key ids, each
          83                               array of 3
             55 a2 01 26 04 50 <16 bytes>  protected header, byte string of {1: -7 (ES256), 4: key id}
             a0                            unprotected header, empty
             58 40 <64 bytes>              r || s, with the low s
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import cbor2

from signing import curves
from signing.cose import protected_header
from signing.errors import EnvelopeError
from signing.keys import KID_BYTES, SIGNATURE_BYTES, Algorithm
from trace_format.schema.trust import MAX_TRUST_SIGNATURES

COSE_SIGN_TAG = 98  # RFC 9052, table 1
TAG = bytes([0xD8, COSE_SIGN_TAG])  # what a message begins with
ALGORITHM = Algorithm.ES256


@dataclass(frozen=True)
class Signatures:
    """A COSE_Sign message.

    Attributes:
        by_kid: signatures of 64 bytes by the id of their key.
        payload: what is signed; None: it is elsewhere.
    """

    by_kid: Mapping[bytes, bytes]
    payload: bytes | None = None

    def encode(self) -> bytes:
        """The message's bytes."""
        signatures = [
            [protected_header(ALGORITHM, kid), {}, signature] for kid, signature in sorted(self.by_kid.items())
        ]
        message = cbor2.CBORTag(COSE_SIGN_TAG, [b"", {}, self.payload, signatures])
        return cbor2.dumps(message, canonical=True)

    def with_signature(self, kid: bytes, signature: bytes) -> Signatures:
        """With one more, or another one of the same key."""
        return replace(self, by_kid={**self.by_kid, kid: signature})

    @classmethod
    def decode(cls, data: bytes) -> tuple[Signatures, int]:
        """Read the message that bytes start with.

        Returns:
            The message and its size.

        Raises:
            EnvelopeError: it is not as `encode` writes it; the offset counts from the start of the bytes.
        """
        reader = _Reader(data)
        reader.expect(TAG + b"\x84\x40\xa0", "a COSE_Sign message")
        payload = reader.payload()
        count = reader.take(1, "the number of signatures")[0] - 0x80
        if not 0 <= count <= MAX_TRUST_SIGNATURES:
            raise reader.wrong("number of signatures", f"0 to {MAX_TRUST_SIGNATURES}", count)
        found: dict[bytes, bytes] = {}
        for _ in range(count):
            kid, signature = reader.signature()
            if found and kid <= max(found):
                raise reader.wrong("signatures", "ascending key ids", kid.hex())
            found[kid] = signature
        return cls(found, payload), reader.at


def to_be_signed(kid: bytes, payload: bytes) -> bytes:
    """The bytes that a key signs: Sig_structure of RFC 9052, 4.4."""
    return cbor2.dumps(["Signature", b"", protected_header(ALGORITHM, kid), b"", payload], canonical=True)


class _Reader:
    """Reads the one encoding."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def wrong(self, what: str, expected: object, found: object) -> EnvelopeError:
        return EnvelopeError(what, offset=self.at, expected=expected, found=found)

    def take(self, count: int, what: str) -> bytes:
        if len(self.data) - self.at < count:
            raise self.wrong(f"{what} of a COSE_Sign message", f"{count} bytes", len(self.data) - self.at)
        self.at += count
        return self.data[self.at - count : self.at]

    def expect(self, expected: bytes, what: str) -> None:
        found = self.data[self.at : self.at + len(expected)]
        if found != expected:
            raise self.wrong(f"{what} in its one encoding", expected.hex(" "), found.hex(" ") or "the end")
        self.at += len(expected)

    def payload(self) -> bytes | None:
        kind = self.take(1, "the payload")[0]
        if kind == 0xF6:
            return None
        if kind not in (0x58, 0x59):
            raise self.wrong("payload of a COSE_Sign message", "nil, or 24 to 65535 bytes", hex(kind))
        size = int.from_bytes(self.take(kind - 0x57, "the payload's size"), "big")
        if size < (24 if kind == 0x58 else 256):
            raise self.wrong("the payload's size", "its shortest encoding", size)
        return self.take(size, "the payload")

    def signature(self) -> tuple[bytes, bytes]:
        head = protected_header(ALGORITHM, bytes(KID_BYTES))[:-KID_BYTES]
        self.expect(b"\x83" + bytes([0x40 + len(head) + KID_BYTES]) + head, "a signature")
        kid = self.take(KID_BYTES, "a key id")
        self.expect(bytes([0xA0, 0x58, SIGNATURE_BYTES]), "a signature")
        signature = self.take(SIGNATURE_BYTES, "a signature")
        if not curves.is_low(curves.scalars(signature)[1]):
            raise self.wrong(f"signature of key {kid.hex()}", "the smaller of s and n - s", "the other")
        return kid, signature


def read_sequence(data: bytes) -> list[Signatures]:
    """The messages that bytes consist of, a CBOR sequence (RFC 8742); EnvelopeError as `Signatures.decode`."""
    found: list[Signatures] = []
    at = 0
    while at < len(data):
        try:
            message, size = Signatures.decode(data[at:])
        except EnvelopeError as error:
            error.offset = at + (error.offset or 0)
            raise
        found.append(message)
        at += size
    return found
