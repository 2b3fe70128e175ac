# SPDX-License-Identifier: BSD-2-Clause
"""Reading files: what is no regular file, or too large, is refused before memory is taken for it."""

from __future__ import annotations

import io
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from trace_format import limits
from trace_format.errors import LimitError
from trace_format.files import check_size, open_regular, read_file, read_file_text, read_line, read_stream

GIB = 1 << 30


def hole(path: Path, size: int) -> Path:
    """A file of zeros that takes no room on the disk."""
    with path.open("wb") as file:
        file.truncate(size)
    return path


def test_a_file_is_read_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"some\xff")
    assert read_file(tmp_path / "file", 5) == b"some\xff"
    assert read_file_text(tmp_path / "file") == "some\N{REPLACEMENT CHARACTER}"
    assert read_file(hole(tmp_path / "empty", 0), 0) == b""
    assert len(read_file("/proc/self/stat")) > 10, "files that are made when they are read have no size"


@pytest.mark.parametrize("read", [read_file, check_size])
def test_a_file_that_is_too_large_is_named_with_its_size(
    tmp_path: Path, read: Callable[[Path, int], object]
) -> None:
    path = hole(tmp_path / "file", 40 * GIB)
    with pytest.raises(LimitError) as error:
        read(path, 1000)
    assert str(error.value) == (f"{path}: size of the file in bytes: expected at most 1000, found {40 * GIB}")


def test_one_without_a_size_is_read_to_the_limit_only(tmp_path: Path) -> None:
    with pytest.raises(LimitError, match="size of the input in bytes: expected at most 10, found "):
        read_file("/proc/self/stat", 10)


@pytest.mark.parametrize("name", ["zero", "null", "urandom"])
def test_a_device_is_refused(name: str) -> None:
    with pytest.raises(LimitError, match=f"/dev/{name}: not readable: expected a regular file, found a device"):
        read_file(f"/dev/{name}")


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(LimitError, match="found a pipe"):
        open_regular(tmp_path / "pipe")


@pytest.mark.parametrize(
    ("content", "line"),
    [(b"line\nmore", b"line"), (b"line", b"line"), (b"", b""), (b"\n", b""), (b"x" * 8, b"x" * 8)],
)
def test_a_line_of_a_file_and_of_a_pipe(content: bytes, line: bytes, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(content)
    assert read_line(tmp_path / "file", 8) == line
    os.mkfifo(tmp_path / "pipe")
    for at_once in (True, False):
        writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(content,))
        writer.start()
        if not at_once:
            time.sleep(0.1)
        assert read_line(tmp_path / "pipe", 8) == line
        writer.join()
    if content:  # of one that has ended
        end, other = os.pipe()
        os.write(other, content)
        os.close(other)
        assert read_line(f"/dev/fd/{end}", 8) == line
        os.close(end)


def test_a_line_comes_in_time_and_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PIPE_S", 0.1)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(LimitError, match=r"pipe: the pipe: expected a line within 0\.1 s, found none"):
        read_line(tmp_path / "pipe", 8)
    end, other = os.pipe()
    os.write(other, b"a line that is long")
    with pytest.raises(LimitError, match="size of the line in bytes: expected at most 8, found 9"):
        read_line(f"/dev/fd/{end}", 8)
    with pytest.raises(LimitError, match="found a device"):
        read_line("/dev/zero", 8)


def test_what_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError) as folder:
        read_file(tmp_path)
    assert folder.value.filename == str(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_file(tmp_path / "none")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        with pytest.raises(OSError, match="No such device or address"):
            read_file(tmp_path / "socket")


def test_no_refused_file_stays_open(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for path in ("/dev/zero", tmp_path, hole(tmp_path / "file", 10)):
        with pytest.raises((LimitError, OSError)):
            read_file(path, 9)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1])
def test_a_stream_is_read_to_its_end(size: int) -> None:
    data = os.urandom(size)
    assert read_stream(io.BytesIO(data), size, "-") == data
    with pytest.raises(LimitError, match=f"^-: size of the input in bytes: expected at most {size}, found "):
        read_stream(io.BytesIO(data + b"x"), size, "-")
