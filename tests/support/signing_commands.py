# SPDX-License-Identifier: BSD-2-Clause
"""Commands about keys and signatures, as a user types them."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from host_tools.cli import main
from signing import key_files
from tests.support.places import CHECKOUT
from tests.support.signing_samples import ES256, small_trace

# a process of its own, for exit statuses, terminals and tracebacks as they really are
PROGRAM = [sys.executable, "-m", "host_tools.cli"]


def enter(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder with a trace, keys and a passphrase."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PYTHONPATH", str(CHECKOUT))
    Path("net.gtr").write_bytes(small_trace())
    Path("key.pem").write_bytes(key_files.private_pem(ES256.key))
    Path("locked.pem").write_bytes(key_files.private_pem(ES256.key, b"horse"))
    Path("pub.pem").write_bytes(ES256.public.pem())
    Path("horse.txt").write_bytes(b"horse\r\nsecond line\n")


def record_tflite(model: Path) -> None:
    """Record, build and sign a .tflite file here, as net.sgtr beside pub.pem."""
    Path("key.pem").write_bytes(key_files.private_pem(ES256.key))
    Path("pub.pem").write_bytes(ES256.public.pem())
    run("record", "tflite", str(model), "-o", "raw.gtr")
    run("build", "raw.gtr", "-o", "net.gtr")
    run("sign", "net.gtr", "--signing-key", "key.pem", "-o", "net.sgtr")


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


def write(name: str, data: bytes) -> str:
    Path(name).write_bytes(data)
    return name
