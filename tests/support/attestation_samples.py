# SPDX-License-Identifier: BSD-2-Clause
"""A device in Python that attests what it replayed."""

from __future__ import annotations

import hashlib
from typing import Any

from signing import attestation, curves
from signing.device_keys import DeviceKeys
from tests.support.log_samples import FIRMWARE, KEYS, LoggingDevice
from trace_format.schema.report import Status

NONCE = bytes(range(32))
POLICY = hashlib.sha256(b"a policy").digest()
INPUTS, OUTPUTS = (hashlib.sha256(text).digest() for text in (b"inputs", b"outputs"))


def claims_of(device: LoggingDevice, subject: bytes, nonce: bytes = NONCE, **changes: Any) -> dict[str, Any]:
    """What a device claims after a replay of the trace with this head."""
    values = {
        "nonce": nonce,
        "ueid": attestation.UEID_RANDOM + device.keys.public.kid,
        "profile": attestation.PROFILE,
        "boots": device.boots,
        "firmware": FIRMWARE,
        "policy": POLICY,
        "trace_id": subject[:16],
        "trace": subject,
        "security_version": 3,
        "status": int(Status.OK),
        "entries": device.tail.entries,
        "log": device.tail.hash,
        "inputs": INPUTS,
        "outputs": OUTPUTS,
        **changes,
    }
    return {name: value for name, value in values.items() if value is not None}


def attest(claims: dict[str, Any], keys: DeviceKeys = KEYS) -> bytes:
    """An attestation of these claims."""
    kid = keys.public.kid
    signature = keys.attestation.sign(attestation.to_be_signed(kid, attestation.payload_of(claims)))
    return attestation.encode(kid, claims, curves.lowered(signature))
