# SPDX-License-Identifier: BSD-2-Clause
"""The signed trace's bytes: header, COSE_Sign1 message, padding, trace.

Every signed trace has exactly one encoding, and only that one is read: a bit that could be flipped without
notice would be a bit that the signature does not cover. For the same reason ES256 signatures must have a low s
(signing/curves.py), which `verify_trace` checks. The COSE message is 92 bytes, of which only the
algorithm (26 or 27, that is -7 or -8), the key id and the signature vary:

    d2 84                              tag 18, array of 4
       55 a2 01 26 04 50 <16 bytes>    protected header, byte string of {1: algorithm, 4: key id}
       a0                              unprotected header, empty
       f6                              payload, nil: it is the head of the trace
       58 40 <64 bytes>                signature
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import cbor2

from signing import cose_sign
from signing.cose import HEADER_ALGORITHM, HEADER_KID, check_encoding, protected_header
from signing.cose_sign import Signatures
from signing.errors import EnvelopeError
from signing.keys import KID_BYTES, SIGNATURE_BYTES, Algorithm
from trace_format import packing
from trace_format.codec import Buffer
from trace_format.errors import (
    MagicError,
    ReservedError,
    SectionRangeError,
    TraceError,
    TruncatedError,
    VersionError,
)
from trace_format.schema import (
    ALIGNMENT,
    MAX_ENVELOPE_BYTES,
    SIGNED_MAGIC,
    TRACE_MAGIC,
    VERSION_MAJOR,
    VERSION_MINOR,
    SignedHeader,
)
from trace_format.schema.trust import MAX_TRUST_ENVELOPE_BYTES, MAX_TRUST_POLICIES

ALGORITHMS = (Algorithm.ES256, Algorithm.EDDSA)  # of a COSE_Sign1 message, whose size is fixed
COSE_SIGN1_TAG = 18  # RFC 9052, table 1


@dataclass(frozen=True)
class Envelope:
    """A COSE_Sign1 message without its payload.

    Attributes:
        algorithm: how it is signed.
        kid: 16 bytes, which key it is signed with.
        signature: 64 bytes.
    """

    algorithm: Algorithm
    kid: bytes
    signature: bytes

    def encode(self) -> bytes:
        """The message's bytes."""
        protected = protected_header(self.algorithm, self.kid)
        message: list[object] = [protected, {}, None, self.signature]
        return cbor2.dumps(cbor2.CBORTag(COSE_SIGN1_TAG, message), canonical=True)

    @classmethod
    def decode(cls, data: bytes) -> Envelope:
        """Read a message; EnvelopeError, its offset from the start, unless it is as `encode` writes it."""
        message = _loads(data, "the envelope")
        if not isinstance(message, cbor2.CBORTag) or message.tag != COSE_SIGN1_TAG:
            raise EnvelopeError(
                "not a COSE_Sign1 message", offset=0, expected=f"tag {COSE_SIGN1_TAG}", found=_short(message)
            )
        # From version 6 on, cbor2 decodes what is inside of a tag as tuples and frozendicts.
        if not isinstance(message.value, list | tuple) or len(message.value) != 4:
            raise EnvelopeError(
                "COSE_Sign1 message", offset=1, expected="an array of 4", found=_short(message.value)
            )
        protected, unprotected, payload, signature = message.value
        if not isinstance(unprotected, Mapping) or unprotected:
            raise EnvelopeError("unprotected header", offset=0, expected="an empty map", found=_short(unprotected))
        if payload is not None:
            raise EnvelopeError("payload", offset=0, expected="nil (detached)", found=_short(payload))
        if not isinstance(signature, bytes) or len(signature) != SIGNATURE_BYTES:
            raise EnvelopeError(
                "signature", offset=0, expected=f"{SIGNATURE_BYTES} bytes", found=_short(signature)
            )
        algorithm, kid = _read_protected(protected)
        envelope = cls(algorithm, kid, signature)
        check_encoding(data, envelope.encode(), EnvelopeError, "not the canonical encoding")
        return envelope


