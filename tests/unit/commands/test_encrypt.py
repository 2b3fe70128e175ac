# SPDX-License-Identifier: BSD-2-Clause
"""encrypt and decrypt as a user types them, and what other commands make of an encrypted trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from host_tools.cli import main
from signing.device_keys import derive
from signing.keys import PublicKey
from tests.support.signing_commands import enter, run
from tests.support.signing_samples import small_trace

DEVICE_KEY = "device/device.encryption.pub.pem"
FOR_ME = ("--for", "me.pub.pem")


def run_json(*arguments: str, status: int = 0) -> dict[str, Any]:
    """What a command says, its warnings too."""
    done = CliRunner().invoke(main, [*arguments, "--json"])
    assert done.exit_code == status, done.output
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def answer(*arguments: str) -> Result:
    """A command that may fail."""
    return CliRunner().invoke(main, list(arguments))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    enter(tmp_path, monkeypatch)
    run("key", "new", "-o", "me.pem")
    run("key", "public", "me.pem", "-o", "me.pub.pem")
    run("enrol", "-o", "device")


def test_from_a_trace_to_a_signed_encrypted_one_and_back() -> None:
    made = run_json("encrypt", "net.gtr", "--for", DEVICE_KEY, *FOR_ME, "-o", "closed.gtr")
    assert len(made["recipients"]) == 2
    signed = run_json(
        "sign", "closed.gtr", "--signing-key", "key.pem", "--decrypt-with", "me.pem", "-o", "net.sgtr"
    )
    assert signed["recipients"] == made["recipients"]
    run("key", "public", "key.pem", "-o", "pub.pem", "--json")
    verified = run_json("verify", "trace", "net.sgtr", "--key", "pub.pem")
    assert (verified["verdict"], verified["summary"]) == ("verified", None)
    assert "what it does was not judged" in verified["warnings"][0]
    judged = run_json("verify", "trace", "net.sgtr", "--key", "pub.pem", "--decrypt-with", "me.pem")
    assert judged["summary"] == signed["summary"]
    for key in ("me.pem", "device/device.secret"):
        run("decrypt", "net.sgtr", "--decrypt-with", key, "-o", f"{Path(key).name}.gtr")
        assert Path(f"{Path(key).name}.gtr").read_bytes() == small_trace()


def test_with_signing() -> None:
    run("sign", "net.gtr", "--signing-key", "key.pem", "--encrypt-for", "me.pub.pem", "-o", "net.sgtr")
    run("decrypt", "net.sgtr", "--decrypt-with", "me.pem", "-o", "back.gtr")
    assert Path("back.gtr").read_bytes() == small_trace()


def test_a_signed_trace_loses_its_signature_and_is_told_so() -> None:
    run("sign", "net.gtr", "--signing-key", "key.pem", "-o", "net.sgtr")
    found = run_json("encrypt", "net.sgtr", *FOR_ME, "-o", "closed.gtr")
    assert "so closed.gtr has none: sign it" in found["warnings"][0]


def test_without_a_key_its_head_is_shown() -> None:
    run("encrypt", "net.gtr", *FOR_ME, "-o", "closed.gtr")
    found = run("inspect", "closed.gtr").stdout
    assert found.startswith("closed.gtr: encrypted trace (--decrypt-with shows the rest)")
    kid = run_json("key", "show", "me.pub.pem")["key_id"]
    assert kid in found
    assert "jobs" in run("inspect", "closed.gtr", "--decrypt-with", "me.pem").stdout


@pytest.mark.parametrize(
    "line",
    [
        "lint closed.gtr",
        "dump closed.gtr",
        "report closed.gtr -o r.html",
        "publish sbom closed.gtr -o b.json",
        "speed time closed.gtr",
        "sign closed.gtr --signing-key key.pem -o x",
        "decrypt closed.gtr -o x",
    ],
)
def test_what_cannot_be_seen_without_a_key_is_said(line: str) -> None:
    run("encrypt", "net.gtr", *FOR_ME, "-o", "closed.gtr")
    done = answer(*line.split())
    assert done.exit_code in (1, 2)  # lint calls it a finding
    said = done.stderr + done.stdout
    assert "the body is encrypted (--decrypt-with takes a key): expected the private key of" in said
    assert not Path("x").exists()


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("encrypt net.gtr --for me.pem -o x", "me.pem: not a public key"),
        ("encrypt net.gtr --for me.pub.pem --for me.pub.pem -o x", "me.pub.pem: the same key as me.pub.pem"),
        (
            "encrypt net.gtr --for ed.pub.pem -o x",
            "ed.pub.pem: key of a recipient: expected one on P-256, found EdDSA",
        ),
        (
            "encrypt net.gtr --for h.pub.pem -o x",
            "h.pub.pem: key of a recipient: expected one on P-256",
        ),
        (
            "decrypt closed.gtr --decrypt-with h.pem -o x",
            "h.pem: a decryption key: expected",
        ),
        ("encrypt closed.gtr --for me.pub.pem -o x", "closed.gtr at offset"),
        (
            "decrypt closed.gtr --decrypt-with ed.pem -o x",
            "ed.pem: a decryption key: expected",
        ),
        ("decrypt closed.gtr --decrypt-with zeros -o x", "zeros: a device's secret: expected random bytes"),
        (
            "sign net.gtr --public-key me.pub.pem --to-be-signed --encrypt-for me.pub.pem -o x",
            "--encrypt-for makes other bytes each time",
        ),
    ],
)
def test_wrong_input(line: str, what: str) -> None:
    run("encrypt", "net.gtr", *FOR_ME, "-o", "closed.gtr")
    run("key", "new", "--algorithm", "eddsa", "-o", "ed.pem")
    run("key", "public", "ed.pem", "-o", "ed.pub.pem")
    run("key", "new", "--algorithm", "hybrid", "-o", "h.pem")
    run("key", "public", "h.pem", "-o", "h.pub.pem")
    Path("zeros").write_bytes(bytes(32))
    done = answer(*line.split())
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1].startswith(f"error: {what}")
    assert not Path("x").exists()


def test_decrypting_what_is_not_encrypted_says_so() -> None:
    assert "net.gtr is not encrypted" in run_json("decrypt", "net.gtr", "-o", "same.gtr")["warnings"][0]
    assert Path("same.gtr").read_bytes() == small_trace()


def test_a_devices_public_key_is_that_of_its_secret() -> None:
    made = json.loads(answer("enrol", "-o", "other", "--secret", "device/device.secret", "--json").stdout)
    other = "other/device.encryption.pub.pem"
    assert Path(other).read_bytes() == Path(DEVICE_KEY).read_bytes()
    assert made["encryption_key_id"] == run_json("key", "show", other)["key_id"]
    secret = derive(Path("device/device.secret").read_bytes())
    assert PublicKey(secret.decryption.public_key()).pem() == Path(other).read_bytes()
