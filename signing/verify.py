# SPDX-License-Identifier: BSD-2-Clause
"""Verifying a signed trace."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field

from signing import curves, envelope
from signing.delivery import Delivery
from signing.keys import Algorithm, PublicKey
from trace_format import layout
from trace_format.errors import ChunkHashError, TraceError


class Verdict(enum.StrEnum):
    """What came of a verification."""

    VERIFIED = "verified"
    MALFORMED = "malformed"  # the file is not a signed trace of the one form that is read
    UNKNOWN_KEY = "unknown-key"  # signed by none of the keys given
    BAD_SIGNATURE = "bad-signature"  # the head is not what was signed
    BAD_CHUNK = "bad-chunk"  # the head is, but the body is not what the head says


@dataclass(frozen=True)
class VerificationResult:
    """What came of a verification. It is true only if the trace is verified.

    Attributes:
        verdict: which of the possible outcomes.
        reason: one sentence, with the file's name, the offset, what was expected and what was found.
        algorithm, kid: of the signature, as the file says; None where the file is malformed.
        trace: the verified trace's bytes, a view of the file's; None unless verified.
    """

    verdict: Verdict
    reason: str
    algorithm: Algorithm | None = None
    kid: bytes | None = None
    trace: memoryview | None = field(default=None, repr=False)

    @property
    def ok(self) -> bool:
        """Whether the trace is what the owner of one of the keys signed."""
        return self.verdict == Verdict.VERIFIED

    def __bool__(self) -> bool:
        return self.ok


def verify_trace(data: bytes, keys: Iterable[PublicKey], *, file: str = "") -> VerificationResult:
    """Check a signed trace: the signature over its head, then the hash of every chunk of its body.

    The trace's content (manifest, slots, actions) is not checked here; `Trace.parse` does that.

    Args:
        data: the whole file.
        keys: public keys that are trusted.
        file: the file's name, for the reason.

    Returns:
        The result; bad input is a verdict, not an exception.
    """
    return verify_delivery(Delivery(data), keys, file=file)


def verify_delivery(delivery: Delivery, keys: Iterable[PublicKey], *, file: str = "") -> VerificationResult:
    """As `verify_trace`, for a file that is taken apart once."""
    place = f"{file}: " if file else ""
    try:
        with layout.naming(file):
            signed, header = delivery.signed, delivery.header
    except TraceError as error:
        return VerificationResult(Verdict.MALFORMED, str(error))
    algorithm, kid = signed.envelope.algorithm, signed.envelope.kid

    def result(verdict: Verdict, reason: str, trace: memoryview | None = None) -> VerificationResult:
        return VerificationResult(verdict, reason, algorithm, kid, trace)

    trusted = {key.kid: key for key in keys}
    key = trusted.get(kid)
    if key is None:
        known = ", ".join(sorted(k.hex() for k in trusted)) or "none"
        return result(Verdict.UNKNOWN_KEY, f"{place}signed by an unknown key: expected {known}, found {kid.hex()}")
    if key.algorithm != algorithm:
        return result(
            Verdict.BAD_SIGNATURE,
            f"{place}algorithm of key {kid.hex()}: expected {key.algorithm.title}, found {algorithm.title}",
        )
    if algorithm == Algorithm.ES256 and not curves.is_low(curves.scalars(signed.envelope.signature)[1]):
        return result(
            Verdict.BAD_SIGNATURE,
            f"{place}the signature of key {kid.hex()} has a high s: expected the smaller of s and n - s, so that "
            "a trace has one signed file only ('gramophone sign' writes that one)",
        )
    tbs = envelope.to_be_signed(algorithm, kid, bytes(signed.trace[: header["head_bytes"]]))
    if not key.verify(signed.envelope.signature, tbs):
        return result(
            Verdict.BAD_SIGNATURE, f"{place}the signature of key {kid.hex()} does not fit the trace's head"
        )
    try:
        with layout.naming(file):
            _check_body(delivery)
    except ChunkHashError as error:
        return result(Verdict.BAD_CHUNK, str(error))
    except TraceError as error:
        return result(Verdict.MALFORMED, str(error))
    return result(Verdict.VERIFIED, f"{place}signed by {algorithm.title} key {kid.hex()}", signed.trace)


def _check_body(delivery: Delivery) -> None:
    signed, header = delivery.signed, delivery.header
    for index, (expected, found) in enumerate(delivery.sections.chunk_hashes(signed.trace, header)):
        if expected != found:
            raise ChunkHashError(
                f"hash of chunk {index}",
                offset=signed.offset + header["head_bytes"] + index * header["chunk_bytes"],
                expected=expected.hex(),
                found=found.hex(),
            )
