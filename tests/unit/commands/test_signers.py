# SPDX-License-Identifier: BSD-2-Clause
"""`sign` with keys that are not in a file, as a user types it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support import tokens
from tests.support.signing_commands import enter, run, run_json
from tests.support.signing_samples import ES256

PUBLIC = ("--public-key", "pub.pem")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    enter(tmp_path, monkeypatch)
    tokens.make(tmp_path, monkeypatch, "owner")
    tokens.put(tmp_path, ES256.key, token="owner", label="net")
    Path("pin").write_bytes(tokens.PIN + b"\n")


def signed(*words: str) -> None:
    found = run_json("sign", "net.gtr", "-o", "net.sgtr", *words)
    assert found["signed"] is True
    assert found["key_id"] == ES256.public.kid.hex()
    run("verify", "trace", "net.sgtr", "--key", "pub.pem")


def test_a_token() -> None:
    signed("--pkcs11", "pkcs11:token=owner;object=net", "--passphrase-file", "pin")


def test_a_program() -> None:
    signed(*PUBLIC, "--signer-command", "openssl dgst -sha256 -sign key.pem")


def test_another_machine() -> None:
    """The bytes are written, signed by other means, and the signature put in; a retry gives the same file."""
    found = run_json("sign", "net.gtr", *PUBLIC, "--to-be-signed", "-o", "net.tbs")
    assert found["signed"] is False
    assert found["bytes"] == Path("net.tbs").stat().st_size
    subprocess.run(["openssl", "dgst", "-sha256", "-sign", "key.pem", "-out", "net.sig", "net.tbs"], check=True)
    signed(*PUBLIC, "--signature", "net.sig")
    first = Path("net.sgtr").read_bytes()
    signed(*PUBLIC, "--signature", "net.sig")
    assert Path("net.sgtr").read_bytes() == first
    assert "to be signed by ES256 key" in run("sign", "net.gtr", *PUBLIC, "--to-be-signed", "-o", "again").stdout


def test_a_signature_of_another_trace() -> None:
    Path("net.sig").write_bytes(ES256.sign(b"another trace"))
    message = run("sign", "net.gtr", *PUBLIC, "--signature", "net.sig", "-o", "net.sgtr", status=2).stderr
    assert "signature does not fit: expected one of the trace's head" in message
    assert not Path("net.sgtr").exists()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("--signing-key key.pem --pkcs11 pkcs11:object=net", "who signs? Expected one of"),
        ("--signing-key key.pem --public-key pub.pem", "leave out --public-key"),
        ("--signer-command true", "--public-key says whose signature it is"),
        ("--signature net.gtr", "--public-key says whose signature it is"),
        ("--to-be-signed", "--public-key says whose signature it is"),
        ("--to-be-signed --public-key pub.pem --passphrase-file pin", "of --signing-key and --pkcs11 only"),
        ("--signer-command true --public-key key.pem", "key.pem: not a public key"),
        ("--signer-command false --public-key pub.pem", "false: the signer ended with status 1"),
        ("--pkcs11 pkcs11:token=owner;object=none --passphrase-file pin", "the token has no such key"),
        ("--pkcs11 key.pem --passphrase-file pin", "not a URI of a token's key"),
        ("--signature none --public-key pub.pem", "none: No such file"),
    ],
)
def test_wrong_use(words: str, text: str) -> None:
    assert text in run("sign", "net.gtr", "-o", "net.sgtr", *words.split(), status=2).stderr
    assert not Path("net.sgtr").exists()
