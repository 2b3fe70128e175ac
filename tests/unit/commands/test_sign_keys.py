# SPDX-License-Identifier: BSD-2-Clause
"""keygen, getpub and keyinfo, and passphrases, as a user types them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from host_tools.cli import main
from signing import key_files
from tests.support.signing_commands import answer, enter, run, run_json, write
from tests.support.signing_samples import ES256


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    enter(tmp_path, monkeypatch)


def mode(path: str) -> int:
    return stat.S_IMODE(Path(path).stat().st_mode)


@pytest.mark.parametrize(("algorithm", "warned"), [("es256", False), ("eddsa", True)])
def test_a_key_that_counts_under_a_policy_only(algorithm: str, warned: bool) -> None:
    found = CliRunner().invoke(main, ["key", "new", "-o", "k.pem", "--algorithm", algorithm])
    assert found.exit_code == 0
    assert ("warning: it counts under a trust policy only" in found.stderr) == warned


def test_private_key_file_is_for_its_owner_alone() -> None:
    before = os.umask(0)
    try:
        run("key", "new", "-o", "k.pem")
        Path("old.pem").touch(0o666)
        run("key", "new", "-o", "old.pem", "--force")
        run("key", "public", "k.pem", "-o", "p.pem")
    finally:
        os.umask(before)
    assert mode("k.pem") == mode("old.pem") == 0o600
    assert mode("p.pem") == 0o666


def test_private_key_is_not_overwritten() -> None:
    before = Path("key.pem").read_bytes()
    assert "key.pem: exists; --force replaces it" in run("key", "new", "-o", "key.pem", status=2).stderr
    assert Path("key.pem").read_bytes() == before
    run("key", "new", "-o", "key.pem", "--force")
    assert Path("key.pem").read_bytes() != before


def test_keyinfo() -> None:
    expected = {
        "ok": True,
        "algorithm": "ES256",
        "key_id": ES256.kid.hex(),
        "public_key": ES256.public.raw.hex(),
    }
    assert run_json("key", "show", "key.pem") == expected | {
        "file": "key.pem",
        "private": True,
        "encrypted": False,
    }
    assert run_json("key", "show", "pub.pem") == expected | {
        "file": "pub.pem",
        "private": False,
        "encrypted": False,
    }
    locked = run_json("key", "show", "locked.pem", "--passphrase-file", "horse.txt")
    assert locked == expected | {"file": "locked.pem", "private": True, "encrypted": True}
    assert f"key id:     {ES256.kid.hex()}\n" in run("key", "show", "pub.pem").stdout


def test_keys_of_other_programs() -> None:
    """SEC 1 and OpenSSH: the same key, whoever wrote the file."""
    assert isinstance(ES256.key, ec.EllipticCurvePrivateKey)
    for form, name in ((PrivateFormat.TraditionalOpenSSL, "sec1"), (PrivateFormat.OpenSSH, "openssh")):
        write(name, ES256.key.private_bytes(Encoding.PEM, form, NoEncryption()))
        found = run_json("key", "show", name)
        assert (found["key_id"], found["private"], found["encrypted"]) == (ES256.kid.hex(), True, False)
        run("sign", "net.gtr", "--signing-key", name, "-o", f"{name}.sgtr")
        run("verify", "trace", f"{name}.sgtr", "--key", "pub.pem")
    write("id.pub", ES256.key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH))
    assert run("key", "public", "id.pub").stdout.encode() == ES256.public.pem()
    assert run_json("key", "show", "id.pub")["private"] is False
    run("verify", "trace", "sec1.sgtr", "--key", "id.pub")


@pytest.mark.parametrize("source", ["key.pem", "pub.pem"])
def test_getpub(source: str) -> None:
    assert run("key", "public", source).stdout.encode() == ES256.public.pem()
    assert run("key", "public", source, "--c").stdout == ES256.public.c_source()
    assert run_json("key", "public", source)["text"].encode() == ES256.public.pem()
    assert run_json("key", "public", source, "--c", "-o", "key.h") == {
        "ok": True,
        "file": "key.h",
        "algorithm": "ES256",
        "key_id": ES256.kid.hex(),
    }
    assert Path("key.h").read_text() == ES256.public.c_source()


def test_passphrase_from_a_file_and_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "horse")
    made = run_json("key", "new", "-o", "k.pem", "--passphrase-env", "SECRET")
    assert made["encrypted"]
    assert key_files.is_encrypted(Path("k.pem").read_bytes())
    assert run_json("key", "show", "k.pem", "--passphrase-file", "horse.txt")["key_id"] == made["key_id"]
    run("sign", "net.gtr", "--signing-key", "k.pem", "-o", "a.sgtr", "--passphrase-env", "SECRET")
    run("sign", "net.gtr", "--signing-key", "k.pem", "-o", "b.sgtr", "--passphrase-file", "horse.txt")
    assert Path("a.sgtr").read_bytes() == Path("b.sgtr").read_bytes()


def test_passphrase_typed_at_a_terminal() -> None:
    status, text = answer(["key", "new", "-o", "k.pem", "--ask-passphrase"], ["horse", "horse"])
    assert status == 0, text
    assert "horse" not in text
    run("key", "show", "k.pem", "--passphrase-file", "horse.txt")
    assert answer(["sign", "net.gtr", "--signing-key", "k.pem", "-o", "n.sgtr"], ["horse"])[0] == 0
    status, text = answer(["sign", "net.gtr", "--signing-key", "k.pem", "-o", "m.sgtr"], ["donkey"])
    assert status == 2
    assert "error: k.pem: wrong passphrase" in text
    assert Path("n.sgtr").exists()
    assert not Path("m.sgtr").exists()
