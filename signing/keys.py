# SPDX-License-Identifier: BSD-2-Clause
"""Keys: made, and what they sign and verify with. Their files are read in key_files.py."""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, overload

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, mldsa, utils
from cryptography.hazmat.primitives.hashes import SHA256, SHA384
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from signing import curves
from signing.errors import KeyFileError

KID_BYTES = 16
SIGNATURE_BYTES = 64  # of ES256 and EdDSA: r || s (RFC 9053, 2.1), R || S (RFC 8032, 5.1.6)


class Algorithm(enum.IntEnum):
    """COSE algorithm numbers (RFC 9053, tables 1 and 2; RFC 9964, table 2; private use)."""

    ES256 = -7
    EDDSA = -8  # with Ed25519 only
    ES384 = -35  # under a trust policy
    ML_DSA_44 = -48  # of a half of a hybrid key
    HYBRID = -65537  # ES256 and ML-DSA-44, both of which must sign; in no message, which has an entry of each

    @property
    def title(self) -> str:
        """Name as it is printed."""
        return _TITLES[self]


_TITLES = {
    Algorithm.ES256: "ES256",
    Algorithm.EDDSA: "EdDSA",
    Algorithm.ES384: "ES384",
    Algorithm.ML_DSA_44: "ML-DSA-44",
    Algorithm.HYBRID: "ES256+ML-DSA-44",
}


@dataclass(frozen=True)
class Ecdsa:
    """What an algorithm of ECDSA is made of.

    Attributes:
        hash: of the message.
        scalar_bytes: of r, and of s.
        order: of the curve's points; r and s are below it.
    """

    hash: type[SHA256 | SHA384]
    scalar_bytes: int
    order: int


_ECDSA = {
    Algorithm.ES256: Ecdsa(SHA256, curves.SCALAR_BYTES, curves.P256_ORDER),
    Algorithm.ES384: Ecdsa(SHA384, curves.P384_SCALAR_BYTES, curves.P384_ORDER),
}


def ecdsa(algorithm: Algorithm) -> Ecdsa:
    """What ES256 or ES384 is made of; KeyError of others."""
    return _ECDSA[algorithm]


# Private keys with one algorithm.
Single = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | mldsa.MLDSA44PrivateKey
_Public = ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey | mldsa.MLDSA44PublicKey


@dataclass(frozen=True)
class HybridPrivateKey:
    """The two halves of a hybrid key."""

    es256: ec.EllipticCurvePrivateKey
    ml_dsa: mldsa.MLDSA44PrivateKey

    @property
    def halves(self) -> tuple[Single, Single]:
        """Both, ES256 first."""
        return self.es256, self.ml_dsa


PrivateKey = Single | HybridPrivateKey


@dataclass(frozen=True)
class PublicKey:
    """A public key that signatures are checked with.

    Attributes:
        key: the key; of a hybrid key the ES256 half.
        ml_dsa: of a hybrid key the other half.
    """

    key: _Public
    ml_dsa: mldsa.MLDSA44PublicKey | None = None

    @property
    def algorithm(self) -> Algorithm:
        """The one algorithm that this key is used with."""
        if self.ml_dsa is not None:
            return Algorithm.HYBRID
        if isinstance(self.key, ec.EllipticCurvePublicKey):
            return Algorithm.ES384 if isinstance(self.key.curve, ec.SECP384R1) else Algorithm.ES256
        return Algorithm.EDDSA if isinstance(self.key, ed25519.Ed25519PublicKey) else Algorithm.ML_DSA_44

    @property
    def halves(self) -> tuple[PublicKey, ...]:
        """The keys that sign: of a hybrid key two, otherwise this one."""
        return (self,) if self.ml_dsa is None else (PublicKey(self.key), PublicKey(self.ml_dsa))

    @property
    def kid(self) -> bytes:
        """Key id: the first 16 bytes of the SHA-256 of the SubjectPublicKeyInfo (point not compressed).

        Of a hybrid key, of that of its ES256 half and the SHA-256 of the ML-DSA key, so that it is of both.
        """
        return self.kid_with(self._ml_dsa_hash)

    def kid_with(self, ml_dsa_hash: bytes) -> bytes:
        """Key id of the hybrid key whose ES256 half this is; with no bytes, of this key alone.

        Args:
            ml_dsa_hash: SHA-256 of the other half.
        """
        spki = self.key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return hashlib.sha256(spki + ml_dsa_hash).digest()[:KID_BYTES]

    @property
    def raw(self) -> bytes:
        """What a device needs.

        ES256: 65 bytes, ES384: 97, 04 || x || y (SEC 1, 2.3.3); EdDSA: 32 bytes (RFC 8032); ML-DSA-44: 1312
        bytes (FIPS 204); a hybrid key: 97 bytes, the ES256 half's and the SHA-256 of the other.
        """
        if isinstance(self.key, ec.EllipticCurvePublicKey):
            return self.key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint) + self._ml_dsa_hash
        return self.key.public_bytes_raw()

    @property
    def _ml_dsa_hash(self) -> bytes:
        return b"" if self.ml_dsa is None else hashlib.sha256(self.ml_dsa.public_bytes_raw()).digest()

    def pem(self) -> bytes:
        """The key as a PEM file."""
        keys = [half.key for half in self.halves]
        return b"".join(key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo) for key in keys)

    def c_source(self, name: str = "gramophone_key") -> str:
        """Key id and key as C arrays called `NAME_kid` and `NAME`."""
        return "\n".join(
            [
                f"/* {self.algorithm.title} public key {self.kid.hex()} */",
                "#include <stdint.h>",
                "",
                _c_array(f"{name}_kid", self.kid),
                _c_array(name, self.raw),
            ]
        )

    def verify(self, signature: bytes, tbs: bytes) -> bool:
        """Whether `signature` is this key's over `tbs`; one of ECDSA with a high s is none.

        Raises:
            ValueError: it is a hybrid key, whose halves sign other bytes each.
        """
        if self.ml_dsa is not None:
            raise ValueError("a hybrid key has no signature of its own: its halves have")
        try:
            if isinstance(self.key, ec.EllipticCurvePublicKey):
                curve = ecdsa(self.algorithm)
                r, s = curves.scalars(signature)
                if len(signature) != 2 * curve.scalar_bytes or not curves.is_low(s, curve.order):
                    return False
                self.key.verify(utils.encode_dss_signature(r, s), tbs, ec.ECDSA(curve.hash()))
            else:
                self.key.verify(signature, tbs)
        except (InvalidSignature, ValueError):
            return False
        return True


