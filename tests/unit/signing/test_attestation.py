# SPDX-License-Identifier: BSD-2-Clause
"""Attestations on the host: one encoding, two independent COSE libraries, and what is refused."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from typing import Any

import cbor2
import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cwt import COSE, COSEKey
from pycose.keys import EC2Key
from pycose.messages import Sign1Message

from signing import curves, device_keys
from signing.attestation import (
    CLAIMS,
    OPTIONAL,
    PROFILE,
    AttestationError,
    Expected,
    check_attestation,
    payload_of,
    read_attestation,
    tensor_hashes,
)
from signing.errors import EnvelopeError
from tests.support import replayer_samples as s
from tests.support.attestation_samples import INPUTS, NONCE, OUTPUTS, POLICY, attest, claims_of
from tests.support.log_samples import FIRMWARE, KEYS, TRACES, sample
from trace_format.actions import Op, action
from trace_format.schema import DType, SlotKind
from trace_format.schema.report import Status
from trace_format.slots import Slot

DEVICE = sample()
CLAIMED = claims_of(DEVICE, TRACES[0])
MESSAGE = attest(CLAIMED)
WANTED = Expected(NONCE, FIRMWARE, POLICY, TRACES[:1], INPUTS, OUTPUTS)
OTHER = device_keys.derive(hashlib.sha256(b"another device").digest())


def faults(message: bytes, expected: Expected = WANTED, keys: device_keys.DeviceKeys = KEYS) -> list[str]:
    return [name for name, _ in check_attestation(read_attestation(message), keys.public, expected)]


@pytest.mark.parametrize("nonce", [bytes(8), bytes(23), bytes(24), NONCE, bytes(64)])
@pytest.mark.parametrize("hashes", [True, False])
@pytest.mark.parametrize("trust", [{}, {"trust_policy": FIRMWARE, "trust_version": 70000}])
def test_what_was_attested_is_read(nonce: bytes, hashes: bool, trust: dict[str, Any]) -> None:
    left_out: dict[str, Any] = {} if hashes else {"inputs": None, "outputs": None}
    claims = claims_of(DEVICE, TRACES[0], nonce, **left_out, **trust)
    found = read_attestation(attest(claims))
    assert found.claims == claims
    assert found.kid == KEYS.public.kid
    assert (found.tail.entries, found.tail.hash) == (DEVICE.tail.entries, DEVICE.tail.hash)
    assert list(check_attestation(found, KEYS.public, Expected(nonce))) == []


def test_all_that_is_expected() -> None:
    assert faults(MESSAGE) == []
    assert faults(MESSAGE, Expected(NONCE)) == []


REFUSED: dict[str, tuple[bytes, Expected, list[str]]] = {
    "another nonce": (MESSAGE, dataclasses.replace(WANTED, nonce=bytes(32)), ["other-nonce"]),
    "a shorter nonce": (MESSAGE, dataclasses.replace(WANTED, nonce=NONCE[:8]), ["other-nonce"]),
    "another firmware": (MESSAGE, dataclasses.replace(WANTED, firmware=POLICY), ["other-firmware"]),
    "another policy": (MESSAGE, dataclasses.replace(WANTED, policy=FIRMWARE), ["other-policy"]),
    "another trace": (MESSAGE, dataclasses.replace(WANTED, traces=TRACES[1:]), ["other-trace"]),
    "no trace": (MESSAGE, dataclasses.replace(WANTED, traces=()), ["other-trace"]),
    "other inputs": (MESSAGE, dataclasses.replace(WANTED, inputs=OUTPUTS), ["other-inputs"]),
    "other outputs": (MESSAGE, dataclasses.replace(WANTED, outputs=INPUTS), ["other-outputs"]),
    "hashes that are not attested": (
        attest(claims_of(DEVICE, TRACES[0], inputs=None, outputs=None)),
        WANTED,
        ["other-inputs", "other-outputs"],
    ),
    "a replay that failed": (
        attest({**CLAIMED, "status": int(Status.FAULT)}),
        WANTED,
        ["no-replay"],
    ),
    "no replay": (attest({**CLAIMED, "trace": bytes(32)}), WANTED, ["no-replay"]),
    "the id of another device": (attest({**CLAIMED, "ueid": b"\1" + bytes(16)}), WANTED, ["other-device"]),
    "another device": (attest(CLAIMED, OTHER), WANTED, ["other-device"]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_another_is_refused(name: str) -> None:
    message, expected, found = REFUSED[name]
    assert faults(message, expected) == found


def test_claims_that_were_exchanged() -> None:
    """Each claim, with the signature of the others."""
    signature = read_attestation(MESSAGE).signature
    for name, value in CLAIMED.items():
        if name in ("profile", "inputs", "outputs"):
            continue
        changed = value + 1 if isinstance(value, int) else bytes([value[0] ^ 1]) + value[1:]
        protected, unprotected, _, _ = cbor2.loads(MESSAGE).value
        message = [protected, dict(unprotected), payload_of({**CLAIMED, name: changed}), signature]
        assert faults(cbor2.dumps(cbor2.CBORTag(18, message), canonical=True)) == ["bad-signature"], name


def test_every_flipped_bit_is_refused() -> None:
    for bit in range(8 * len(MESSAGE)):
        damaged = bytearray(MESSAGE)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            found = faults(bytes(damaged))
        except EnvelopeError:
            continue
        assert found in (["bad-signature"], ["other-device"]), bit


def test_every_truncation_is_refused() -> None:
    for size in range(len(MESSAGE)):
        with pytest.raises(EnvelopeError):
            read_attestation(MESSAGE[:size])
    with pytest.raises(EnvelopeError):
        read_attestation(MESSAGE + b"\0")


def rewritten(change: Callable[[dict[int, Any]], object]) -> bytes:
    """A message with other claims, in whatever encoding; its signature is nobody's."""
    message = cbor2.loads(MESSAGE)
    protected, unprotected, payload, signature = message.value
    claims = dict(cbor2.loads(payload))
    change(claims)
    return cbor2.dumps(cbor2.CBORTag(18, [protected, dict(unprotected), cbor2.dumps(claims), signature]))


