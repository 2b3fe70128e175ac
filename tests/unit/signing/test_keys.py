# SPDX-License-Identifier: BSD-2-Clause
"""Keys: published vectors, PEM files good and bad, key id and C source."""

from __future__ import annotations

import base64
import hashlib
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, ed25519, rsa, x25519
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from ecdsa import VerifyingKey
from hypothesis import example, given, settings
from hypothesis import strategies as st

from signing import key_files, keys
from signing.curves import P256_ORDER, scalars
from signing.errors import KeyFileError, PassphraseError
from signing.sign import FileSigner
from tests.support.signing_samples import ED25519_SEED, EDDSA, ES256, SIGNERS

# RFC 6979, A.2.5: P-256, SHA-256, message "sample". Its s is the higher one.
RFC6979_R = 0xEFD48B2AACB6A8FD1140DD9CD45E81D69D2C877B56AAF991C34D0EA84EAF3716
RFC6979_S = 0xF7CB1C942D657C41D436C7A1B6E29F65F3E900DBB9AFF4064DC4AB2F843ACDA8
RFC8032_EMPTY = (  # RFC 8032, 7.1 test 1: empty message
    "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555"
    "fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
)


def test_es256_gives_the_signature_of_rfc_6979() -> None:
    assert scalars(ES256.sign(b"sample")) == (RFC6979_R, P256_ORDER - RFC6979_S)


def test_eddsa_gives_the_signature_of_rfc_8032() -> None:
    assert EDDSA.sign(b"").hex() == RFC8032_EMPTY


@pytest.mark.parametrize("name", SIGNERS)
@given(message=st.binary(max_size=200))
@settings(deadline=None, max_examples=20)
def test_signature_is_verified_by_an_independent_library(name: str, message: bytes) -> None:
    public = SIGNERS[name].public
    theirs = VerifyingKey.from_pem(public.pem().decode())
    ours = SIGNERS[name].sign(message)
    assert public.verify(ours, message)
    arguments = {"hashfunc": hashlib.sha256} if name == "es256" else {}
    assert theirs.verify(ours, message, **arguments)


@pytest.mark.parametrize("name", SIGNERS)
@pytest.mark.parametrize(
    "signature",
    [b"", bytes(63), bytes(64), bytes(65), b"\xff" * 64, bytes(32) + b"\x01" * 32, b"\x01" * 32 + bytes(32)],
)
def test_malformed_signature_is_refused(name: str, signature: bytes) -> None:
    assert not SIGNERS[name].public.verify(signature, b"message")


@pytest.mark.parametrize("algorithm", keys.Algorithm)
@pytest.mark.parametrize("passphrase", [None, b"x", "süß 秘密".encode()])
def test_private_key_file_round_trip(algorithm: keys.Algorithm, passphrase: bytes | None) -> None:
    key = keys.generate(algorithm)
    pem = key_files.private_pem(key, passphrase)
    assert key_files.is_encrypted(pem) == (passphrase is not None)
    again = key_files.load_private_key(pem, passphrase)
    assert FileSigner(again).public.raw == FileSigner(key).public.raw
    assert FileSigner(again).alg == algorithm
    assert key_files.load_public_key(FileSigner(key).public.pem()).kid == FileSigner(again).kid


def test_a_hybrid_key_is_two_files_one_after_the_other() -> None:
    halves = [key_files.private_pem(half) for half in HYBRID.halves]
    public = keys.public_of(HYBRID)
    for pem in (b"".join(halves), b"".join(reversed(halves))):
        assert keys.public_of(key_files.load_private_key(pem)).kid == public.kid
    parts = [half.pem() for half in public.halves]
    for pem in (b"".join(parts), b"\n".join(reversed(parts))):
        assert key_files.load_public_key(pem) == public
    assert public.raw[:65] == public.halves[0].raw
    assert public.raw[65:] == hashlib.sha256(public.halves[1].raw).digest()
    assert len({public.kid, *(half.kid for half in public.halves)}) == 3
    with pytest.raises(ValueError, match="its halves have"):
        public.verify(bytes(64), b"")


def test_generated_keys_differ() -> None:
    assert len({FileSigner(keys.generate(a)).kid for a in keys.Algorithm for _ in range(4)}) == 4 * len(
        keys.Algorithm
    )


