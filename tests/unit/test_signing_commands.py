# SPDX-License-Identifier: BSD-2-Clause
"""keygen, getpub, keyinfo, sign and verify as a user types them."""

from __future__ import annotations

import json
import os
import pty
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from host_tools.cli import main
from signing import keys
from signing.verify import verify_trace
from tests.support.signing_samples import ES256, flipped, small_trace
from trace_format import layout
from trace_format.trace import Trace

COMMANDS = [name for name, command in main.lazy.items() if command.function.startswith("signing.")]
ROOT = Path(__file__).parents[2]
# a process of its own, for exit statuses, terminals and tracebacks as they really are
PROGRAM = [sys.executable, "-m", "host_tools.cli"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    Path("net.gtr").write_bytes(small_trace())
    Path("key.pem").write_bytes(keys.private_pem(ES256.key))
    Path("locked.pem").write_bytes(keys.private_pem(ES256.key, b"horse"))
    Path("pub.pem").write_bytes(ES256.public.pem())
    Path("horse.txt").write_bytes(b"horse\r\nsecond line\n")
    return tmp_path


def run(*arguments: str, status: int = 0) -> Result:
    result = CliRunner().invoke(main, list(arguments))
    assert result.exit_code == status, result.output
    return result


def run_json(*arguments: str, status: int = 0) -> dict[str, Any]:
    result = run(*arguments, "--json", status=status)
    assert result.stdout.count("\n") == 1
    found = json.loads(result.stdout)
    assert isinstance(found, dict)
    assert found["ok"] is (status == 0)
    assert found.pop("warnings", []) == [] or arguments[0] == "sign" or "eddsa" in arguments
    return found


def mode(path: str) -> int:
    return stat.S_IMODE(Path(path).stat().st_mode)


@pytest.mark.parametrize(("algorithm", "warned"), [("es256", False), ("eddsa", True)])
def test_a_key_that_no_device_takes_yet(algorithm: str, warned: bool) -> None:
    found = CliRunner().invoke(main, ["keygen", "-o", "k.pem", "--algorithm", algorithm])
    assert found.exit_code == 0
    assert ("warning: no device takes traces of this key yet" in found.stderr) == warned


@pytest.mark.parametrize(("algorithm", "title"), [("es256", "ES256"), ("eddsa", "EdDSA")])
def test_from_key_to_verified_trace(algorithm: str, title: str) -> None:
    made = run_json("keygen", "-o", "k.pem", "--algorithm", algorithm)
    assert made["algorithm"] == title
    assert not made["encrypted"]
    run("getpub", "k.pem", "-o", "p.pem")
    signed = run_json("sign", "net.gtr", "--signing-key", "k.pem", "-o", "net.sgtr")
    assert signed["bytes"] == Path("net.sgtr").stat().st_size == signed["trace_bytes"] + 128
    found = run_json("verify", "net.sgtr", "--key", "p.pem")
    assert found.pop("summary") == signed["summary"]
    assert found == {
        "ok": True,
        "file": "net.sgtr",
        "verdict": "verified",
        "reason": f"net.sgtr: signed by {title} key {made['key_id']}",
        "algorithm": title,
        "key_id": made["key_id"],
    }
    public = keys.load_public_key(Path("p.pem").read_bytes())
    assert bytes(verify_trace(Path("net.sgtr").read_bytes(), [public]).trace or b"") == small_trace()
    assert run("verify", "net.sgtr", "--key", "p.pem").stdout.startswith("verified: net.sgtr: signed by ")


def test_signing_twice_gives_the_same_file() -> None:
    for output in ("a.sgtr", "b.sgtr"):
        run("sign", "net.gtr", "--signing-key", "key.pem", "-o", output)
    assert Path("a.sgtr").read_bytes() == Path("b.sgtr").read_bytes()


def test_a_raw_recording_is_signed_with_a_warning() -> None:
    built = run("sign", "net.gtr", "--signing-key", "key.pem", "-o", "net.sgtr")
    _write("raw.gtr", Trace.read("net.gtr").with_(raw=True).build())
    raw = run("sign", "raw.gtr", "--signing-key", "key.pem", "-o", "raw.sgtr")
    assert built.stderr == ""
    assert raw.stderr.startswith("warning: raw.gtr is a raw recording, ")
    assert run_json("verify", "raw.sgtr", "--key", "pub.pem")["verdict"] == "verified"


def test_private_key_file_is_for_its_owner_alone() -> None:
    before = os.umask(0)
    try:
        run("keygen", "-o", "k.pem")
        Path("old.pem").touch(0o666)
        run("keygen", "-o", "old.pem", "--force")
        run("getpub", "k.pem", "-o", "p.pem")
    finally:
        os.umask(before)
    assert mode("k.pem") == mode("old.pem") == 0o600
    assert mode("p.pem") == 0o666


def test_private_key_is_not_overwritten() -> None:
    before = Path("key.pem").read_bytes()
    assert "key.pem: exists; --force replaces it" in run("keygen", "-o", "key.pem", status=2).stderr
    assert Path("key.pem").read_bytes() == before
    run("keygen", "-o", "key.pem", "--force")
    assert Path("key.pem").read_bytes() != before


def test_keyinfo() -> None:
    expected = {
        "ok": True,
        "algorithm": "ES256",
        "key_id": ES256.kid.hex(),
        "public_key": ES256.public.raw.hex(),
    }
    assert run_json("keyinfo", "key.pem") == expected | {"file": "key.pem", "private": True, "encrypted": False}
    assert run_json("keyinfo", "pub.pem") == expected | {"file": "pub.pem", "private": False, "encrypted": False}
    locked = run_json("keyinfo", "locked.pem", "--passphrase-file", "horse.txt")
    assert locked == expected | {"file": "locked.pem", "private": True, "encrypted": True}
    assert f"key id:     {ES256.kid.hex()}\n" in run("keyinfo", "pub.pem").stdout


def test_keys_of_other_programs() -> None:
    """SEC 1 and OpenSSH: the same key, whoever wrote the file."""
    for form, name in ((PrivateFormat.TraditionalOpenSSL, "sec1"), (PrivateFormat.OpenSSH, "openssh")):
        _write(name, ES256.key.private_bytes(Encoding.PEM, form, NoEncryption()))
        found = run_json("keyinfo", name)
        assert (found["key_id"], found["private"], found["encrypted"]) == (ES256.kid.hex(), True, False)
        run("sign", "net.gtr", "--signing-key", name, "-o", f"{name}.sgtr")
        run("verify", f"{name}.sgtr", "--key", "pub.pem")
    _write("id.pub", ES256.key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH))
    assert run("getpub", "id.pub").stdout.encode() == ES256.public.pem()
    assert run_json("keyinfo", "id.pub")["private"] is False
    run("verify", "sec1.sgtr", "--key", "id.pub")


