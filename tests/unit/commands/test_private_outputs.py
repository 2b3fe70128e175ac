# SPDX-License-Identifier: BSD-2-Clause
"""What commands write of encrypted traces: the user alone can read it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from host_tools.cli import main
from host_tools.commands.framework import Outcome
from host_tools.support.files import write_atomically
from tests.support.commands import commands
from tests.support.signing_commands import enter, run

# What these write is as encrypted as what they read: traces, and envelopes that have them.
PUBLIC = {"sign", "strip", "encrypt", "publish suit export", "publish suit import"}
UMASK = 0o022
PRIVATE = 0o600
KEY = ("--decrypt-with", "me.pem")


# Every command that takes keys of encrypted traces.
ALL = {words: command for words, command in commands() if command.reads_traces}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    enter(tmp_path, monkeypatch)
    run("key", "new", "-o", "me.pem")
    run("key", "public", "me.pem", "-o", "me.pub.pem")
    run("encrypt", "net.gtr", "--for", "me.pub.pem", "-o", "closed.gtr")
    before = os.umask(UMASK)
    yield
    assert os.umask(before) == UMASK, "a command leaves the umask as it was"


def mode(path: str | Path) -> int:
    return Path(path).stat().st_mode & 0o777


def test_all_are_looked_at() -> None:
    assert {"decrypt", "dump", "report", "lint", "replay", "diff", "inspect", "sign"} <= ALL.keys()
    assert {name for name, command in ALL.items() if command.keeps_encrypted} == PUBLIC


@pytest.mark.parametrize("name", sorted(ALL))
def test_whatever_a_command_writes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By whatever way: a file at once, a folder, another library, and with the key only."""

    def write(**_: object) -> Outcome[None]:
        write_atomically("file", b"of the body")
        np.save("array.npy", np.zeros(1))
        Path("made").mkdir(exist_ok=True)
        return Outcome(None)

    command = ALL[name]
    monkeypatch.setattr(command, "callback", write)
    monkeypatch.setattr(command, "params", [item for item in command.params if not item.required])
    written = ("file", "array.npy", "made", "log")
    is_public = name in PUBLIC
    for options, private in (((*KEY, "--log", "log"), not is_public), (("--log", "log"), False)):
        for path in written[:2] + written[3:]:
            Path(path).unlink(missing_ok=True)
        if Path("made").exists():
            Path("made").rmdir()
        done = CliRunner().invoke(command, options)
        assert done.exit_code == 0, done.output
        assert {path: mode(path) & 0o077 for path in written if mode(path) & 0o077 and private} == {}
        assert private or mode("file") == 0o666 & ~UMASK


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (("decrypt", "closed.gtr"), "open.gtr"),
        (("dump", "closed.gtr"), "dump.txt"),
        (("dump", "closed.gtr", "--format", "text"), "net.txt"),
        (("dump", "closed.gtr", "--format", "json"), "net.json"),
        (("report", "closed.gtr", "--no-run"), "report.html"),
    ],
)
def test_outputs_of_an_encrypted_trace(arguments: tuple[str, ...], output: str) -> None:
    """Also where a file that anybody may read was there before."""
    Path(output).write_bytes(b"earlier")
    done = CliRunner().invoke(main, [*arguments, *KEY, "-o", output])
    assert done.exit_code in (0, 1), done.output
    assert Path(output).read_bytes() != b"earlier"
    assert mode(output) == PRIVATE


def test_a_signed_encrypted_trace_can_be_published() -> None:
    run("sign", "closed.gtr", "--signing-key", "key.pem", *KEY, "-o", "net.sgtr")
    assert mode("net.sgtr") == 0o666 & ~UMASK