def public_of(key: PrivateKey) -> PublicKey:
    """The public half of a private key."""
    if isinstance(key, HybridPrivateKey):
        return PublicKey(key.es256.public_key(), key.ml_dsa.public_key())
    return PublicKey(key.public_key())


def sign(key: PrivateKey, tbs: bytes) -> bytes:
    """Signature: of ECDSA r || s with the low s, else as RFC 8032 and FIPS 204 have it.

    The same key and bytes always give the same one (RFC 6979, RFC 8032), but for ML-DSA, which is randomised.

    Raises:
        ValueError: it is a hybrid key, whose halves sign other bytes each.
    """
    if isinstance(key, HybridPrivateKey):
        raise ValueError("a hybrid key has no signature of its own: its halves have")
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        return key.sign(tbs)
    curve = ecdsa(public_of(key).algorithm)
    r, s = utils.decode_dss_signature(key.sign(tbs, ec.ECDSA(curve.hash(), deterministic_signing=True)))
    return curves.lowered(b"".join(part.to_bytes(curve.scalar_bytes, "big") for part in (r, s)), curve.order)


@overload
def generate(
    algorithm: Literal[Algorithm.ES256, Algorithm.EDDSA, Algorithm.ES384, Algorithm.ML_DSA_44],
) -> Single: ...
@overload
def generate(algorithm: Literal[Algorithm.HYBRID]) -> HybridPrivateKey: ...
@overload
def generate(algorithm: Algorithm) -> PrivateKey: ...
def generate(algorithm: Algorithm) -> PrivateKey:
    """A new private key from the operating system's random numbers.

    Raises:
        KeyFileError: the `cryptography` that is installed has no ML-DSA.
    """
    if algorithm is Algorithm.EDDSA:
        return ed25519.Ed25519PrivateKey.generate()
    if algorithm is Algorithm.ES384:
        return ec.generate_private_key(ec.SECP384R1())
    if algorithm in (Algorithm.ML_DSA_44, Algorithm.HYBRID):
        try:
            half = mldsa.MLDSA44PrivateKey.generate()
        except UnsupportedAlgorithm as error:
            raise KeyFileError(f"no ML-DSA in this installation of cryptography: {error}") from None
        return half if algorithm is Algorithm.ML_DSA_44 else HybridPrivateKey(_p256(), half)
    return _p256()


def _p256() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def hybrid(halves: Sequence[PublicKey], file: str = "") -> PublicKey:
    """The hybrid key of two halves; KeyFileError where they are others than one of ES256 and one of ML-DSA-44."""
    es256, ml_dsa = sorted(halves, key=lambda half: half.algorithm is not Algorithm.ES256)
    if es256.algorithm is not Algorithm.ES256 or not isinstance(ml_dsa.key, mldsa.MLDSA44PublicKey):
        raise KeyFileError(
            "two keys that are no hybrid key",
            expected="one of ES256 and one of ML-DSA-44",
            found=" and ".join(half.algorithm.title for half in halves),
            file=file,
        )
    return PublicKey(es256.key, ml_dsa.key)


def _c_array(name: str, data: bytes) -> str:
    lines = [f"const uint8_t {name}[{len(data)}] = {{"]
    for at in range(0, len(data), 12):
        lines.append("    " + " ".join(f"0x{byte:02x}," for byte in data[at : at + 12]))
    return "\n".join([*lines, "};", ""])
