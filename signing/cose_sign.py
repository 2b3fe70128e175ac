# SPDX-License-Identifier: BSD-2-Clause
"""COSE_Sign messages (RFC 9052, 4.1): one payload, signed by several keys.

As with COSE_Sign1 (envelope.py), each message has one encoding, and only that one is read; the message is

    d8 62 84                            tag 98, array of 4
       40 a0                            protected header, empty; unprotected header, empty
       f6 or 58 .. or 59 .. ..          payload: nil, it is elsewhere; or a byte string
       80 to 90                         array of signatures, in ascending order of their key ids, each
          83                               array of 3
             55 a2 01 26 04 50 <16 bytes>  protected header, byte string of {1: -7 (ES256), 4: key id}
             a0                            unprotected header, empty
             58 40 <64 bytes>              r || s, with the low s

One of Ed25519 has 27 (-8, EdDSA) instead of 26, and R || S. One of ES384 has 56 a2 01 38 22 04 50 (-35) and
58 60 <96 bytes>; its s is low too, which is a matter of its verification: firmware without ES384 passes over such
signatures.

The signature of a hybrid key is two of these with the key's id, so that any COSE library verifies each: one of
ES256, then one of ML-DSA-44 (RFC 9964), whose unprotected header brings the public key, of which a trust policy
has the hash only:

             56 a2 01 38 2f 04 50 <16 bytes>  {1: -48 (ML-DSA-44), 4: key id}
             a1 0e a1 08 a1 01 a3             {14 (claims, RFC 9528): {8 (confirmation): {1 (COSE_Key):
                01 07 03 38 2f                   {1 (kty): 7 (AKP), 3 (alg): -48,
                20 59 05 20 <1312 bytes>         -1 (pub): the key}}}}
             59 09 74 <2420 bytes>            FIPS 204, with no context
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import cbor2

from signing import curves
from signing.cose import protected_header
from signing.errors import EnvelopeError
from signing.keys import KID_BYTES, SIGNATURE_BYTES, Algorithm
from trace_format.schema.trust import MAX_TRUST_SIGNATURES

COSE_SIGN_TAG = 98  # RFC 9052, table 1
TAG = bytes([0xD8, COSE_SIGN_TAG])  # what a message begins with
ML_DSA_44_KEY_BYTES = 1312  # FIPS 204, table 2
BYTES = {  # of a signature
    Algorithm.ES256: SIGNATURE_BYTES,
    Algorithm.ML_DSA_44: 2420,
    Algorithm.ES384: 96,
    Algorithm.EDDSA: SIGNATURE_BYTES,
}
HEADER_CLAIMS, CLAIM_CONFIRMATION, CONFIRMATION_KEY = 14, 8, 1  # RFC 9528, 10.8; RFC 8747, 3.2
KEY_TYPE, KEY_ALGORITHM, KEY_PUBLIC, AKP = 1, 3, -1, 7  # RFC 9052, table 4; RFC 9964


@dataclass(frozen=True)
class Entry:
    """A signature.

    Attributes:
        algorithm: of it.
        signature: as `signing.keys.PublicKey.verify` takes it.
        key: of ML-DSA, the public key (FIPS 204).
    """

    algorithm: Algorithm
    signature: bytes
    key: bytes = b""

    @property
    def unprotected(self) -> dict[int, Any]:
        """Its unprotected header."""
        if not self.key:
            return {}
        key = {KEY_TYPE: AKP, KEY_ALGORITHM: int(self.algorithm), KEY_PUBLIC: self.key}
        return {HEADER_CLAIMS: {CLAIM_CONFIRMATION: {CONFIRMATION_KEY: key}}}


Entries = tuple[Entry, ...]  # of one key: two of a hybrid one, ES256 first


@dataclass(frozen=True)
class Signatures:
    """A COSE_Sign message.

    Attributes:
        by_kid: signatures by the id of their key.
        payload: what is signed; None: it is elsewhere.
    """

    by_kid: Mapping[bytes, Entries]
    payload: bytes | None = None

    def encode(self) -> bytes:
        """The message's bytes."""
        signatures = [
            [protected_header(entry.algorithm, kid), entry.unprotected, entry.signature]
            for kid, entries in sorted(self.by_kid.items())
            for entry in entries
        ]
        message = cbor2.CBORTag(COSE_SIGN_TAG, [b"", {}, self.payload, signatures])
        return cbor2.dumps(message, canonical=True)

    def with_signature(self, kid: bytes, *entries: Entry) -> Signatures:
        """With that of one more key, or another one of the same key."""
        return replace(self, by_kid={**self.by_kid, kid: entries})

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
        found: dict[bytes, Entries] = {}
        for _ in range(count):
            kid, entry = reader.signature()
            last = max(found, default=b"")
            is_second = kid == last and entry.algorithm is Algorithm.ML_DSA_44
            if is_second and [one.algorithm for one in found[kid]] == [Algorithm.ES256]:
                found[kid] += (entry,)
            elif kid <= last:
                raise reader.wrong("signatures", "ascending key ids", kid.hex())
            else:
                found[kid] = (entry,)
        return cls(found, payload), reader.at


def to_be_signed(kid: bytes, payload: bytes, algorithm: Algorithm = Algorithm.ES256) -> bytes:
    """The bytes that a key signs: Sig_structure of RFC 9052, 4.4."""
    return cbor2.dumps(["Signature", b"", protected_header(algorithm, kid), b"", payload], canonical=True)


def _start(algorithm: Algorithm) -> bytes:
    header = protected_header(algorithm, bytes(KID_BYTES))
    return b"\x83" + bytes([0x40 + len(header)]) + header[:-KID_BYTES]


_STARTS = {algorithm: _start(algorithm) for algorithm in BYTES}  # of a signature, up to the key id
_SOME_KEY = Entry(Algorithm.ML_DSA_44, b"", bytes(ML_DSA_44_KEY_BYTES))
_BEFORE_KEY = cbor2.dumps(_SOME_KEY.unprotected, canonical=True)[:-ML_DSA_44_KEY_BYTES]


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

    def signature(self) -> tuple[bytes, Entry]:
        algorithm, head = self.start()
        self.expect(head, "a signature")
        kid = self.take(KID_BYTES, "a key id")
        key, size = b"", BYTES[algorithm]
        if algorithm is Algorithm.ML_DSA_44:
            self.expect(_BEFORE_KEY, "a public key")
            key = self.take(ML_DSA_44_KEY_BYTES, "a public key")
        else:
            self.expect(b"\xa0", "a signature")
        self.expect(cbor2.dumps(bytes(size))[:-size], "a signature")
        signature = self.take(size, "a signature")
        if algorithm is Algorithm.ES256 and not curves.is_low(curves.scalars(signature)[1]):
            raise self.wrong(f"signature of key {kid.hex()}", "the smaller of s and n - s", "the other")
        return kid, Entry(algorithm, signature, key)

    def start(self) -> tuple[Algorithm, bytes]:
        """The algorithm of the next signature, and its bytes up to the key id; where it is of none, ES256's."""
        fitting = (row for row in _STARTS.items() if self.data.startswith(row[1], self.at))
        return next(fitting, (Algorithm.ES256, _STARTS[Algorithm.ES256]))


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
