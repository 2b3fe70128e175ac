# SPDX-License-Identifier: BSD-2-Clause
"""Hostile envelopes: the signed header, the COSE message, the key, the signature's form, sizes."""

from __future__ import annotations

from collections.abc import Callable

from cryptography.hazmat.primitives.asymmetric import ec

from signing import envelope
from signing.curves import P256_ORDER, lowered
from signing.errors import EnvelopeError
from signing.keys import Algorithm
from signing.sign import FileSigner, sign_trace
from signing.verify import Verdict
from tests.support import replayer_samples as s
from tests.support import signing_samples
from tests.support.hostile_rows import Edit, rows
from tests.support.replayer_samples import Parts
from trace_format import errors

STRANGER = FileSigner(ec.derive_private_key(0x737472616E676572, ec.SECP256R1()))  # no secret
# Of a signed file: docs/FORMAT.md, and the comment of signing/envelope.py.
ENVELOPE, PROTECTED, KID, UNPROTECTED, PAYLOAD, SIGNATURE, TRACE = 32, 34, 40, 56, 57, 60, 128
R, S = slice(SIGNATURE, SIGNATURE + 32), slice(SIGNATURE + 32, SIGNATURE + 64)


def put(at: int, data: bytes) -> Edit:
    """Other bytes in the signed file, which is not signed again."""
    return lambda p: (file := p.signed())[:at] + data + file[at + len(data) :]


def signature(change: Callable[[int, int], tuple[int, int]]) -> Edit:
    """Another (r, s)."""

    def edit(parts: Parts) -> bytes:
        file = bytearray(parts.signed())
        r, s_ = change(int.from_bytes(file[R], "big"), int.from_bytes(file[S], "big"))
        file[R], file[S] = r.to_bytes(32, "big"), s_.to_bytes(32, "big")
        return bytes(file)

    return edit


def message(change: Callable[[bytes], bytes]) -> Edit:
    """Another COSE message; its size in the signed header and the padding fit."""

    def edit(parts: Parts) -> bytes:
        file = parts.signed()
        cose = change(file[ENVELOPE : ENVELOPE + 92])
        size = len(cose).to_bytes(4, "little")
        return file[:12] + size + file[16:ENVELOPE] + cose + bytes(-len(cose) % 8) + file[TRACE:]

    return edit


def protected(header: bytes) -> Edit:
    """Another protected header, which is what the signature is over."""

    def edit(parts: Parts) -> bytes:
        file = parts.signed()
        head = file[TRACE : TRACE + int.from_bytes(file[TRACE + 24 : TRACE + 28], "little")]
        text = b"\x84\x6aSignature1" + header + b"\x40\x59" + len(head).to_bytes(2, "big") + head
        signed = lowered(s.ES256.sign(text))
        return file[:PROTECTED] + header + file[UNPROTECTED:SIGNATURE] + signed + file[SIGNATURE + 64 :]

    return edit


def stranger(kid: bytes) -> Edit:
    """Signed by somebody else, under this key id."""

    def edit(parts: Parts) -> bytes:
        data = bytes(parts.data)
        found = envelope.split(sign_trace(data, STRANGER))
        return envelope.join(envelope.Envelope(Algorithm.ES256, kid, found.envelope.signature), data)

    return edit


def flipped(at: int) -> Edit:
    """One bit of the signed file is another."""
    return lambda p: (file := p.signed())[: at % len(file)] + bytes([file[at] ^ 1]) + file[at % len(file) :][1:]