@pytest.mark.parametrize("name", SIGNERS)
def test_key_id_is_the_hash_of_the_public_key_as_openssl_writes_it(name: str) -> None:
    public = SIGNERS[name].public
    der = subprocess.run(
        ["openssl", "pkey", "-pubin", "-outform", "DER"], input=public.pem(), capture_output=True, check=True
    ).stdout
    assert public.kid == hashlib.sha256(der).digest()[:16]
    assert der.endswith(public.raw)


def test_key_id_does_not_depend_on_how_the_point_is_written() -> None:
    compressed = subprocess.run(
        ["openssl", "ec", "-pubin", "-conv_form", "compressed"],
        input=ES256.public.pem(),
        capture_output=True,
        check=True,
    ).stdout
    assert compressed != ES256.public.pem()
    assert key_files.load_public_key(compressed).kid == ES256.kid


@pytest.mark.parametrize("cipher", [["-v2", "aes256"], ["-scrypt"], ["-v2", "aes128", "-v2prf", "hmacWithSHA512"]])
def test_key_encrypted_by_openssl_is_read(cipher: list[str]) -> None:
    pem = subprocess.run(
        ["openssl", "pkcs8", "-topk8", *cipher, "-passout", "pass:horse"],
        input=key_files.private_pem(ES256.key),
        capture_output=True,
        check=True,
    ).stdout
    assert FileSigner(key_files.load_private_key(pem, b"horse")).kid == ES256.kid


@pytest.mark.parametrize("name", SIGNERS)
def test_c_source_compiles_and_holds_the_key(name: str) -> None:
    public = SIGNERS[name].public
    text = public.c_source("board_key")
    for array, data in (("board_key_kid", public.kid), ("board_key", public.raw)):
        body = re.search(rf"const uint8_t {array}\[{len(data)}\] = \{{([^}}]*)\}};", text)
        assert body
        assert bytes(int(byte, 16) for byte in re.findall("0x[0-9a-f]{2}", body[1])) == data
    # the arrays are meant for firmware, where they are declared elsewhere
    command = ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c", "-"]
    subprocess.run(command, input=text.encode(), check=True)


def _private(key: Any, format: PrivateFormat = PrivateFormat.PKCS8) -> bytes:
    return bytes(key.private_bytes(Encoding.PEM, format, NoEncryption()))


def _public(key: Any) -> bytes:
    return bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))


GOOD = key_files.private_pem(ES256.key)
ENCRYPTED = key_files.private_pem(ES256.key, b"right")
CUT = b"\n".join([*GOOD.splitlines()[:2], GOOD.splitlines()[-1]]) + b"\n"
P521 = ec.generate_private_key(ec.SECP521R1())
HYBRID = keys.generate(keys.Algorithm.HYBRID)
RSA = rsa.generate_private_key(65537, 2048)

