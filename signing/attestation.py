# SPDX-License-Identifier: BSD-2-Clause
"""Attestations: what a device signs on a verifier's nonce.

An Entity Attestation Token (RFC 9711) in CBOR: claims in a COSE_Sign1 message (RFC 9052), ES256, by the device's
key. Like an envelope (envelope.py) it has one encoding, the deterministic one of RFC 8949, 4.2.1. Labels: RFC
9711, 4 (IANA's registry of CWT claims); those below -65536 are for private use, and ours are described by the
profile.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import cbor2
import numpy as np
from numpy.typing import NDArray

from signing.cose import HEADER_ALGORITHM, HEADER_KID, protected_header
from signing.envelope import COSE_SIGN1_TAG
from signing.errors import EnvelopeError
from signing.keys import KID_BYTES, SIGNATURE_BYTES, Algorithm, PublicKey
from signing.replay_log import ZERO, Tail
from trace_format.actions import Columns, Op
from trace_format.errors import GramophoneError
from trace_format.schema import SlotKind
from trace_format.schema.report import Status
from trace_format.trace import Trace

PROFILE = "urn:uuid:19b260ea-6fc0-5911-9f01-a9d34ac18a8a"  # of these claims
NONCE_BYTES = range(8, 65)  # RFC 9711, 4.1
UEID_RANDOM = b"\x01"  # RFC 9711, 4.2.1.1: what follows is random, or a hash of what identifies the device
# label -> name, type, bytes of a byte string; in the order of the encoding
CLAIMS: dict[int, tuple[str, type[Any], range | None]] = {
    10: ("nonce", bytes, NONCE_BYTES),
    256: ("ueid", bytes, range(1 + KID_BYTES, 2 + KID_BYTES)),
    265: ("profile", str, None),
    267: ("boots", int, None),
    -70000: ("firmware", bytes, range(32, 33)),  # SHA-256 of the firmware's code and constants
    -70001: ("policy", bytes, range(32, 33)),  # SHA-256 of its `gr_device`: key, GPU profile, security version
    -70002: ("trace_id", bytes, range(16, 17)),
    -70003: ("trace", bytes, range(32, 33)),  # SHA-256 of the trace's head
    -70004: ("security_version", int, None),
    -70005: ("status", int, None),  # of the last replay
    -70006: ("entries", int, None),  # of the log
    -70007: ("log", bytes, range(32, 33)),  # SHA-256 of its last entry
    -70008: ("inputs", bytes, range(32, 33)),
    -70009: ("outputs", bytes, range(32, 33)),
    -70010: ("trust_policy", bytes, range(32, 33)),  # SHA-256 of that under which the trace was accepted
    -70011: ("trust_version", int, None),  # of that policy
}
OPTIONAL = ((-70008, -70009), (-70010, -70011))  # of each pair both or neither


class AttestationError(GramophoneError):
    """What is asked of an attestation cannot be found out."""


@dataclass(frozen=True)
class Attestation:
    """An attestation taken apart; nothing is verified.

    Attributes:
        kid: id of the key that it says it is signed with.
        claims: name -> value, as in CLAIMS.
        signature: 64 bytes.
        tbs: what is signed.
    """

    kid: bytes
    claims: Mapping[str, Any]
    signature: bytes
    tbs: bytes

    @property
    def tail(self) -> Tail:
        """Where the log ended."""
        return Tail(self.claims["entries"], self.claims["boots"], self.claims["log"], is_final=False)


@dataclass(frozen=True)
class Expected:
    """What a verifier wants to be true; None: it does not matter.

    Attributes:
        nonce: that it sent.
        firmware: SHA-256 of the firmware.
        policy: SHA-256 of the firmware's `gr_device`.
        traces: hashes of the heads of the traces that may have been replayed.
        inputs, outputs: hashes as of `tensor_hashes`.
        trust_policy: SHA-256 of the trust policy under which the trace must have been accepted.
    """

    nonce: bytes
    firmware: bytes | None = None
    policy: bytes | None = None
    traces: Collection[bytes] | None = None
    inputs: bytes | None = None
    outputs: bytes | None = None
    trust_policy: bytes | None = None


def read_attestation(data: bytes, *, file: str = "") -> Attestation:
    """Take an attestation apart.

    Raises:
        EnvelopeError: it is not the one encoding of such a message.
    """
    try:
        message = _loads(data)
        if not isinstance(message, cbor2.CBORTag) or message.tag != COSE_SIGN1_TAG:
            raise _wrong("a COSE_Sign1 message", f"tag {COSE_SIGN1_TAG}", message)
        parts = message.value
        if not isinstance(parts, list | tuple) or len(parts) != 4:
            raise _wrong("COSE_Sign1 message", "an array of 4", parts)
        protected, _, payload, signature = parts
        if not isinstance(signature, bytes) or len(signature) != SIGNATURE_BYTES:
            raise _wrong("signature", f"{SIGNATURE_BYTES} bytes", signature)
        if not isinstance(protected, bytes) or not isinstance(payload, bytes):
            raise _wrong("protected header and payload", "byte strings", parts)
        header = _loads(protected)
        kid = header.get(HEADER_KID) if isinstance(header, Mapping) else None
        if not isinstance(kid, bytes) or len(kid) != KID_BYTES or header.get(HEADER_ALGORITHM) != Algorithm.ES256:
            raise _wrong("protected header", f"ES256 and a key id of {KID_BYTES} bytes", header)
        claims = _claims(_loads(payload))
        if data != encode(kid, claims, signature):
            raise _wrong("an attestation", "its one encoding (RFC 8949, 4.2.1)", data[:32])
    except EnvelopeError as error:
        error.file = file
        raise
    return Attestation(kid, claims, signature, to_be_signed(kid, payload))


def payload_of(claims: Mapping[str, Any]) -> bytes:
    """The claims as they are signed."""
    labels = {name: label for label, (name, _, _) in CLAIMS.items()}
    return cbor2.dumps({labels[name]: value for name, value in claims.items()}, canonical=True)


def to_be_signed(kid: bytes, payload: bytes) -> bytes:
    """Sig_structure of RFC 9052, 4.4."""
    return cbor2.dumps(["Signature1", protected_header(Algorithm.ES256, kid), b"", payload], canonical=True)


def encode(kid: bytes, claims: Mapping[str, Any], signature: bytes) -> bytes:
    """The bytes of an attestation."""
    message = [protected_header(Algorithm.ES256, kid), {}, payload_of(claims), signature]
    return cbor2.dumps(cbor2.CBORTag(COSE_SIGN1_TAG, message), canonical=True)


def check_attestation(report: Attestation, key: PublicKey, expected: Expected) -> Iterator[tuple[str, str]]:
    """What is wrong with an attestation: a name for it, and a sentence; nothing when it holds.

    Of one that the key did not sign only that is said: the claims are then nobody's.
    """
    if report.kid != key.kid:
        yield "other-device", f"signed by key {report.kid.hex()}, not by {key.kid.hex()}"
        return
    if not key.verify(report.signature, report.tbs):
        yield "bad-signature", f"the signature is not one of these claims by key {key.kid.hex()}"
        return
    claims = report.claims
    if claims["ueid"] != UEID_RANDOM + key.kid:
        yield "other-device", f"the device's id is {claims['ueid'].hex()}, which is not that of its key"
    if claims["nonce"] != expected.nonce:
        yield "other-nonce", f"made for the nonce {claims['nonce'].hex()}, not for {expected.nonce.hex()}"
    for name, wanted in (("firmware", expected.firmware), ("policy", expected.policy)):
        if wanted is not None and claims[name] != wanted:
            yield f"other-{name}", f"the {name} is {claims[name].hex()}, not {wanted.hex()}"
    if claims["trace"] == ZERO:
        yield "no-replay", "no trace was replayed"
        return
    if claims["status"] != Status.OK:
        known = {status.value: status.text for status in Status}
        text = known.get(claims["status"], f"unknown status {claims['status']:#010x}")
        yield "no-replay", f"the replay did not succeed: {text}"
    if expected.traces is not None and claims["trace"] not in expected.traces:
        text = f"the trace with the head {claims['trace'].hex()} is none of those given"
        yield "other-trace", f"{text} (its signers call it {claims['trace_id'].hex()})"
    if expected.trust_policy is not None and claims.get("trust_policy") != expected.trust_policy:
        found = claims.get("trust_policy")
        text = f"{found[:KID_BYTES].hex()}, version {claims['trust_version']}" if found else "none: it has one key"
        yield "other-trust-policy", f"the trust policy is {text}, not {expected.trust_policy[:KID_BYTES].hex()}"
    for name, wanted in (("inputs", expected.inputs), ("outputs", expected.outputs)):
        if wanted is None:
            continue
        if name not in claims:
            yield (
                f"other-{name}",
                f"the device does not attest {name}: it was generated without hashes in its evidence",
            )
        elif claims[name] != wanted:
            yield f"other-{name}", f"the hash of the {name} is {claims[name].hex()}, not {wanted.hex()}"


def tensor_hashes(trace: Trace, values: Mapping[str, NDArray[Any]]) -> tuple[bytes, bytes]:
    """Hashes of inputs (with parameters) and outputs of a replay, as the device makes them.

    Args:
        trace: what is replayed.
        values: slot name -> tensor; inputs that the caller does not give are left out.

    Raises:
        AttestationError: an output has no value.
    """
    inputs, outputs, prologue = hashlib.sha256(), hashlib.sha256(), hashlib.sha256()
    in_prologue = any(action["op"] == Op.REPLAY_START for action in trace.actions)
    if not in_prologue:
        inputs.update(prologue.digest())
    for action in trace.actions:
        op = action["op"]
        if op == Op.REPLAY_START:
            inputs.update(prologue.digest())
            in_prologue = False
        if op not in (Op.COPY_TO_GPU, Op.COPY_FROM_GPU):
            continue
        index = int(action["arg"])
        slot = trace.slots[index]
        value = values.get(slot.name)
        if value is None:
            if slot.kind is SlotKind.OUTPUT:
                raise AttestationError(f"no value for the output {slot.name}: the hash is of all outputs")
            continue
        into = outputs if op == Op.COPY_FROM_GPU else prologue if in_prologue else inputs
        data = value.astype(slot.numpy_dtype).tobytes()
        into.update(index.to_bytes(8, "little") + len(data).to_bytes(8, "little") + data)
    return inputs.digest(), outputs.digest()


def _claims(found: Any) -> dict[str, Any]:
    if not isinstance(found, Mapping) or not _has_labels(found):
        labels = sorted(map(str, found)) if isinstance(found, Mapping) else found
        raise _wrong("claims", f"those of {PROFILE}", labels)
    claims = {}
    for label, (name, kind, sizes) in CLAIMS.items():
        if label not in found:
            continue
        value: Any = found[label]
        is_of_kind = type(value) is kind  # a name of its own: mypy takes what follows for an object
        if not is_of_kind or (sizes and len(value) not in sizes) or (kind is int and value < 0):
            size = f" of {sizes[0]} to {sizes[-1]} bytes" if sizes else ""
            raise _wrong(f"claim {name}", f"{kind.__name__}{size}", value)
        claims[name] = value
    if claims["profile"] != PROFILE:
        raise _wrong("profile", PROFILE, claims["profile"])
    return claims


def _has_labels(found: Mapping[Any, Any]) -> bool:
    left_out = set(CLAIMS) - set(found)
    pairs = [pair for pair in OPTIONAL if left_out & set(pair)]
    return set(found) <= set(CLAIMS) and left_out == {label for pair in pairs for label in pair}


def _loads(data: bytes) -> Any:
    try:
        return cbor2.loads(data)
    except (cbor2.CBORDecodeError, RecursionError, ValueError, TypeError) as error:
        raise EnvelopeError(f"not CBOR ({error})", offset=0) from None


def _wrong(what: str, expected: str, found: object) -> EnvelopeError:
    text = repr(found)
    return EnvelopeError(what, offset=0, expected=expected, found=text if len(text) <= 60 else text[:57] + "...")


def may_keep_state(trace: Trace) -> bool:
    """Whether what a replay leaves may count in the next one, so that the last one's inputs do not say all.

    That is memory that the prologue fills and no replay does. Where jobs run in the prologue, constants are filled
    there, too; then only a trace that allows no retry has state (host_tools/passes/state.py).
    """
    columns = Columns(trace.actions)
    starts = np.flatnonzero(columns.is_op(Op.REPLAY_START))
    prologue = slice(0, int(starts[0]) if len(starts) else 0)
    fills = columns.is_op(Op.UPLOAD, Op.CLEAR)[prologue].any()
    prepares = columns.is_op(Op.JOB)[prologue].any()
    return bool(fills and (not prepares or trace.meta.get("retry_limit") == 0))
