# SPDX-License-Identifier: BSD-2-Clause
"""Signed TAs: read as OP-TEE's core does; every change is noticed."""

from __future__ import annotations

import hashlib
import struct
import uuid
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from host_tools.flash import signed_ta
from host_tools.flash.errors import ImageError
from signing.errors import KeyFileError

UUID = uuid.UUID("905abb08-b3d9-44d5-beaf-defaa4f2fb9e")
KEY = rsa.generate_private_key(65537, 2048)


def signed(algorithm: int, elf: bytes = b"\x7fELF" + bytes(60)) -> bytes:
    """A TA, signed here by the description in OP-TEE's signed_hdr.h."""
    header = struct.pack("<IIIIHH", 0x4F545348, 1, len(elf), algorithm, 32, 256)
    rest = UUID.bytes + struct.pack("<I", 9) + elf
    digest = hashlib.sha256(header + rest).digest()
    how: padding.AsymmetricPadding = padding.PKCS1v15()
    if algorithm == signed_ta.PSS:
        how = padding.PSS(padding.MGF1(SHA256()), 32)
    return header + digest + KEY.sign(digest, how, utils.Prehashed(SHA256())) + rest


def is_good(data: bytes) -> bool:
    try:
        ta = signed_ta.parse(data)
    except ImageError:
        return False
    return ta.digest == ta.computed and ta.is_signed_by(KEY.public_key())


@pytest.mark.parametrize("algorithm", [signed_ta.PSS, signed_ta.PKCS1])
def test_it_is_read_and_verified(algorithm: int) -> None:
    ta = signed_ta.parse(signed(algorithm))
    assert (ta.uuid, ta.version, ta.algorithm) == (UUID, 9, algorithm)
    assert is_good(signed(algorithm))
    assert not ta.is_signed_by(rsa.generate_private_key(65537, 2048).public_key())


def test_every_changed_byte_is_noticed() -> None:
    data = signed(signed_ta.PSS)
    for at in range(len(data)):
        assert not is_good(data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]), hex(at)


def test_every_truncation_is_refused() -> None:
    data = signed(signed_ta.PSS)
    for size in range(len(data)):
        with pytest.raises(ImageError):
            signed_ta.parse(data[:size])


@pytest.mark.parametrize(
    ("at", "value", "reason"),
    [
        (0, 0x4F545349, "at offset 0x0: header of a signed TA, magic: expected 4853544f, found 4953544f"),
        (4, 2, "at offset 0x4: header of a signed TA, image_type: expected 01000000, found 02000000"),
        (8, 65, "at offset 0x8: size of a signed TA: expected 393, found 392"),
        (12, 0x70001234, "at offset 0xc: algorithm of the TA's signature: expected 0x70414930"),
    ],
)
def test_malformed(at: int, value: int, reason: str) -> None:
    data = bytearray(signed(signed_ta.PSS))
    struct.pack_into("<I", data, at, value)
    with pytest.raises(ImageError) as error:
        signed_ta.parse(bytes(data))
    assert str(error.value).startswith(reason)


def test_keys_of_another_kind() -> None:
    pems: dict[str, Any] = {
        "not a public key in PEM": b"hello",
        "found ECPublicKey": ec.generate_private_key(ec.SECP256R1()),
        "expected RSA of 2048 bits": rsa.generate_private_key(65537, 1024),
    }
    for reason, key in pems.items():
        pem = (
            key
            if isinstance(key, bytes)
            else key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        )
        with pytest.raises(KeyFileError, match=reason):
            signed_ta.load_key(pem, "key.pem")