BAD_PRIVATE = {
    "empty": (b"", "not a PEM key file: expected one PEM object, found 0"),
    "text": (b"hello\n", "not a PEM key file"),
    "random": (hashlib.sha512(b"x").digest() * 4, "not a PEM key file"),
    "der": (b"\x30\x81\x87" + bytes(135), "(openssl pkey -inform DER -in k.pem -out KEY.pem converts DER)"),
    "two keys": (GOOD + GOOD, "expected one of ES256 and one of ML-DSA-44, found ES256 and ES256"),
    "three keys": (GOOD * 3, "expected one PEM object, found 3"),
    "eddsa and ml-dsa": (
        key_files.private_pem(EDDSA.key) + key_files.private_pem(HYBRID.ml_dsa),
        "EdDSA and ML-DSA-44",
    ),
    "two kinds of files": (GOOD + ES256.public.pem(), "expected one PEM object, found 2"),
    "no end": (b"\n".join(GOOD.splitlines()[:-1]), "damaged private key"),
    "cut": (CUT, "damaged private key"),
    "not base64": (b"-----BEGIN PRIVATE KEY-----\n!!!!\n-----END PRIVATE KEY-----\n", "damaged private key"),
    "public": (ES256.public.pem(), "expected a private key, found a public key"),
    "rsa of openssl": (
        _private(RSA, PrivateFormat.TraditionalOpenSSL),
        "'EC PRIVATE KEY' or 'OPENSSH PRIVATE KEY'",
    ),
    "sec1 on p-521": (_private(P521, PrivateFormat.TraditionalOpenSSL), "an elliptic curve key on secp521r1"),
    "cut sec1": (
        _private(ES256.key, PrivateFormat.TraditionalOpenSSL)[:80] + b"\n-----END EC PRIVATE KEY-----",
        "damaged",
    ),
    "rsa of ssh-keygen": (_private(RSA, PrivateFormat.OpenSSH), "found an RSA"),
    "cut openssh": (
        _private(ES256.key, PrivateFormat.OpenSSH)[:200] + b"\n-----END OPENSSH PRIVATE KEY-----",
        "damaged",
    ),
    "openssh that is not base64": (
        b"-----BEGIN OPENSSH PRIVATE KEY-----\n!!!!\n-----END OPENSSH PRIVATE KEY-----\n",
        "damaged private key",
    ),
    "certificate": (GOOD.replace(b"PRIVATE KEY", b"CERTIFICATE"), "found 'CERTIFICATE'"),
    "p-521": (_private(P521), "an elliptic curve key on secp521r1"),
    "secp256k1": (_private(ec.generate_private_key(ec.SECP256K1())), "secp256k1"),
    "rsa": (_private(RSA), "an Ed25519 key, or one of ML-DSA-44, found an RSA"),
    "dsa": (_private(dsa.generate_private_key(1024)), "found an DSA"),
    "ed448": (_private(ed448.Ed448PrivateKey.generate()), "found an Ed448"),
    "x25519": (_private(x25519.X25519PrivateKey.generate()), "found an X25519"),
}
BAD_PUBLIC = {
    "empty": (b"", "not a PEM key file"),
    "private": (GOOD, "'gramophone key public' makes it"),
    "encrypted private": (ENCRYPTED, "'gramophone key public' makes it"),
    "cut": (
        b"-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n-----END PUBLIC KEY-----\n",
        "damaged public key",
    ),
    "not on the curve": (
        re.sub(rb"[A-Za-z0-9+/]{12}==", b"AAAAAAAAAAAA==", ES256.public.pem()),
        "damaged public key",
    ),
    "p-521": (_public(P521), "secp521r1"),
    "two keys": (ES256.public.pem() * 2, "expected one of ES256 and one of ML-DSA-44"),
    "rsa": (_public(RSA), "an RSA"),
    "x25519": (_public(x25519.X25519PrivateKey.generate()), "an X25519"),
    "openssh, cut": (b"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDE2\n", "damaged public key"),
    "openssh, of small order": (
        b"ssh-ed25519 " + base64.b64encode(b"\0\0\0\x0bssh-ed25519\0\0\0\x20" + bytes(32)) + b"\n",
        "a point of small order",
    ),
}


BAD = [pytest.param(key_files.load_private_key, *row, id=f"private: {name}") for name, row in BAD_PRIVATE.items()]
BAD += [pytest.param(key_files.load_public_key, *row, id=f"public: {name}") for name, row in BAD_PUBLIC.items()]


@pytest.mark.parametrize(("load", "pem", "reason"), BAD)
def test_bad_key_file(load: Callable[..., object], pem: bytes, reason: str) -> None:
    with pytest.raises(KeyFileError) as caught:
        load(pem, file="k.pem")
    assert str(caught.value).startswith("k.pem: ")
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("pem", "passphrase", "reason"),
    [
        (ENCRYPTED, None, "the key is encrypted and no passphrase was given"),
        (ENCRYPTED, b"", "the key is encrypted and no passphrase was given"),
        (ENCRYPTED, b"wrong", "wrong passphrase"),
        (ENCRYPTED, b"x" * 2000, "wrong passphrase"),
        (GOOD, b"right", "the key is not encrypted"),
    ],
)
def test_passphrase_that_does_not_fit(pem: bytes, passphrase: bytes | None, reason: str) -> None:
    with pytest.raises(PassphraseError, match=reason):
        key_files.load_private_key(pem, passphrase, file="k.pem")


def by(program: str, *arguments: str) -> None:
    subprocess.run([program, *arguments], check=True, capture_output=True)


def key_of(path: Path, passphrase: bytes | None = None) -> bytes:
    """The public key that we read from a file of a private key."""
    key = key_files.load_private_key(path.read_bytes(), passphrase, file=path.name)
    return FileSigner(key).public.raw