@dataclass(frozen=True)
class SignedTrace:
    """A signed trace taken apart; nothing is verified.

    Attributes:
        message: the signature and the key's id; or, under a trust policy, the trace's signatures, and then signed
            policies.
        trace: the trace's bytes, a view of the file's.
        offset: where the trace starts in the file.
    """

    message: Envelope | tuple[Signatures, ...]
    trace: memoryview
    offset: int

    @property
    def envelope(self) -> Envelope:
        """The one signature; EnvelopeError where a trust policy says who signs."""
        if isinstance(self.message, Envelope):
            return self.message
        raise EnvelopeError(
            "signed under a trust policy (--key takes one)",
            offset=SignedHeader.sizeof(),
            expected="one signature (COSE_Sign1)",
            found="several (COSE_Sign)",
        )

    @property
    def algorithm(self) -> Algorithm:
        """How the file says it is signed: HYBRID where one of several signatures is so."""
        if isinstance(self.message, Envelope):
            return self.message.algorithm
        found = {entry.algorithm for entries in self.message[0].by_kid.values() for entry in entries}
        return Algorithm.HYBRID if Algorithm.ML_DSA_44 in found else min(found, default=Algorithm.ES256)

    @property
    def signed_by(self) -> str:
        """Ids of the keys that the file says it is signed by, in hexadecimal."""
        kids = [self.message.kid] if isinstance(self.message, Envelope) else sorted(self.message[0].by_kid)
        return ", ".join(kid.hex() for kid in kids)

    @property
    def signatures(self) -> tuple[Signatures, ...]:
        """Those under a trust policy; EnvelopeError where there is one signature, of whatever key a device has."""
        if not isinstance(self.message, Envelope):
            return self.message
        raise EnvelopeError(
            "signed for devices with one key, not under a trust policy ('sign --trust-policy')",
            offset=SignedHeader.sizeof(),
            expected="COSE_Sign",
            found="COSE_Sign1",
        )


def to_be_signed(algorithm: Algorithm, kid: bytes, head: bytes) -> bytes:
    """The bytes that are signed: Sig_structure of RFC 9052, 4.4, with the trace's head as payload."""
    return cbor2.dumps(["Signature1", protected_header(algorithm, kid), b"", head], canonical=True)


def join(envelope: Envelope, trace: Buffer) -> bytes:
    """The signed trace's bytes."""
    return b"".join([before(envelope, len(trace)), trace])


def before(envelope: Envelope, trace_bytes: int) -> bytes:
    """What is in front of a trace of that size in the signed file: header, envelope and padding."""
    return _before(envelope.encode(), trace_bytes)


def before_under_policy(messages: Sequence[Signatures], trace_bytes: int) -> bytes:
    """The same of a trace that is signed under a trust policy: its signatures, then signed policies."""
    return _before(b"".join(message.encode() for message in messages), trace_bytes)


def _before(message: bytes, trace_bytes: int) -> bytes:
    values = {
        "version_major": VERSION_MAJOR,
        "version_minor": VERSION_MINOR,
        "envelope_bytes": len(message),
        "trace_bytes": trace_bytes,
    }
    header = packing.pack("signed_header", values)
    return b"".join([header, message, bytes(-len(message) % ALIGNMENT)])


