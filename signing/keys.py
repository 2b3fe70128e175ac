# SPDX-License-Identifier: BSD-2-Clause
"""Keys, made, and read from and written to PEM files.

Written are PKCS#8 private keys and SubjectPublicKeyInfo public keys. Read are also what other programs write:
OpenSSL's `EC PRIVATE KEY` (SEC 1) and the files of ssh-keygen. The file of a hybrid key has two keys, one of ES256
and one of ML-DSA-44, one after the other, so that `cat` makes one of two that are there.
"""

from __future__ import annotations

import base64
import enum
import hashlib
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, overload

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, mldsa, utils
from cryptography.hazmat.primitives.hashes import SHA256, SHA384
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
    load_ssh_private_key,
    load_ssh_public_key,
)

from signing import curves
from signing.errors import KeyFileError, PassphraseError

KID_BYTES = 16
SIGNATURE_BYTES = 64  # of ES256 and EdDSA: r || s (RFC 9053, 2.1), R || S (RFC 8032, 5.1.6)
_KINDS = "an ECDSA key on P-256 or P-384, an Ed25519 key, or one of ML-DSA-44"
# PEM labels of private keys that are read, and openssl's of a file's first part, which repeats the curve.
PKCS8, PKCS8_ENCRYPTED, SEC1, OPENSSH = (
    "PRIVATE KEY",
    "ENCRYPTED PRIVATE KEY",
    "EC PRIVATE KEY",
    "OPENSSH PRIVATE KEY",
)
_PARAMETERS = "EC PARAMETERS"
_OPENSSH_MAGIC = b"openssh-key-v1\0"  # OpenSSH PROTOCOL.key: then the cipher's name, after its length of 4 bytes
_OPENSSH_PUBLIC = (b"ssh-ed25519 ", b"ecdsa-sha2-nistp256 ", b"ecdsa-sha2-nistp384 ")  # a line of a .pub file


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


def private_pem(key: PrivateKey, passphrase: bytes | None = None) -> bytes:
    """The key as a PKCS#8 PEM file, encrypted when there is a passphrase (not empty)."""
    how: KeySerializationEncryption = NoEncryption() if passphrase is None else BestAvailableEncryption(passphrase)
    halves = key.halves if isinstance(key, HybridPrivateKey) else (key,)
    return b"".join(half.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how) for half in halves)


_OBJECT = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----[ \t]*\n?", re.DOTALL)


def _objects(pem: bytes) -> list[bytes]:
    """The two keys of a hybrid key's file; else the file."""
    found = [part[0] for part in _OBJECT.finditer(pem)]
    labels = [part[1] for part in _OBJECT.finditer(pem)]
    is_pair = len(found) == 2 and _PARAMETERS.encode() not in labels
    return found if is_pair else [pem]


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


def pem_label(pem: bytes, file: str = "") -> str:
    """What a PEM file says it holds, as in `PRIVATE KEY`; KeyFileError when it is not one PEM object.

    A line of OpenSSH's .pub file counts as `PUBLIC KEY`.
    """
    if pem.startswith(_OPENSSH_PUBLIC):
        return "PUBLIC KEY"
    labels = re.findall(rb"^-----BEGIN ([A-Z0-9 ]+)-----\s*$", pem, re.MULTILINE)
    if len(set(labels)) == 1 and len(labels) == len(_objects(pem)):  # a hybrid key
        del labels[1:]
    if len(labels) == 2 and labels[0] == _PARAMETERS.encode():
        del labels[0]
    if len(labels) != 1:
        command = f"openssl pkey -inform DER -in {_shell(file)} -out KEY.pem"
        hint = f" ({command} converts DER)" if pem[:1] == b"\x30" else ""
        raise KeyFileError(f"not a PEM key file{hint}", expected="one PEM object", found=len(labels), file=file)
    return str(labels[0], "ascii")


def is_encrypted(pem: bytes, file: str = "") -> bool:
    """Whether a passphrase is needed; KeyFileError as `pem_label`."""
    label = pem_label(pem, file)
    if label == SEC1:
        return b"\nProc-Type: 4,ENCRYPTED" in pem  # RFC 1421, 4.6.1.1
    if label == OPENSSH:
        content = _openssh(pem)
        return content.startswith(_OPENSSH_MAGIC) and not content.startswith(_OPENSSH_MAGIC + b"\0\0\0\4none")
    return label == PKCS8_ENCRYPTED


