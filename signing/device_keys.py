# SPDX-License-Identifier: BSD-2-Clause
"""The keys of a device: all follow from the one secret that its board keeps.

HKDF-Expand of RFC 5869 with SHA-256, so on the device one HMAC for each. The private key of attestations is the
first candidate that is one (FIPS 186-5, A.2.2: testing candidates); the chance that the first is none is 2^-32.
That of encrypted traces is the first candidate; there is no second.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from signing.curves import P256_ORDER
from signing.errors import KeyFileError
from signing.keys import PublicKey
from signing.sign import FileSigner

LOG_KEY, PUBLIC = "log.key", "device.pub.pem"  # files of `gramophone enrol`, for those who verify
SECRET_BYTES = 32
LOG_KEY_BYTES = 32
CANDIDATES = 4  # that a device tries
HUK_BYTES = 16  # HW_UNIQUE_KEY_LENGTH of OP-TEE
_HUK_USAGE, _HUK_PURPOSE = 0x47524C47, b"gramophone device"  # gramophone_pta.h
_LOG = b"gramophone log"
_ATTESTATION = b"gramophone attestation"  # and the candidate's number, a byte
_ENCRYPTION = b"gramophone encryption"  # likewise


@dataclass(frozen=True)
class DeviceKeys:
    """Keys of one device.

    Attributes:
        log: 32 bytes, of the log's MACs. Whoever has it can write entries, too.
        attestation: signs attestations.
        decryption: reads encrypted traces.
    """

    log: bytes
    attestation: FileSigner
    decryption: ec.EllipticCurvePrivateKey

    @property
    def public(self) -> PublicKey:
        """By which attestations are verified."""
        return self.attestation.public


def derive(secret: bytes, *, file: str = "") -> DeviceKeys:
    """The keys of the device with this secret.

    Raises:
        KeyFileError: it is not 32 bytes, or all of them are the same, as in memory that nobody wrote.
    """
    if len(secret) != SECRET_BYTES:
        raise KeyFileError("a device's secret", expected=f"{SECRET_BYTES} bytes", found=len(secret), file=file)
    if len(set(secret)) == 1:
        raise KeyFileError(
            "a device's secret", expected="random bytes", found=f"{SECRET_BYTES} times {secret[0]:#04x}", file=file
        )
    attestation, decryption = _private(secret, _ATTESTATION, CANDIDATES), _private(secret, _ENCRYPTION, 1)
    if attestation is None:
        raise KeyFileError(f"a device's secret of which {CANDIDATES} candidates are no keys", file=file)
    if decryption is None:
        raise KeyFileError("cannot derive a decryption key from this device secret", file=file)
    return DeviceKeys(_expand(secret, _LOG), FileSigner(attestation), decryption)


def new_secret() -> bytes:
    """A new secret from the operating system's random numbers."""
    return secrets.token_bytes(SECRET_BYTES)


def secret_of_huk(huk: bytes, *, file: str = "") -> bytes:
    """The secret of a device with OP-TEE, by its hardware unique key.

    As `__huk_subkey_derive` of OP-TEE's core/kernel/huk_subkey.c. A platform may derive it in another way, in
    hardware, say; then this is not its secret.

    Raises:
        KeyFileError: it is not 16 bytes.
    """
    if len(huk) != HUK_BYTES:
        raise KeyFileError("a hardware unique key", expected=f"{HUK_BYTES} bytes", found=len(huk), file=file)
    return hmac.digest(huk, _HUK_USAGE.to_bytes(4, "little") + _HUK_PURPOSE, "sha256")


def read_log_key(data: bytes, *, file: str = "") -> bytes:
    """A log key as a file has it; KeyFileError when it is not 32 bytes."""
    if len(data) != LOG_KEY_BYTES:
        raise KeyFileError(
            "a log key ('gramophone enrol' writes it)",
            expected=f"{LOG_KEY_BYTES} bytes",
            found=len(data),
            file=file,
        )
    return data


def _private(secret: bytes, info: bytes, candidates: int) -> ec.EllipticCurvePrivateKey | None:
    for number in range(candidates):
        value = int.from_bytes(_expand(secret, info + bytes([number])), "big")
        if 0 < value < P256_ORDER:
            return ec.derive_private_key(value, ec.SECP256R1())
    return None


def _expand(secret: bytes, info: bytes) -> bytes:
    return HKDFExpand(SHA256(), 32, info).derive(secret)
