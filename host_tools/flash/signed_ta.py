# SPDX-License-Identifier: BSD-2-Clause
"""Trusted applications as OP-TEE signs them: header, hash, signature, UUID and version, ELF file.

Facts: OP-TEE 4.10, core/include/signed_hdr.h (structures), core/crypto/signed_hdr.c and
core/kernel/ree_fs_ta.c (what is checked), scripts/sign_encrypt.py (what is hashed: all but hash and signature).
"""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass

from construct import Bytes, Const, Int16ul, Int32ul, Struct
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import padding, rsa, utils
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from host_tools.flash.errors import ImageError, unpack
from signing.errors import KeyFileError

BOOTSTRAP_TA = 1  # SHDR_BOOTSTRAP_TA, what the development kit makes
HEADER = Struct(
    "magic" / Const(0x4F545348, Int32ul),
    "image_type" / Const(BOOTSTRAP_TA, Int32ul),
    "image_bytes" / Int32ul,
    "algorithm" / Int32ul,
    "hash_bytes" / Const(32, Int16ul),
    "signature_bytes" / Int16ul,
)
SUBHEADER = Struct("uuid" / Bytes(16), "version" / Int32ul)
# TEE_ALG_RSASSA_PKCS1_PSS_MGF1_SHA256 and TEE_ALG_RSASSA_PKCS1_V1_5_SHA256 of GlobalPlatform's Internal API.
PSS, PKCS1 = 0x70414930, 0x70004830
HASH_BYTES = 32
HASH_AT = HEADER.sizeof()
SIGNATURE_AT = HASH_AT + HASH_BYTES
# SHA-256 of the SubjectPublicKeyInfo of keys/default_ta.pem, whose private half is in OP-TEE's source.
PUBLISHED_KEY = "cac7bcfaf8674a57e5eaa8ef1a7c9b67af1fd5562a06440d88d5e3c632e88c48"


@dataclass(frozen=True)
class SignedTa:
    """A signed TA taken apart.

    Attributes:
        uuid: which TA.
        version: for OP-TEE's rollback protection.
        algorithm: PSS or PKCS1.
        digest: what is signed: SHA-256 of `hashed`.
        hashed: header, UUID, version and ELF file.
        signature: as stored.
    """

    uuid: uuid.UUID
    version: int
    algorithm: int
    digest: bytes
    hashed: bytes
    signature: bytes

    @property
    def computed(self) -> bytes:
        """The digest that the file should have."""
        return hashlib.sha256(self.hashed).digest()

    def is_signed_by(self, key: rsa.RSAPublicKey) -> bool:
        """Whether the signature over `digest` is this key's."""
        how: padding.AsymmetricPadding = padding.PKCS1v15()
        if self.algorithm == PSS:
            how = padding.PSS(padding.MGF1(SHA256()), HASH_BYTES)
        try:
            key.verify(self.signature, self.digest, how, utils.Prehashed(SHA256()))
        except InvalidSignature:
            return False
        return True


def parse(data: bytes) -> SignedTa:
    """Read a signed TA; nothing is verified. ImageError names the offset."""
    header = unpack(HEADER, data, 0, "header of a signed TA")
    if header.algorithm not in (PSS, PKCS1):
        raise ImageError(
            "algorithm of the TA's signature",
            offset=12,
            expected=f"{PSS:#x} (RSA PSS) or {PKCS1:#x} (RSA PKCS 1)",
            found=f"{header.algorithm:#x}",
        )
    signature_end = SIGNATURE_AT + header.signature_bytes
    sub = unpack(SUBHEADER, data, signature_end, "UUID and version of a signed TA")
    end = signature_end + SUBHEADER.sizeof() + header.image_bytes
    if end != len(data):
        raise ImageError("size of a signed TA", offset=8, expected=end, found=len(data))
    return SignedTa(
        uuid.UUID(bytes=sub.uuid),
        sub.version,
        header.algorithm,
        data[HASH_AT:SIGNATURE_AT],
        data[:HASH_AT] + data[signature_end:],
        data[SIGNATURE_AT:signature_end],
    )


def load_key(pem: bytes, file: str) -> rsa.RSAPublicKey:
    """The public key that TAs are signed with; KeyFileError when there is none."""
    try:
        key = load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm):
        raise KeyFileError("not a public key in PEM", file=file) from None
    if not isinstance(key, rsa.RSAPublicKey) or key.key_size < 2048:  # core/crypto/signed_hdr.c accepts no less
        raise KeyFileError(
            "not a signing key for TAs",
            expected="RSA of 2048 bits or more",
            found=type(key).__name__,
            file=file,
        )
    return key


def key_sha256(key: rsa.RSAPublicKey) -> str:
    """SHA-256 of the SubjectPublicKeyInfo, in hex."""
    return hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def modulus(key: rsa.RSAPublicKey) -> bytes:
    """The modulus as OP-TEE's core holds it, big-endian (scripts/pem_to_pub_c.py)."""
    return key.public_numbers().n.to_bytes(key.key_size // 8, "big")
