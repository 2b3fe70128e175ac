# SPDX-License-Identifier: BSD-2-Clause
"""Every file of every command, made so that its reader never ends, or takes the machine's memory: each is refused
or judged within `SECONDS` and `BYTES`, in one sentence."""

from __future__ import annotations

import contextlib
import os
import resource
import shlex
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest

from tests.support.bad_input import check, run, working_folder
from tests.unit.commands.test_bad_input import COMMANDS

SECONDS = 30
BYTES = 1 << 30  # of addresses, beyond what the tests have


def hole(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(40 << 30)


# What is no file, or none that can be read: name -> how it is made, and what is said.
KINDS: dict[str, tuple[Callable[[Path], object], str]] = {
    "a pipe": (os.mkfifo, "found a pipe"),
    "a device": (lambda path: path.symlink_to("/dev/zero"), "found a device"),
    "a socket": (lambda path: socket.socket(socket.AF_UNIX).bind(str(path)), "No such device or address"),
    "a link to itself": (lambda path: path.symlink_to(path.name), "Too many levels of symbolic links"),
    "a hole of 40 GiB": (hole, " in bytes: expected at most "),
}
# What is read, and not to be believed.
DEEP = 100_000
CONTENTS = {
    "deep JSON": b"[" * DEEP + b"]" * DEEP,
    "deep objects": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "keys with dots": b".".join([b"a"] * 30_000) + b" = 1",
    "a table with dots": b"[" + b".".join([b"a"] * 30_000) + b"]\n",
    "deep TOML": b"a = " + b"[" * DEEP + b"]" * DEEP,
    "deep CBOR": b"\x81" * DEEP + b"\x00",
    "CBOR of a large list": b"\x9a\xff\xff\xff\xff" + bytes(1000),
    "CBOR of a long text": b"\xd2\x84\x43\xa1\x01\x26\xa0\x5b\x00\x00\x00\xff\xff\xff\xff\xff" + bytes(1000),
    "a tensor of terabytes": b"\x93NUMPY\x01\x00\x76\x00"
    + b"{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776,), }".ljust(117)
    + b"\n",
    "a long number": b"a = " + b"9" * 500_000,
    "a line without end": b"a" * 1_000_000,
    "many lines": b"a\n" * 500_000,
    "many brackets": b"[" * 1_000_000,
    "PEM without end": b"-----BEGIN PUBLIC KEY-----\n" + b"A" * 1_000_000,
}
# Files that COMMANDS has not, because others test what else can be bad in them.
MORE = {
    "inspect net.gtr": ["net.gtr"],
    "lint net.gtr --allow my.toml": ["my.toml"],
    "make my.toml": ["my.toml"],
    "flash --check net.gtr": ["net.gtr"],
    "audit-firmware net.gtr --key pub.pem": ["net.gtr"],
}
READERS = [(line, name) for line, files in COMMANDS.items() for name in files] + [
    (line, name) for line, files in MORE.items() for name in files
]
# It may come from a pipe, which is waited for: tests/unit/trace_format/test_files.py.
PASSPHRASE = "--passphrase-file"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for _ in working_folder(tmp_path, monkeypatch):
        yield


@contextlib.contextmanager
def limits() -> Iterator[None]:
    """Of this process, while it reads."""

    def late(_number: int, _frame: FrameType | None) -> None:
        raise AssertionError(f"more than {SECONDS} s")

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    old = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    resource.setrlimit(resource.RLIMIT_AS, (now + BYTES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.alarm(0)
        signal.signal(signal.SIGALRM, old)


def with_bad(line: str, name: str) -> tuple[list[str], Path]:
    """The words of a command line with another file in one's place."""
    bad = Path(f"BAD{Path(name).suffix}")
    return shlex.split(line.replace(name, str(bad))), bad


@pytest.mark.sampled(200)
@pytest.mark.parametrize(
    ("line", "name", "what"),
    [
        (line, name, what)
        for line, name in READERS
        for what in KINDS
        if what != "a pipe" or f"{PASSPHRASE} {name}" not in line
    ],
)
def test_what_is_no_file_is_refused(line: str, name: str, what: str) -> None:
    words, bad = with_bad(line, name)
    make, said = KINDS[what]
    make(bad)
    with limits():
        sentence = check(run(words))
    assert sentence.startswith(str(bad)), sentence
    assert said in sentence
    assert not Path("out").exists()


@pytest.mark.sampled(400)
@pytest.mark.parametrize("what", CONTENTS)
@pytest.mark.parametrize(
    ("line", "name"),
    [
        (line, name)
        for line, name in READERS
        if not line.startswith("record run") and (name != "net.bin" or "net.param" not in line)
    ],
)
def test_no_content_takes_the_machine(line: str, name: str, what: str) -> None:
    """But of programs and ncnn's weights: any content is one, and goes to the recording machine."""
    words, bad = with_bad(line, name)
    bad.write_bytes(CONTENTS[what])
    with limits():
        result = run(words)
    assert result.exit_code in (0, 1, 2), result.output
    assert "Traceback" not in result.output
    assert result.exit_code != 2 or result.stderr.count("\n") == 1, result.stderr[:1000]