def test_a_signature_is_replaced() -> None:
    """It is as if the trace had been signed at once; without --replace the old signature stays."""
    run("keygen", "-o", "new.pem")
    run("sign", "net.gtr", "--signing-key", "key.pem", "-o", "old.sgtr")
    refused = run("sign", "old.sgtr", "--signing-key", "new.pem", "-o", "new.sgtr", status=2)
    assert refused.stderr.startswith(
        "error: old.sgtr at offset 0x0: signed already (--replace gives it another signature, 'gramophone strip' "
    )
    assert not Path("new.sgtr").exists()
    run("sign", "old.sgtr", "--signing-key", "new.pem", "-o", "new.sgtr", "--replace")
    run("sign", "net.gtr", "--signing-key", "new.pem", "-o", "direct.sgtr", "--replace")
    assert Path("new.sgtr").read_bytes() == Path("direct.sgtr").read_bytes()
    run("sign", "new.sgtr", "--signing-key", "key.pem", "-o", "new.sgtr", "--replace")
    assert Path("new.sgtr").read_bytes() == Path("old.sgtr").read_bytes()


def test_strip() -> None:
    run("sign", "net.gtr", "--signing-key", "key.pem", "-o", "net.sgtr")
    assert run_json("strip", "net.sgtr", "-o", "again.gtr") == {
        "ok": True,
        "file": "again.gtr",
        "bytes": len(small_trace()),
        "removed_bytes": 128,
    }
    assert Path("again.gtr").read_bytes() == Path("net.gtr").read_bytes()
    assert "a trace that is not signed" in run("strip", "net.gtr", "-o", "out", status=2).stderr


@pytest.mark.parametrize("command", [["sign", "BAD", "--replace", "--signing-key", "key.pem"], ["strip", "BAD"]])
def test_a_damaged_trace_keeps_its_signature(command: list[str]) -> None:
    """Offsets are those of the file."""
    run("sign", "net.gtr", "--signing-key", "key.pem", "-o", "net.sgtr")
    signed = Path("net.sgtr").read_bytes()
    _write("BAD", flipped(signed, 8 * len(signed) - 128))
    message = run(*command, "-o", "out", status=2).stderr
    chunk = 128 + layout.read_header(small_trace())["head_bytes"]
    assert message.startswith(f"error: BAD at offset {chunk:#x}: chunk 0 is damaged")
    assert not Path("out").exists()


