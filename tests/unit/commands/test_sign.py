# SPDX-License-Identifier: BSD-2-Clause
"""sign, verify and strip as a user types them, and what all commands about keys and signatures refuse."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from host_tools.cli import main
from signing import key_files
from signing.verify import verify_trace
from tests.support.signing_commands import PROGRAM, enter, run, run_json, write
from tests.support.signing_samples import flipped, small_trace
from trace_format import layout
from trace_format.trace import Trace

COMMANDS = [words for words, command in main.tree.commands.items() if ".sign:" in command.function]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    enter(tmp_path, monkeypatch)


@pytest.mark.parametrize(("algorithm", "title"), [("es256", "ES256"), ("eddsa", "EdDSA")])
def test_from_key_to_verified_trace(algorithm: str, title: str) -> None:
    made = run_json("key", "new", "-o", "k.pem", "--algorithm", algorithm)
    assert made["algorithm"] == title
    assert not made["encrypted"]
    run("key", "public", "k.pem", "-o", "p.pem")
    signed = run_json("sign", "net.gtr", "--signing-key", "k.pem", "-o", "net.sgtr")
    assert signed["bytes"] == Path("net.sgtr").stat().st_size == signed["trace_bytes"] + 128
    found = run_json("verify", "trace", "net.sgtr", "--key", "p.pem")
    assert found.pop("summary") == signed["summary"]
    assert found == {
        "ok": True,
        "file": "net.sgtr",
        "verdict": "verified",
        "reason": f"net.sgtr: signed by {title} key {made['key_id']}",
        "algorithm": title,
        "key_id": made["key_id"],
        "trust": None,
        "transparency": None,
    }
    public = key_files.load_public_key(Path("p.pem").read_bytes())
    assert bytes(verify_trace(Path("net.sgtr").read_bytes(), [public]).trace or b"") == small_trace()
    assert run("verify", "trace", "net.sgtr", "--key", "p.pem").stdout.startswith("verified: net.sgtr: signed by ")


def test_signing_twice_gives_the_same_file() -> None:
    for output in ("a.sgtr", "b.sgtr"):
        run("sign", "net.gtr", "--signing-key", "key.pem", "-o", output)
    assert Path("a.sgtr").read_bytes() == Path("b.sgtr").read_bytes()


def test_a_raw_recording_is_signed_with_a_warning() -> None:
    built = run("sign", "net.gtr", "--signing-key", "key.pem", "-o", "net.sgtr")
    write("raw.gtr", Trace.read("net.gtr").with_(raw=True).build())
    raw = run("sign", "raw.gtr", "--signing-key", "key.pem", "-o", "raw.sgtr")
    assert built.stderr == ""
    assert raw.stderr.startswith("warning: raw.gtr is a raw recording, ")
    assert run_json("verify", "trace", "raw.sgtr", "--key", "pub.pem")["verdict"] == "verified"


def test_a_signature_is_replaced() -> None:
    """It is as if the trace had been signed at once; without --replace the old signature stays."""
    run("key", "new", "-o", "new.pem")
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
    write("BAD", flipped(signed, 8 * len(signed) - 128))
    message = run(*command, "-o", "out", status=2).stderr
    chunk = 128 + layout.read_header(small_trace())["head_bytes"]
    assert message.startswith(f"error: BAD at offset {chunk:#x}: chunk 0 is damaged")
    assert not Path("out").exists()


def test_refused_trace_has_exit_status_1() -> None:
    run("sign", "net.gtr", "--signing-key", "key.pem", "-o", "net.sgtr")
    signed = Path("net.sgtr").read_bytes()
    write("bad.sgtr", flipped(signed, 8 * len(signed) - 128))
    found = run_json("verify", "trace", "bad.sgtr", "--key", "pub.pem", status=1)
    assert found["verdict"] == "bad-chunk"
    assert "bad.sgtr at offset" in found["reason"]
    write("bad.sgtr", flipped(signed, 8 * 100))
    assert run_json("verify", "trace", "bad.sgtr", "--key", "pub.pem", status=1)["verdict"] == "bad-signature"
    run("key", "new", "-o", "other.pem")
    run("key", "public", "other.pem", "-o", "other.pub.pem")
    assert run_json("verify", "trace", "net.sgtr", "--key", "other.pub.pem", status=1)["verdict"] == "unknown-key"
    assert run("verify", "trace", "net.sgtr", "--key", "other.pub.pem", status=1).stdout.startswith(
        "REFUSED: net.sgtr: "
    )
    run("verify", "trace", "net.sgtr", "--key", "other.pub.pem", "--key", "pub.pem")


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
        ["verify", "trace", "BAD", "--key", "pub.pem"],
        ["verify", "trace", "net.gtr", "--key", "BAD"],
        ["key", "public", "BAD", "-o", "out"],
        ["key", "show", "BAD"],
        ["strip", "BAD", "-o", "out"],
    ],
    ids=" ".join,
)
def test_bad_file_is_one_sentence_and_exit_status_2(arguments: list[str], what: str) -> None:
    write("BAD", BAD_FILES[what]())
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
    "a folder": (["verify", "trace", ".", "--key", "pub.pem"], "error: .: Is a directory"),
    "output in no folder": (
        ["sign", "net.gtr", "--signing-key", "key.pem", "-o", "no/out"],
        "error: no/out: No such file",
    ),
    "output a folder": (
        ["sign", "net.gtr", "--signing-key", "key.pem", "-o", "."],
        "error: .: not a regular file",
    ),
    "output a device": (["key", "new", "-o", "/dev/null", "--force"], "error: /dev/null: not a regular file"),
    "signed by a public key": (
        ["sign", "net.gtr", "--signing-key", "pub.pem", "-o", "out"],
        "expected a private key",
    ),
    "verified by a private key": (
        ["verify", "trace", "net.gtr", "--key", "key.pem"],
        "'gramophone key public' makes it",
    ),
    "locked": (["sign", "net.gtr", "--signing-key", "locked.pem", "-o", "out"], "no passphrase was given"),
    "wrong passphrase": (
        ["sign", "net.gtr", "--signing-key", "locked.pem", "-o", "out", "--passphrase-file", "pub.pem"],
        "error: locked.pem: wrong passphrase",
    ),
    "empty passphrase file": (
        ["key", "new", "-o", "out", "--passphrase-file", "empty.txt"],
        "no passphrase there",
    ),
    "passphrase of a device": (["key", "new", "-o", "out", "--passphrase-file", "/dev/null"], "a regular file"),
    "no such variable": (
        ["key", "new", "-o", "out", "--passphrase-env", "NO_SUCH"],
        "error: environment variable NO_SUCH: no passphrase there",
    ),
    "passphrase of an open key": (
        ["key", "show", "key.pem", "--passphrase-file", "horse.txt"],
        "is not encrypted",
    ),
    "two passphrases": (
        ["key", "new", "-o", "out", "--passphrase-file", "horse.txt", "--passphrase-env", "HOME"],
        "cannot be combined",
    ),
    "asked and given": (
        ["key", "new", "-o", "out", "--passphrase-file", "horse.txt", "--ask-passphrase"],
        "--ask-passphrase cannot be combined",
    ),
    "asked and nobody there": (["key", "new", "-o", "out", "--ask-passphrase"], "error: interrupted"),
    "unknown algorithm": (
        ["key", "new", "-o", "out", "--algorithm", "rsa"],
        "'rsa' is not one of 'es256', 'hybrid'",
    ),
    "no output": (["key", "new"], "Missing option '-o'"),
}


@pytest.mark.parametrize("name", BAD_USE)
def test_bad_use(name: str) -> None:
    Path("empty.txt").touch()
    arguments, reason = BAD_USE[name]
    result = run(*arguments, status=2)
    assert reason in result.stderr
    assert result.stdout == ""
    assert not Path("out").exists()
    assert not [path for path in Path().iterdir() if path.name.endswith(".tmp")]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example_that_runs(command: str) -> None:
    words = command.split()
    text = run(*words, "--help").stdout
    example = text.split("Example:\n")[1].splitlines()[0].split()
    assert example[: len(words) + 1] == ["gramophone", *words]
    run("sign", "net.gtr", "--signing-key", "key.pem", "-o", "net.sgtr")
    Path("key.pem").rename("owner.pem")
    Path("pub.pem").rename("owner.pub.pem")
    run(*example[1:])


def test_exit_statuses_of_the_process() -> None:
    """Exactly one line on standard error, and never a traceback."""
    run("sign", "net.gtr", "--signing-key", "key.pem", "-o", "net.sgtr")
    signed = Path("net.sgtr").read_bytes()
    write("bad.sgtr", flipped(signed, 8 * 100))
    write("cut.sgtr", signed[:-1])
    for file, status, lines in (("net.sgtr", 0, 0), ("bad.sgtr", 1, 0), ("cut.sgtr", 2, 1)):
        done = subprocess.run(
            [*PROGRAM, "verify", "trace", file, "--key", "pub.pem"],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        assert done.returncode == status, done.stderr
        assert done.stderr.count("\n") == lines, done.stderr
