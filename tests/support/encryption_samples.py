# SPDX-License-Identifier: BSD-2-Clause
"""Encrypted traces, good and bad, and the keys that open them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric import ec

from signing import cose_encrypt, device_keys, encryption
from signing.cose_encrypt import Encryption
from signing.keys import PublicKey
from tests.support import replayer_samples as s
from trace_format import assembly, layout
from trace_format.schema import SectionType

SECRET = hashlib.sha256(b"a device's secret").digest()
DEVICE = device_keys.derive(SECRET).decryption
FLEET = ec.derive_private_key(int.from_bytes(hashlib.sha256(b"a fleet").digest()) >> 1, ec.SECP256R1())
OWNER = ec.derive_private_key(35, ec.SECP256R1())
STRANGER = ec.derive_private_key(36, ec.SECP256R1())
FLEET_BYTES = FLEET.private_numbers().private_value.to_bytes(32, "big")


def public(key: ec.EllipticCurvePrivateKey) -> PublicKey:
    """Its public key."""
    return PublicKey(key.public_key())


def plain() -> bytes:
    """A trace of a few pages, part of it packed."""
    return s.trace().build()


def encrypted(*keys: ec.EllipticCurvePrivateKey) -> bytes:
    """The same for whoever has one of these keys."""
    return encryption.encrypt(plain(), [public(key) for key in keys or (DEVICE,)])


def signed(trace: bytes) -> bytes:
    """Signed as it is, whatever it is."""
    return s.signed(trace)


@dataclass(frozen=True)
class Parts:
    """An encrypted trace taken apart, so that a part can be another."""

    trace: bytes

    @property
    def message_at(self) -> int:
        """Where the COSE_Encrypt message lies."""
        return layout.disassemble(self.trace)[1].one(SectionType.ENCRYPTION).offset

    @property
    def message(self) -> bytes:
        """Its bytes."""
        return bytes(layout.disassemble(self.trace)[1].one(SectionType.ENCRYPTION).stored)

    def with_bytes(self, at: int, data: bytes) -> bytes:
        """With other bytes somewhere in the message."""
        start = self.message_at + at
        return self.trace[:start] + data + self.trace[start + len(data) :]

    def flipped(self, at: int) -> bytes:
        """With a bit of the message flipped."""
        return self.with_bytes(at, bytes([self.message[at] ^ 1]))


ROW = cose_encrypt.size_of(1) - (
    cose_encrypt.size_of(2) - cose_encrypt.size_of(1)
)  # where the first recipient lies
X, Y, WRAPPED = ROW + 34, ROW + 69, ROW + 103


def rewritten(device: ec.EllipticCurvePrivateKey, change: Callable[[bytes], bytes]) -> bytes:
    """With a message of another size: the head is made anew around it."""
    trace = encrypted(device)
    header, parts = layout.disassemble(trace)
    head = [*parts[:3], layout.Part(SectionType.ENCRYPTION, change(bytes(parts[3].stored)))]
    return (
        assembly.head_of(head, parts[4:], header["chunk_bytes"], header["flags"]) + trace[header["head_bytes"] :]
    )


def transplanted(device: ec.EllipticCurvePrivateKey = DEVICE) -> bytes:
    """A body and its message under another head: another's name, the same chunks."""
    trace = bytearray(encrypted(device))
    at = layout.disassemble(bytes(trace))[1].one(SectionType.MANIFEST).offset
    trace[at : at + 5] = b"other"
    return bytes(trace)


def cases(device: ec.EllipticCurvePrivateKey = DEVICE) -> Iterator[tuple[str, bytes, str]]:
    """(name, trace, the status of the device with this key): all well signed, as their maker would."""
    good = Parts(encrypted(device))
    point = public(STRANGER).raw
    yield "for a stranger", encrypted(STRANGER), "ENCRYPTED"
    yield "for sixteen strangers", encrypted(*_keys(16)), "ENCRYPTED"
    yield "under another head", transplanted(device), "ENCRYPTED"
    yield "wrapped key, first bit", good.flipped(WRAPPED), "ENCRYPTED"
    yield "wrapped key, last bit", good.flipped(WRAPPED + 23), "ENCRYPTED"
    yield "another ephemeral key", good.with_bytes(X, point[1:33] + b"\x22\x58\x20" + point[33:]), "ENCRYPTED"
    yield "a point that is not on the curve", good.flipped(Y + 31), "ENCRYPTED"
    yield "x is not less than p", good.with_bytes(X, b"\xff" * 32), "ENCRYPTED"
    yield "the point (0, 0)", good.with_bytes(X, bytes(32) + b"\x22\x58\x20" + bytes(32)), "ENCRYPTED"
    yield "tag of another message", good.with_bytes(1, b"\x10"), "SECTIONS"
    yield "another algorithm of the body", good.with_bytes(8, b"\xfc"), "SECTIONS"
    yield "a counter that does not start at zero", good.with_bytes(26, b"\x01"), "SECTIONS"
    yield "a ciphertext in the message", good.with_bytes(27, b"\x40"), "SECTIONS"
    yield "no recipients", good.with_bytes(28, b"\x80"), "SECTIONS"
    yield "two recipients where there is one", good.with_bytes(28, b"\x82"), "SECTIONS"
    yield "another algorithm of the recipient", good.with_bytes(ROW + 5, b"\x1d"), "SECTIONS"
    yield "another curve", good.with_bytes(ROW + 30, b"\x02"), "SECTIONS"
    yield "y by its sign", good.with_bytes(ROW + 67, b"\xf5"), "SECTIONS"
    yield "a wrapped key of another size", good.with_bytes(WRAPPED - 1, b"\x28"), "SECTIONS"
    yield "a message cut short", rewritten(device, lambda message: message[:-8]), "SECTIONS"
    yield "bytes behind the message", rewritten(device, lambda message: message + bytes(8)), "SECTIONS"
    yield "an empty message", rewritten(device, lambda message: b""), "SECTIONS"
    yield "seventeen recipients", rewritten(device, _seventeen), "SECTIONS"
    yield "without the flag", _without_flag(device), "SECTIONS"
    yield "the flag without a message", _flag_alone(), "SECTIONS"


def _keys(count: int) -> list[ec.EllipticCurvePrivateKey]:
    return [ec.derive_private_key(1000 + number, ec.SECP256R1()) for number in range(count)]


def _seventeen(message: bytes) -> bytes:
    found = Encryption.decode(message)
    return Encryption(found.counter, found.recipients * 17).encode()


def _without_flag(device: ec.EllipticCurvePrivateKey) -> bytes:
    trace = bytearray(encrypted(device))
    trace[38] &= ~2
    return bytes(trace)


def _flag_alone() -> bytes:
    trace = bytearray(plain())
    trace[38] |= 2
    return bytes(trace)
