# SPDX-License-Identifier: BSD-2-Clause
"""Keys, made, and read from and written to PEM files.

Written are PKCS#8 private keys and SubjectPublicKeyInfo public keys. Read are also what other programs write:
OpenSSL's `EC PRIVATE KEY` (SEC 1) and the files of ssh-keygen.
"""

from __future__ import annotations

import base64
import enum
import hashlib
import re
import shlex
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, utils
from cryptography.hazmat.primitives.hashes import SHA256
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
SIGNATURE_BYTES = 64  # of both algorithms: r || s (RFC 9053, 2.1), R || S (RFC 8032, 5.1.6)
_KINDS = "an ECDSA key on P-256 or an Ed25519 key"
# PEM labels of private keys that are read, and openssl's of a file's first part, which repeats the curve.
PKCS8, PKCS8_ENCRYPTED, SEC1, OPENSSH = (
    "PRIVATE KEY",
    "ENCRYPTED PRIVATE KEY",
    "EC PRIVATE KEY",
    "OPENSSH PRIVATE KEY",
)
_PARAMETERS = "EC PARAMETERS"
_OPENSSH_MAGIC = b"openssh-key-v1\0"  # OpenSSH PROTOCOL.key: then the cipher's name, after its length of 4 bytes
_OPENSSH_PUBLIC = (b"ssh-ed25519 ", b"ecdsa-sha2-nistp256 ")  # a line of a .pub file

PrivateKey = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


class Algorithm(enum.IntEnum):
    """COSE algorithm numbers (RFC 9053, tables 1 and 2)."""

    ES256 = -7
    EDDSA = -8  # with Ed25519 only

    @property
    def title(self) -> str:
        """Name as it is printed."""
        return {Algorithm.ES256: "ES256", Algorithm.EDDSA: "EdDSA"}[self]


@dataclass(frozen=True)
class PublicKey:
    """A public key that signatures are checked with."""

    key: ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey

    @property
    def algorithm(self) -> Algorithm:
        """The one algorithm that this key is used with."""
        return Algorithm.EDDSA if isinstance(self.key, ed25519.Ed25519PublicKey) else Algorithm.ES256

    @property
    def kid(self) -> bytes:
        """Key id: the first 16 bytes of the SHA-256 of the SubjectPublicKeyInfo (point not compressed)."""
        spki = self.key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return hashlib.sha256(spki).digest()[:KID_BYTES]

    @property
    def raw(self) -> bytes:
        """What a device needs. ES256: 65 bytes 04 || x || y (SEC 1, 2.3.3); EdDSA: 32 bytes (RFC 8032)."""
        if isinstance(self.key, ed25519.Ed25519PublicKey):
            return self.key.public_bytes_raw()
        return self.key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)

    def pem(self) -> bytes:
        """The key as a PEM file."""
        return self.key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

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
        """Whether `signature` (64 bytes) is this key's over `tbs`; one of ES256 with a high s is none."""
        if len(signature) != SIGNATURE_BYTES:
            return False
        try:
            if isinstance(self.key, ed25519.Ed25519PublicKey):
                self.key.verify(signature, tbs)
            else:
                r, s = curves.scalars(signature)
                if not curves.is_low(s):
                    return False
                self.key.verify(utils.encode_dss_signature(r, s), tbs, ec.ECDSA(SHA256()))
        except InvalidSignature:
            return False
        return True


def sign(key: PrivateKey, tbs: bytes) -> bytes:
    """Signature of 64 bytes; the same key and bytes always give the same one (RFC 6979 with a low s, RFC 8032)."""
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return key.sign(tbs)
    r, s = utils.decode_dss_signature(key.sign(tbs, ec.ECDSA(SHA256(), deterministic_signing=True)))
    return curves.lowered(b"".join(part.to_bytes(curves.SCALAR_BYTES, "big") for part in (r, s)))


def generate(algorithm: Algorithm) -> PrivateKey:
    """A new private key from the operating system's random numbers."""
    if algorithm == Algorithm.EDDSA:
        return ed25519.Ed25519PrivateKey.generate()
    return ec.generate_private_key(ec.SECP256R1())


def private_pem(key: PrivateKey, passphrase: bytes | None = None) -> bytes:
    """The key as a PKCS#8 PEM file, encrypted when there is a passphrase (not empty)."""
    how: KeySerializationEncryption = NoEncryption() if passphrase is None else BestAvailableEncryption(passphrase)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how)


def pem_label(pem: bytes, file: str = "") -> str:
    """What a PEM file says it holds, as in `PRIVATE KEY`; KeyFileError when it is not one PEM object.

    A line of OpenSSH's .pub file counts as `PUBLIC KEY`.
    """
    if pem.startswith(_OPENSSH_PUBLIC):
        return "PUBLIC KEY"
    labels = re.findall(rb"^-----BEGIN ([A-Z0-9 ]+)-----\s*$", pem, re.MULTILINE)
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
        KeyFileError: no such file, or a key of another kind than ECDSA on P-256 and Ed25519.
    """
    label = pem_label(pem, file)
    if label == "PUBLIC KEY":
        raise KeyFileError("this is a public key; a private one is needed", file=file)
    if label not in (PKCS8, PKCS8_ENCRYPTED, SEC1, OPENSSH):
        raise KeyFileError(
            "not a private key that is read",
            expected=f"'{PKCS8}' ('gramophone keygen' makes one), '{SEC1}' or '{OPENSSH}'",
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
    if isinstance(key, ed25519.Ed25519PrivateKey) or (
        isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP256R1)
    ):
        return key
    raise KeyFileError("not a key that traces are signed with", expected=_KINDS, found=_kind(key), file=file)


def load_public_key(pem: bytes, *, file: str = "") -> PublicKey:
    """Read a SubjectPublicKeyInfo PEM file, or the line of OpenSSH's .pub file.

    Raises:
        KeyFileError: it is not one of P-256 or Ed25519, or a point that anybody can sign for.
    """
    label = pem_label(pem, file)
    if label != "PUBLIC KEY":
        hint = " ('gramophone getpub' makes it)" if label.endswith("PRIVATE KEY") else ""
        raise KeyFileError("not a public key", expected=f"'PUBLIC KEY'{hint}", found=f"'{label}'", file=file)
    try:
        key = load_ssh_public_key(pem) if pem.startswith(_OPENSSH_PUBLIC) else load_pem_public_key(pem)
    except UnsupportedAlgorithm as error:
        raise KeyFileError("not a key of a supported kind", expected=_KINDS, found=error, file=file) from None
    except ValueError:
        raise KeyFileError("a damaged public key", file=file) from None
    if isinstance(key, ed25519.Ed25519PublicKey) and (reason := curves.refusal(key.public_bytes_raw())):
        raise KeyFileError(f"not a public key of Ed25519: {reason}", file=file)
    if isinstance(key, ed25519.Ed25519PublicKey) or (
        isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1)
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