@pytest.mark.parametrize("source", ["key.pem", "pub.pem"])
def test_getpub(source: str) -> None:
    assert run("getpub", source).stdout.encode() == ES256.public.pem()
    assert run("getpub", source, "--c").stdout == ES256.public.c_source()
    assert run_json("getpub", source)["text"].encode() == ES256.public.pem()
    assert run_json("getpub", source, "--c", "-o", "key.h") == {
        "ok": True,
        "file": "key.h",
        "algorithm": "ES256",
        "key_id": ES256.kid.hex(),
    }
    assert Path("key.h").read_text() == ES256.public.c_source()


def test_passphrase_from_a_file_and_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "horse")
    made = run_json("keygen", "-o", "k.pem", "--passphrase-env", "SECRET")
    assert made["encrypted"]
    assert keys.is_encrypted(Path("k.pem").read_bytes())
    assert run_json("keyinfo", "k.pem", "--passphrase-file", "horse.txt")["key_id"] == made["key_id"]
    run("sign", "net.gtr", "--signing-key", "k.pem", "-o", "a.sgtr", "--passphrase-env", "SECRET")
    run("sign", "net.gtr", "--signing-key", "k.pem", "-o", "b.sgtr", "--passphrase-file", "horse.txt")
    assert Path("a.sgtr").read_bytes() == Path("b.sgtr").read_bytes()


def answer(arguments: list[str], answers: list[str]) -> tuple[int, str]:
    """Run a command on a terminal and type an answer at each prompt; exit status and standard error."""
    master, slave = pty.openpty()
    try:
        with subprocess.Popen(
            [*PROGRAM, *arguments],
            stdin=slave,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        ) as process:
            assert process.stderr
            seen = b""
            for text in answers:
                start = len(seen)
                while b": " not in seen[start:]:
                    got = os.read(process.stderr.fileno(), 100)
                    assert got, seen
                    seen += got
                os.write(master, text.encode() + b"\n")
            seen += process.stderr.read()
        return process.returncode, seen.decode()
    finally:
        os.close(master)
        os.close(slave)


def test_passphrase_typed_at_a_terminal() -> None:
    status, text = answer(["keygen", "-o", "k.pem", "--ask-passphrase"], ["horse", "horse"])
    assert status == 0, text
    assert "horse" not in text
    run("keyinfo", "k.pem", "--passphrase-file", "horse.txt")
    assert answer(["sign", "net.gtr", "--signing-key", "k.pem", "-o", "n.sgtr"], ["horse"])[0] == 0
    status, text = answer(["sign", "net.gtr", "--signing-key", "k.pem", "-o", "m.sgtr"], ["donkey"])
    assert status == 2
    assert "error: k.pem: wrong passphrase" in text
    assert Path("n.sgtr").exists()
    assert not Path("m.sgtr").exists()


def _write(name: str, data: bytes) -> str:
    Path(name).write_bytes(data)
    return name


def test_refused_trace_has_exit_status_1() -> None:
    run("sign", "net.gtr", "--signing-key", "key.pem", "-o", "net.sgtr")
    signed = Path("net.sgtr").read_bytes()
    _write("bad.sgtr", flipped(signed, 8 * len(signed) - 128))
    found = run_json("verify", "bad.sgtr", "--key", "pub.pem", status=1)
    assert found["verdict"] == "bad-chunk"
    assert "bad.sgtr at offset" in found["reason"]
    _write("bad.sgtr", flipped(signed, 8 * 100))
    assert run_json("verify", "bad.sgtr", "--key", "pub.pem", status=1)["verdict"] == "bad-signature"
    run("keygen", "-o", "other.pem")
    run("getpub", "other.pem", "-o", "other.pub.pem")
    assert run_json("verify", "net.sgtr", "--key", "other.pub.pem", status=1)["verdict"] == "unknown-key"
    assert run("verify", "net.sgtr", "--key", "other.pub.pem", status=1).stdout.startswith("REFUSED: net.sgtr: ")
    run("verify", "net.sgtr", "--key", "other.pub.pem", "--key", "pub.pem")


BAD_FILES: dict[str, Callable[[], bytes]] = {
    "empty": lambda: b"",
    "random": lambda: bytes(range(255, -1, -1)) * 3,
    "truncated": lambda: small_trace()[:300],
    "wrong version": lambda: flipped(small_trace(), 8 * 8 + 1),
}


@pytest.mark.parametrize("what", BAD_FILES)
@pytest.mark.parametrize(
    "arguments",
    [
        ["sign", "BAD", "--signing-key", "key.pem", "-o", "out"],
        ["sign", "net.gtr", "--signing-key", "BAD", "-o", "out"],
        ["verify", "BAD", "--key", "pub.pem"],
        ["verify", "net.gtr", "--key", "BAD"],
        ["getpub", "BAD", "-o", "out"],
        ["keyinfo", "BAD"],
        ["strip", "BAD", "-o", "out"],
    ],
    ids=" ".join,
)
def test_bad_file_is_one_sentence_and_exit_status_2(arguments: list[str], what: str) -> None:
    _write("BAD", BAD_FILES[what]())
    result = run(*arguments, status=2)
    assert result.stderr.startswith("error: BAD")
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""
    assert not Path("out").exists()
    assert run_json(*arguments, status=2)["error"] == result.stderr.removeprefix("error: ").rstrip("\n")


