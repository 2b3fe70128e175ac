# SPDX-License-Identifier: BSD-2-Clause
"""Verifying a signed trace."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field

from signing import curves, envelope
from signing.delivery import Delivery
from signing.keys import Algorithm, PublicKey
from signing.trust import Anchor, Policy
from signing.trust_keys import KINDS
from signing.trust_verdict import Judge, TrustVerdict, judge
from trace_format import layout
from trace_format.errors import ChunkHashError, TraceError
from trace_format.schema import SlotKind


class Verdict(enum.StrEnum):
    """What came of a verification."""

    VERIFIED = "verified"
    MALFORMED = "malformed"  # the file is not a signed trace of the one form that is read
    UNKNOWN_KEY = "unknown-key"  # signed by none of the keys given
    BAD_SIGNATURE = "bad-signature"  # the head is not what was signed
    BAD_CHUNK = "bad-chunk"  # the head is, but the body is not what the head says
    NOT_TRUSTED = "not-trusted"  # a trust policy does not allow it: `trust` says why


@dataclass(frozen=True)
class VerificationResult:
    """What came of a verification. It is true only if the trace is verified.

    Attributes:
        verdict: which of the possible outcomes.
        reason: one sentence, with the file's name, the offset, what was expected and what was found.
        algorithm, kid: of the signature, as the file says; None where the file is malformed.
        trace: the verified trace's bytes, a view of the file's; None unless verified.
        trust: under a trust policy, what came of that: who signed, what is missing, and the device's status.
    """

    verdict: Verdict
    reason: str
    algorithm: Algorithm | None = None
    kid: bytes | None = None
    trace: memoryview | None = field(default=None, repr=False)
    trust: TrustVerdict | None = None

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
            algorithm, kid = signed.envelope.algorithm, signed.envelope.kid
    except TraceError as error:
        return VerificationResult(Verdict.MALFORMED, str(error))

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
    if wrong := _wrong_body(delivery, file):
        return result(*wrong)
    return result(Verdict.VERIFIED, f"{place}signed by {algorithm.title} key {kid.hex()}", signed.trace)


def verify_under_policy(delivery: Delivery, root: Policy, where: Judge, *, file: str = "") -> VerificationResult:
    """Check a trace that is signed under a trust policy, as a device with that policy does.

    Args:
        delivery: the signed trace.
        root: the policy that is trusted.
        where: of which device.
        file: the file's name, for the reason.

    Returns:
        The result; bad input is a verdict, not an exception.
    """
    place = f"{file}: " if file else ""
    try:
        with layout.naming(file):
            signed, header, manifest = delivery.signed, delivery.header, delivery.manifest
            head = bytes(signed.trace[: header["head_bytes"]])
            trust = judge(root, signed.signatures, head, manifest, where=where)
            if trust and trust.rule and trust.rule.signed_weights:
                given = any(slot.kind is SlotKind.PARAMETER for slot in delivery.parse().slots)
                trust = judge(root, signed.signatures, head, manifest, has_parameters=given, where=where)
    except TraceError as error:
        return VerificationResult(Verdict.MALFORMED, str(error))
    if not trust:
        reason = f"{place}{trust.status.text}{f': {trust.reason}' if trust.reason else ''}"
        return VerificationResult(Verdict.NOT_TRUSTED, reason, trust=trust)
    if wrong := _wrong_body(delivery, file):
        return VerificationResult(*wrong, trust=trust)
    assert trust.quorum is not None
    kids = ", ".join(sorted(kid.hex() for kid in trust.quorum.signed))
    kinds = {key.kind for key in trust.policy.keys if key.kid in trust.quorum.signed}
    algorithm = next((one for one, kind in KINDS.items() if kinds == {kind}), None)
    reason = f"{place}signed by {kids}, under version {trust.policy.version} of trust policy {trust.policy.name}"
    return VerificationResult(Verdict.VERIFIED, reason, algorithm, None, signed.trace, trust)


def verify_by(delivery: Delivery, anchor: Anchor, where: Judge, *, file: str = "") -> VerificationResult:
    """`verify_delivery` with a device's key, or `verify_under_policy` with its policy."""
    if isinstance(anchor, Policy):
        return verify_under_policy(delivery, anchor, where, file=file)
    return verify_delivery(delivery, [anchor], file=file)


def _wrong_body(delivery: Delivery, file: str) -> tuple[Verdict, str] | None:
    """What is wrong with the body of a trace whose head is good."""
    try:
        with layout.naming(file):
            _check_body(delivery)
    except ChunkHashError as error:
        return Verdict.BAD_CHUNK, str(error)
    except TraceError as error:
        return Verdict.MALFORMED, str(error)
    return None


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