def load_private_key(pem: bytes, passphrase: bytes | None = None, *, file: str = "") -> PrivateKey:
    """Read a PEM file: PKCS#8, SEC 1, or OpenSSH's own if it is not encrypted.

    Raises:
        PassphraseError: the passphrase is missing, wrong, or given for a key that is not encrypted.
        KeyFileError: no such file, or a key of another kind, or two that are no hybrid key.
    """
    label = pem_label(pem, file)
    if len(halves := _objects(pem)) == 2:
        found = [load_private_key(half, passphrase, file=file) for half in halves]
        hybrid([public_of(half) for half in found], file)
        es256, ml_dsa = sorted(found, key=lambda half: isinstance(half, mldsa.MLDSA44PrivateKey))
        assert isinstance(es256, ec.EllipticCurvePrivateKey)
        assert isinstance(ml_dsa, mldsa.MLDSA44PrivateKey)
        return HybridPrivateKey(es256, ml_dsa)
    if label == "PUBLIC KEY":
        raise KeyFileError("expected a private key, found a public key", file=file)
    if label not in (PKCS8, PKCS8_ENCRYPTED, SEC1, OPENSSH):
        raise KeyFileError(
            "not a private key that is read",
            expected=f"'{PKCS8}' ('gramophone key new' makes one), '{SEC1}' or '{OPENSSH}'",
            found=f"'{label}'",
            file=file,
        )
    encrypted = is_encrypted(pem, file)
    if encrypted and label == OPENSSH:  # to decrypt it takes bcrypt, which no other part of this project needs
        raise KeyFileError(f"an OpenSSH key that is encrypted: {_conversion(pem, file)}", file=file)
    if encrypted and not passphrase:
        raise PassphraseError("the key is encrypted and no passphrase was given", file=file)
    if passphrase is not None and not encrypted:
        raise PassphraseError("a passphrase was given, but the key is not encrypted", file=file)
    try:
        key = load_ssh_private_key(pem, None) if label == OPENSSH else load_pem_private_key(pem, passphrase)
    except (UnsupportedAlgorithm, NotImplementedError) as error:  # a compressed point
        raise KeyFileError("not a key of a supported kind", expected=_KINDS, found=error, file=file) from None
    except (ValueError, TypeError):
        if encrypted:
            # with the padding of a block cipher the two cannot be distinguished
            raise PassphraseError("wrong passphrase, or a damaged key", file=file) from None
        raise KeyFileError("a damaged private key", file=file) from None
    if isinstance(key, ed25519.Ed25519PrivateKey | mldsa.MLDSA44PrivateKey) or (
        isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP256R1 | ec.SECP384R1)
    ):
        return key
    raise KeyFileError("not a key that traces are signed with", expected=_KINDS, found=_kind(key), file=file)


def load_public_key(pem: bytes, *, file: str = "") -> PublicKey:
    """Read a SubjectPublicKeyInfo PEM file, or the line of OpenSSH's .pub file.

    Raises:
        KeyFileError: it is of another kind, a point that anybody can sign for, or two that are no hybrid key.
    """
    label = pem_label(pem, file)
    if label == "PUBLIC KEY" and len(halves := _objects(pem)) == 2:
        return hybrid([load_public_key(half, file=file) for half in halves], file)
    if label != "PUBLIC KEY":
        hint = " ('gramophone key public' makes it)" if label.endswith("PRIVATE KEY") else ""
        raise KeyFileError("not a public key", expected=f"'PUBLIC KEY'{hint}", found=f"'{label}'", file=file)
    try:
        key = load_ssh_public_key(pem) if pem.startswith(_OPENSSH_PUBLIC) else load_pem_public_key(pem)
    except UnsupportedAlgorithm as error:
        raise KeyFileError("not a key of a supported kind", expected=_KINDS, found=error, file=file) from None
    except ValueError:
        raise KeyFileError("a damaged public key", file=file) from None
    if isinstance(key, ed25519.Ed25519PublicKey) and (reason := curves.refusal(key.public_bytes_raw())):
        raise KeyFileError(f"not a public key of Ed25519: {reason}", file=file)
    if isinstance(key, ed25519.Ed25519PublicKey | mldsa.MLDSA44PublicKey) or (
        isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1 | ec.SECP384R1)
    ):
        return PublicKey(key)
    raise KeyFileError("not a key that traces are signed with", expected=_KINDS, found=_kind(key), file=file)


def _openssh(pem: bytes) -> bytes:
    """The contents of an OpenSSH private key file; empty when they are not base64."""
    body = re.sub(rb"-----[A-Z ]+-----|\s", b"", pem)
    try:
        return base64.b64decode(body, validate=True)
    except ValueError:
        return b""


def _conversion(pem: bytes, file: str) -> str:
    """How an encrypted OpenSSH key becomes one that is read: ssh-keygen writes Ed25519 in its own form only."""
    how = '-N "" takes the passphrase away' if b"ssh-ed25519" in _openssh(pem) else "-m PKCS8 changes the form"
    return f"on a copy of it, ssh-keygen -p -f {_shell(file)} {how}"


def _shell(file: str) -> str:
    """A file's name in a command that an error shows."""
    return shlex.quote(file) if file else "FILE"


def _kind(key: object) -> str:
    curve = getattr(key, "curve", None)
    if curve is not None:
        return f"an elliptic curve key on {curve.name}"
    return f"an {type(key).__name__}"


def _c_array(name: str, data: bytes) -> str:
    lines = [f"const uint8_t {name}[{len(data)}] = {{"]
    for at in range(0, len(data), 12):
        lines.append("    " + " ".join(f"0x{byte:02x}," for byte in data[at : at + 12]))
    return "\n".join([*lines, "};", ""])