BAD_USE = {
    "no such trace": (
        ["sign", "none.gtr", "--signing-key", "key.pem", "-o", "out"],
        "error: none.gtr: No such file",
    ),
    "no such key": (
        ["sign", "net.gtr", "--signing-key", "none.pem", "-o", "out"],
        "error: none.pem: No such file",
    ),
    "a folder": (["verify", ".", "--key", "pub.pem"], "error: .: Is a directory"),
    "output in no folder": (
        ["sign", "net.gtr", "--signing-key", "key.pem", "-o", "no/out"],
        "error: no/out: No such file",
    ),
    "output a folder": (
        ["sign", "net.gtr", "--signing-key", "key.pem", "-o", "."],
        "error: .: not a regular file",
    ),
    "output a device": (["keygen", "-o", "/dev/null", "--force"], "error: /dev/null: not a regular file"),
    "signed by a public key": (
        ["sign", "net.gtr", "--signing-key", "pub.pem", "-o", "out"],
        "a private one is needed",
    ),
    "verified by a private key": (["verify", "net.gtr", "--key", "key.pem"], "'gramophone getpub' makes it"),
    "locked": (["sign", "net.gtr", "--signing-key", "locked.pem", "-o", "out"], "no passphrase was given"),
    "wrong passphrase": (
        ["sign", "net.gtr", "--signing-key", "locked.pem", "-o", "out", "--passphrase-file", "pub.pem"],
        "error: locked.pem: wrong passphrase",
    ),
    "empty passphrase file": (["keygen", "-o", "out", "--passphrase-file", "/dev/null"], "no passphrase there"),
    "no such variable": (
        ["keygen", "-o", "out", "--passphrase-env", "NO_SUCH"],
        "error: environment variable NO_SUCH: no passphrase there",
    ),
    "passphrase of an open key": (["keyinfo", "key.pem", "--passphrase-file", "horse.txt"], "is not encrypted"),
    "two passphrases": (
        ["keygen", "-o", "out", "--passphrase-file", "horse.txt", "--passphrase-env", "HOME"],
        "exclude each other",
    ),
    "asked and given": (
        ["keygen", "-o", "out", "--passphrase-file", "horse.txt", "--ask-passphrase"],
        "--ask-passphrase excludes",
    ),
    "asked and nobody there": (["keygen", "-o", "out", "--ask-passphrase"], "error: interrupted"),
    "unknown algorithm": (["keygen", "-o", "out", "--algorithm", "rsa"], "'rsa' is not one of 'es256', 'eddsa'"),
    "no output": (["keygen"], "Missing option '-o'"),
}


@pytest.mark.parametrize("name", BAD_USE)
def test_bad_use(name: str) -> None:
    arguments, reason = BAD_USE[name]
    result = run(*arguments, status=2)
    assert reason in result.stderr
    assert result.stdout == ""
    assert not Path("out").exists()
    assert not [path for path in Path().iterdir() if path.name.endswith(".tmp")]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example_that_runs(command: str) -> None:
    text = run(command, "--help").stdout
    example = text.split("Example:\n")[1].split()
    assert example[:2] == ["gramophone", command]
    run("sign", "net.gtr", "--signing-key", "key.pem", "-o", "net.sgtr")
    Path("key.pem").rename("owner.pem")
    Path("pub.pem").rename("owner.pub.pem")
    if command == "keygen":
        Path("owner.pem").unlink()
        assert answer(example[1:], ["horse", "horse"])[0] == 0
    else:
        run(*example[1:])


def test_exit_statuses_of_the_process() -> None:
    """Exactly one line on standard error, and never a traceback."""
    run("sign", "net.gtr", "--signing-key", "key.pem", "-o", "net.sgtr")
    signed = Path("net.sgtr").read_bytes()
    _write("bad.sgtr", flipped(signed, 8 * 100))
    _write("cut.sgtr", signed[:-1])
    for file, status, lines in (("net.sgtr", 0, 0), ("bad.sgtr", 1, 0), ("cut.sgtr", 2, 1)):
        done = subprocess.run(
            [*PROGRAM, "verify", file, "--key", "pub.pem"],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        assert done.returncode == status, done.stderr
        assert done.stderr.count("\n") == lines, done.stderr