ROWS = rows(
    [
        ("magic of a trace that is not signed", put(0, b"\x89GTR"), "FORMAT", errors.MagicError),
        ("magic with other line ends", put(4, b"\n\n\x1a\n"), "FORMAT", errors.MagicError),
        ("a trace that is not signed", lambda p: bytes(p.data), "FORMAT", errors.MagicError),
        ("signed file of major version 0", put(8, b"\0"), "FORMAT", errors.VersionError),
        ("signed file of major version 2", put(8, b"\2"), "FORMAT", errors.VersionError),
        ("signed file of minor version 1", put(10, b"\1"), "FORMAT", errors.VersionError),
        ("envelope of no bytes", put(12, b"\0"), "FORMAT", errors.SectionRangeError),
        ("envelope of 1025 bytes", put(12, b"\1\4"), "FORMAT", errors.SectionRangeError),
        ("reserved bytes of the signed header", put(31, b"\1"), "ENVELOPE", errors.ReservedError),
        ("padding of the envelope", put(124, b"\1"), "ENVELOPE", errors.ReservedError),
        ("last padding of the envelope", put(127, b"\x80"), "ENVELOPE", errors.ReservedError),
        ("another COSE message", put(ENVELOPE, b"\xd1"), "ENVELOPE", EnvelopeError),
        ("an array of three", put(ENVELOPE + 1, b"\x83"), "ENVELOPE", EnvelopeError),
        ("an array without a tag", message(lambda m: m[1:]), "FORMAT", EnvelopeError),
        ("an array of no stated size", message(lambda m: b"\xd2\x9f" + m[2:] + b"\xff"), "FORMAT", EnvelopeError),
        ("a longer encoding of the array", message(lambda m: b"\xd2\x98\4" + m[2:]), "FORMAT", EnvelopeError),
        ("bytes after the message", message(lambda m: m + b"\0"), "FORMAT", EnvelopeError),
        (
            "protected header in another order",
            protected(b"\x55\xa2\x04\x50" + s.KEY.kid + b"\x01\x26"),
            "ENVELOPE",
            EnvelopeError,
        ),
        (
            "a longer encoding of the algorithm",
            message(lambda m: m[:2] + b"\x56\xa2\1\x38\6" + m[6:]),
            "FORMAT",
            EnvelopeError,
        ),
        ("another algorithm", protected(b"\x55\xa2\1\x22\4\x50" + s.KEY.kid), "ENVELOPE", EnvelopeError),
        (
            "EdDSA by its own key",
            lambda p: sign_trace(bytes(p.data), signing_samples.EDDSA),
            "ENVELOPE",
            Verdict.UNKNOWN_KEY,
        ),
        ("EdDSA by the ES256 key's id", put(37, b"\x27"), "ENVELOPE", Verdict.BAD_SIGNATURE),
        ("key id as text", put(39, b"\x70"), "ENVELOPE", EnvelopeError),
        ("unprotected header of another kind", put(UNPROTECTED, b"\x80"), "ENVELOPE", EnvelopeError),
        (
            "unprotected header with something in it",
            message(lambda m: m[:24] + b"\xa1\4\x41\0" + m[25:]),
            "FORMAT",
            EnvelopeError,
        ),
        ("payload of no bytes, attached", put(PAYLOAD, b"\x40"), "ENVELOPE", EnvelopeError),
        ("payload that is undefined", put(PAYLOAD, b"\xf7"), "ENVELOPE", EnvelopeError),
        ("signature as text", put(58, b"\x78"), "ENVELOPE", EnvelopeError),
        ("a shorter signature", message(lambda m: m[:26] + b"\x58\x3f" + m[28:91]), "FORMAT", EnvelopeError),
        (
            "the other signature of the same bytes",
            signature(lambda r, s_: (r, P256_ORDER - s_)),
            "ENVELOPE",
            Verdict.BAD_SIGNATURE,
        ),
        (
            "the lowest s that is high",
            signature(lambda r, s_: (r, P256_ORDER // 2 + 1)),
            "ENVELOPE",
            Verdict.BAD_SIGNATURE,
        ),
        (
            "the highest s that is low",
            signature(lambda r, s_: (r, P256_ORDER // 2)),
            "SIGNATURE",
            Verdict.BAD_SIGNATURE,
        ),
        ("s of zero", signature(lambda r, s_: (r, 0)), "SIGNATURE", Verdict.BAD_SIGNATURE),
        ("r of zero", signature(lambda r, s_: (0, s_)), "SIGNATURE", Verdict.BAD_SIGNATURE),
        ("r and s of zero", signature(lambda r, s_: (0, 0)), "SIGNATURE", Verdict.BAD_SIGNATURE),
        ("r of the order", signature(lambda r, s_: (P256_ORDER, s_)), "SIGNATURE", Verdict.BAD_SIGNATURE),
        ("r of all ones", signature(lambda r, s_: ((1 << 256) - 1, s_)), "SIGNATURE", Verdict.BAD_SIGNATURE),
        ("r and s of one", signature(lambda r, s_: (1, 1)), "SIGNATURE", Verdict.BAD_SIGNATURE),
        ("a stranger's trace", stranger(STRANGER.kid), "KEY", Verdict.UNKNOWN_KEY),
        ("a stranger's trace under the owner's id", stranger(s.KEY.kid), "SIGNATURE", Verdict.BAD_SIGNATURE),
        ("the owner's trace under a stranger's id", put(KID, STRANGER.kid), "KEY", Verdict.UNKNOWN_KEY),
        ("the last byte of the key's id", flipped(KID + 15), "KEY", Verdict.UNKNOWN_KEY),
        ("a changed head", flipped(TRACE + 64 + 40), "SIGNATURE", Verdict.BAD_SIGNATURE),
        ("a changed body", flipped(-20), "CHUNK", Verdict.BAD_CHUNK),
        ("the size of another trace", put(16, b"\0\0"), "SIZE", errors.SectionRangeError),
        ("a size beyond all memory", put(16, b"\xff" * 8), "SIZE", errors.TruncatedError),
        ("bytes after the end", lambda p: p.signed() + bytes(8), "SIZE", errors.SectionRangeError),
        ("cut by eight bytes", lambda p: p.signed()[:-8], "SIZE", errors.TruncatedError),
        ("cut in the envelope", lambda p: p.signed()[:100], "READ", errors.TruncatedError),
        ("cut in the header", lambda p: p.signed()[:150], "READ", errors.TruncatedError),
    ]
)