def split(data: bytes) -> SignedTrace:
    """Take a signed trace apart.

    Raises:
        TraceError: the subclass and its offset in the file say what is wrong. The trace is not looked at.
    """
    size = SignedHeader.sizeof()
    if data[: len(TRACE_MAGIC)] == TRACE_MAGIC:
        raise MagicError(
            "a trace that is not signed", offset=0, expected=SIGNED_MAGIC.hex(), found=TRACE_MAGIC.hex()
        )
    if len(data) < size:
        raise TruncatedError("too short for a signed trace", offset=len(data), expected=size, found=len(data))
    if data[: len(SIGNED_MAGIC)] != SIGNED_MAGIC:
        raise MagicError("not a signed trace", offset=0, expected=SIGNED_MAGIC.hex(), found=data[:8].hex())
    header = packing.unpack("signed_header", data[:size], 0)
    # nothing signs this header: a reader accepts only the exact version that it knows
    version = (header["version_major"], header["version_minor"])
    if version != (VERSION_MAJOR, VERSION_MINOR):
        raise VersionError(
            "version of the signed trace",
            offset=8,
            expected=f"{VERSION_MAJOR}.{VERSION_MINOR}",
            found=f"{version[0]}.{version[1]}",
        )
    envelope_bytes = header["envelope_bytes"]
    several = data[size : size + len(cose_sign.TAG)] == cose_sign.TAG
    most = MAX_TRUST_ENVELOPE_BYTES if several else MAX_ENVELOPE_BYTES
    if not 0 < envelope_bytes <= most:
        raise SectionRangeError("envelope_bytes", offset=12, expected=f"1 to {most}", found=envelope_bytes)
    end = size + envelope_bytes
    start = -(-end // ALIGNMENT) * ALIGNMENT
    total = start + header["trace_bytes"]
    if len(data) != total:
        kind = TruncatedError if len(data) < total else SectionRangeError
        raise kind("size of the file", offset=min(len(data), total), expected=total, found=len(data))
    with shifted(size):
        message = _under_policy(data[size:end]) if several else Envelope.decode(data[size:end])
    if any(data[end:start]):
        raise ReservedError("padding after the envelope", offset=end, expected="zero", found=data[end:start].hex())
    return SignedTrace(message, memoryview(data)[start:], start)


def _under_policy(data: bytes) -> tuple[Signatures, ...]:
    found = cose_sign.read_sequence(data)
    for index, message in enumerate(found):
        if (message.payload is None) != (index == 0):
            raise EnvelopeError(
                f"message {index}",
                offset=0,
                expected="a trust policy" if index else "the trace's signatures, without a payload",
                found="none" if index else "one with a payload",
            )
    if len(found) > 1 + MAX_TRUST_POLICIES:
        raise EnvelopeError(
            "trust policies", offset=0, expected=f"at most {MAX_TRUST_POLICIES}", found=len(found) - 1
        )
    return tuple(found)


@contextlib.contextmanager
def shifted(offset: int) -> Iterator[None]:
    """Make the offsets of TraceErrors that pass count from the file's start, `offset` bytes earlier."""
    try:
        yield
    except TraceError as error:
        if error.offset is not None:
            error.offset += offset
        raise


def _read_protected(protected: Any) -> tuple[Algorithm, bytes]:
    if not isinstance(protected, bytes):
        raise EnvelopeError("protected header", offset=0, expected="a byte string", found=_short(protected))
    header = _loads(protected, "the protected header")
    if not isinstance(header, dict) or set(header) != {HEADER_ALGORITHM, HEADER_KID}:
        raise EnvelopeError(
            "protected header",
            offset=0,
            expected="a map of 1 (algorithm) and 4 (key id)",
            found=_short(header),
        )
    algorithm, kid = header[HEADER_ALGORITHM], header[HEADER_KID]
    if not isinstance(algorithm, int) or algorithm not in ALGORITHMS:
        raise EnvelopeError(
            "algorithm",
            offset=0,
            expected=" or ".join(f"{a} ({a.title})" for a in ALGORITHMS),
            found=_short(algorithm),
        )
    if not isinstance(kid, bytes) or len(kid) != KID_BYTES:
        raise EnvelopeError("key id", offset=0, expected=f"{KID_BYTES} bytes", found=_short(kid))
    return Algorithm(algorithm), kid


def _loads(data: bytes, what: str) -> Any:
    try:
        return cbor2.loads(data)
    except (cbor2.CBORDecodeError, RecursionError) as error:
        raise EnvelopeError(f"{what} is not CBOR ({error})", offset=0) from None


def _short(value: object) -> str:
    """A foreign value in an error message, on one line and not too long."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