MALFORMED = {
    "empty": b"",
    "text": b"hello",
    "a number": cbor2.dumps(7),
    "another tag": cbor2.dumps(cbor2.CBORTag(17, [b"", {}, b"", b""])),
    "three parts": cbor2.dumps(cbor2.CBORTag(18, [b"", {}, b""])),
    "detached": cbor2.dumps(cbor2.CBORTag(18, [b"", {}, None, bytes(64)])),
    "no claims": cbor2.dumps(cbor2.CBORTag(18, [cbor2.loads(MESSAGE).value[0], {}, cbor2.dumps(5), bytes(64)])),
    "a claim less": rewritten(lambda claims: claims.pop(267)),
    "a claim more": rewritten(lambda claims: claims.update({1: 1})),
    "one hash only": rewritten(lambda claims: claims.pop(OPTIONAL[0][0])),
    "a trust policy without a version": rewritten(lambda claims: claims.update({-70010: bytes(32)})),
    "another profile": rewritten(lambda claims: claims.update({265: PROFILE + "0"})),
    "a short nonce": rewritten(lambda claims: claims.update({10: bytes(7)})),
    "a long nonce": rewritten(lambda claims: claims.update({10: bytes(65)})),
    "a number for a hash": rewritten(lambda claims: claims.update({-70000: 5})),
    "a negative number": rewritten(lambda claims: claims.update({267: -1})),
    "true for a number": rewritten(lambda claims: claims.update({267: True})),
    "claims in another order": rewritten(lambda claims: claims.update({10: claims.pop(10)})),
    "an unprotected header": cbor2.dumps(
        cbor2.CBORTag(18, [cbor2.loads(MESSAGE).value[0], {5: 1}, *cbor2.loads(MESSAGE).value[2:]])
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_no_attestation(name: str) -> None:
    with pytest.raises(EnvelopeError) as caught:
        read_attestation(MALFORMED[name], file="a.cbor")
    assert str(caught.value).startswith("a.cbor at offset 0x0")


def test_the_signature_with_the_higher_s_is_another() -> None:
    report = read_attestation(MESSAGE)
    r, low = curves.scalars(report.signature)
    high = r.to_bytes(32, "big") + (curves.P256_ORDER - low).to_bytes(32, "big")
    assert faults(MESSAGE.replace(report.signature, high)) == ["bad-signature"]


def coordinates() -> tuple[bytes, bytes]:
    key = KEYS.public.key
    assert isinstance(key, ec.EllipticCurvePublicKey)
    numbers = key.public_numbers()
    return numbers.x.to_bytes(32, "big"), numbers.y.to_bytes(32, "big")


def test_pycose_verifies_it() -> None:
    message = Sign1Message.decode(MESSAGE)
    x, y = coordinates()
    message.key = EC2Key(crv="P_256", x=x, y=y)
    assert message.verify_signature()
    assert message.payload is not None
    assert cbor2.loads(message.payload)[10] == NONCE
    message.payload = message.payload.replace(NONCE, bytes(32))
    assert not message.verify_signature()


def test_cwt_verifies_it() -> None:
    key = COSEKey.from_pem(KEYS.public.pem().decode(), kid=KEYS.public.kid)
    claims = cbor2.loads(COSE.new().decode(MESSAGE, key))
    assert set(claims) == set(CLAIMS) - set(OPTIONAL[1])
    with pytest.raises(Exception, match="verify"):
        COSE.new().decode(
            attest(CLAIMED, OTHER), COSEKey.from_pem(KEYS.public.pem().decode(), kid=OTHER.public.kid)
        )


def record(index: int, value: np.ndarray[Any, Any]) -> bytes:
    return index.to_bytes(8, "little") + value.nbytes.to_bytes(8, "little") + value.tobytes()


def test_hashes_of_tensors() -> None:
    value = np.arange(6, dtype="<f4").reshape(2, 3)
    parameter = Slot("w", SlotKind.PARAMETER, DType.FLOAT32, (2, 3), (64, 4), s.slots()[0].address)
    trace = s.trace(
        action(Op.COPY_TO_GPU, slot=2),
        action(Op.REPLAY_START),
        action(Op.COPY_TO_GPU, slot=0),
        action(Op.COPY_FROM_GPU, slot=1),
        slots=[*s.slots(), parameter],
    )

    def sha256(data: bytes) -> bytes:
        return hashlib.sha256(data).digest()

    outputs = sha256(record(1, value + 1))
    given = {"in": value, "out": value + 1}
    assert tensor_hashes(trace, given) == (sha256(sha256(b"") + record(0, value)), outputs)
    given["w"] = value + 2
    assert tensor_hashes(trace, given) == (sha256(sha256(record(2, value + 2)) + record(0, value)), outputs)
    assert tensor_hashes(trace, {"out": value + 1}) == (sha256(sha256(b"")), outputs)
    with pytest.raises(AttestationError, match="no value for the output out"):
        tensor_hashes(trace, {"in": value})


def test_another_trust_policy() -> None:
    """A device with one key claims none."""
    expected = dataclasses.replace(WANTED, trust_policy=FIRMWARE)
    assert faults(MESSAGE, expected) == ["other-trust-policy"]
    right = attest(claims_of(DEVICE, TRACES[0], trust_policy=FIRMWARE, trust_version=3))
    assert faults(right, expected) == []
    wrong = attest(claims_of(DEVICE, TRACES[0], trust_policy=POLICY, trust_version=3))
    assert faults(wrong, expected) == ["other-trust-policy"]