@pytest.mark.parametrize("parameters", [[], ["-noout"]], ids=["with its parameters", "only the key"])
def test_keys_of_openssl(parameters: list[str], tmp_path: Path) -> None:
    """SEC 1, as `openssl ecparam` writes it, open and encrypted."""
    plain, locked, public = (tmp_path / name for name in ("plain.pem", "locked.pem", "public.pem"))
    by("openssl", "ecparam", "-name", "prime256v1", "-genkey", *parameters, "-out", str(plain))
    by("openssl", "ec", "-in", str(plain), "-aes256", "-passout", "pass:horse", "-out", str(locked))
    by("openssl", "ec", "-in", str(plain), "-pubout", "-out", str(public))
    assert key_of(plain) == key_of(locked, b"horse") == key_files.load_public_key(public.read_bytes()).raw
    assert (key_files.is_encrypted(plain.read_bytes()), key_files.is_encrypted(locked.read_bytes())) == (
        False,
        True,
    )
    for passphrase in (None, b"donkey"):
        with pytest.raises(PassphraseError):
            key_of(locked, passphrase)


KINDS = {"ecdsa": ["-t", "ecdsa", "-b", "256"], "ed25519": ["-t", "ed25519"]}


@pytest.mark.parametrize("kind", KINDS)
def test_keys_of_ssh_keygen(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An encrypted one is refused; the command that the error names makes one that is read."""
    if shutil.which("ssh-keygen") is None:
        pytest.skip("ssh-keygen is missing: apt-get install openssh-client")
    monkeypatch.chdir(tmp_path)
    path = Path("a key")
    by("ssh-keygen", "-q", *KINDS[kind], "-N", "", "-f", str(path))
    raw = key_of(path)
    assert key_files.load_public_key(Path("a key.pub").read_bytes()).raw == raw
    by("ssh-keygen", "-q", "-p", "-P", "", "-N", "horse", "-f", str(path))
    assert key_files.is_encrypted(path.read_bytes())
    with pytest.raises(KeyFileError, match="an OpenSSH key that is encrypted: on a copy of it") as caught:
        key_of(path, b"horse")
    command = re.search(r"ssh-keygen (.*) (takes|changes) ", str(caught.value))
    assert command
    words = shlex.split(command[1])
    given = ["-P", "horse"] + ([] if "-N" in words else ["-N", "horse"])  # what it would ask at a terminal
    by("ssh-keygen", *words, *given)
    assert key_of(path, None if "-N" in words else b"horse") == raw


def test_encrypted_key_of_another_kind() -> None:
    pem = P521.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"right"))
    with pytest.raises(KeyFileError, match="secp521r1"):
        key_files.load_private_key(pem, b"right")


@given(st.binary(max_size=300))
def test_any_bytes_in_a_pem_frame_are_a_key_or_an_error(body: bytes) -> None:
    labels = (key_files.PKCS8, key_files.PKCS8_ENCRYPTED, key_files.SEC1, key_files.OPENSSH, "PUBLIC KEY")
    for label in map(str.encode, labels):
        pem = b"-----BEGIN " + label + b"-----\n" + body + b"\n-----END " + label + b"-----\n"
        with pytest.raises(KeyFileError):
            key_files.load_private_key(pem, b"x" if label.startswith(b"ENC") else None)
        with pytest.raises(KeyFileError):
            key_files.load_public_key(pem)


@given(at=st.integers(0, 400), byte=st.integers(0, 255))
@example(at=146, byte=66)  # an OpenSSH key whose point is compressed
@settings(deadline=None)
def test_changed_key_file_is_a_key_or_an_error(at: int, byte: int) -> None:
    openssh, sec1 = (
        _private(ES256.key, form) for form in (PrivateFormat.OpenSSH, PrivateFormat.TraditionalOpenSSL)
    )
    for pem, passphrase in ((GOOD, None), (ENCRYPTED, b"right"), (openssh, None), (sec1, None)):
        changed = bytearray(pem)
        changed[at % len(pem)] = byte
        try:
            key = key_files.load_private_key(bytes(changed), passphrase)
        except KeyFileError:
            continue
        assert FileSigner(key).public.verify(keys.sign(key, b"m"), b"m")


def test_seed_is_the_published_key() -> None:
    assert isinstance(EDDSA.key, ed25519.Ed25519PrivateKey)
    assert EDDSA.key.private_bytes_raw() == ED25519_SEED
