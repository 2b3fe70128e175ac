# SPDX-License-Identifier: BSD-2-Clause
"""Keys, read from and written to PEM files.

Written are PKCS#8 private keys and SubjectPublicKeyInfo public keys. Read are also what other programs write:
OpenSSL's `EC PRIVATE KEY` (SEC 1) and the files of ssh-keygen. The file of a hybrid key has two keys, one of ES256
and one of ML-DSA-44, one after the other, so that `cat` makes one of two that are there.
"""

from __future__ import annotations

import base64
import re
import shlex

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, mldsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    load_pem_public_key,
    load_ssh_private_key,
    load_ssh_public_key,
)

from signing import curves
from signing.errors import KeyFileError, PassphraseError
from signing.keys import HybridPrivateKey, PrivateKey, PublicKey, hybrid, public_of

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
