# SPDX-License-Identifier: BSD-2-Clause
"""Reading files that somebody else may have made: regular files of a plausible size only.

A device can be read for ever, and a file that is nothing but a hole nearly so: what a file is, and how large, is
asked before memory is taken for it. A file may grow after that; no more of it is read than may be.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import stat
import time
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from trace_format import limits
from trace_format.errors import LimitError

_KINDS = {
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
}
_PIECE_BYTES = 1 << 20


def open_regular(
    path: str | Path, most: int | None = None, *, or_disk: bool = False, or_pipe: bool = False
) -> BufferedReader:
    """Open a regular file to be read. All that is read goes through here: tests/unit/project/test_readers.py.

    Args:
        path: the file.
        most: bytes that it may have; None: it is read piece by piece, and its size does not matter.
        or_disk: it may be a block device, too.
        or_pipe: it may be a pipe, too; nothing that is read from it waits.

    Raises:
        LimitError: it is a device, a pipe or a socket, which need not end, or has more bytes.
        OSError: it cannot be opened, or is a folder; `filename` is `path`.
    """
    # Without O_NONBLOCK a pipe that nobody writes to would never be opened; regular files do not know it. A
    # terminal must not become the one of this process.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
        if kind == stat.S_IFDIR:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        allowed = {stat.S_IFBLK} if or_disk else {stat.S_IFIFO} if or_pipe else set()
        if kind in _KINDS and kind not in allowed:
            raise LimitError("not readable", expected="a regular file", found=_KINDS[kind], file=str(path))
        if most is not None:
            limits.check("size of the file in bytes", os.fstat(descriptor).st_size, most, file=str(path))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_file(path: str | Path, most: int = limits.FILE_BYTES) -> bytes:
    """The content of a regular file.

    Args:
        path: the file.
        most: bytes that it may have; one of trace_format/limits.py.

    Raises:
        LimitError: it has more, or is no regular file; nothing has been read then.
        OSError: it cannot be read; `filename` is `path`.
    """
    with open_regular(path, most) as file:
        data = file.read(os.fstat(file.fileno()).st_size)
        # Files that the kernel makes when they are read have no size, and others can grow meanwhile.
        return data + rest if (rest := read_stream(file, most - len(data), str(path))) else data


def read_line(path: str | Path, most: int) -> bytes:
    """The first line of a regular file or of a pipe, without its end.

    Raises:
        LimitError: it has more bytes than `most`, is something else, or a pipe gives no line for `PIPE_S` seconds.
        OSError: as `read_file`.
    """
    line, until, waited = b"", time.monotonic() + limits.PIPE_S, False
    with open_regular(path, or_pipe=True) as file:
        poll = select.poll()
        poll.register(file, select.POLLIN)
        while b"\n" not in line:
            with contextlib.suppress(BlockingIOError):
                piece = os.read(file.fileno(), most + 1 - len(line))
                line += piece
                limits.check("size of the line in bytes", len(line.partition(b"\n")[0]), most, file=str(path))
                if piece:
                    continue
                if line or waited:  # else nobody has opened the pipe yet
                    break
            if not poll.poll(max(0, until - time.monotonic()) * 1000):
                raise LimitError(
                    "the pipe", expected=f"a line within {limits.PIPE_S} s", found="none", file=str(path)
                )
            waited = True
    return line.partition(b"\n")[0]


def check_size(path: str | Path, most: int) -> None:
    """Whether a library may be let read a file: LimitError, OSError as `read_file`."""
    open_regular(path, most).close()


def read_file_text(path: str | Path, most: int = limits.SMALL_BYTES) -> str:
    """The content of a regular file in UTF-8, with replacement characters where it is not.

    Raises:
        LimitError, OSError: as `read_file`.
    """
    return read_file(path, most).decode("utf-8", errors="replace")


def read_stream(stream: BinaryIO, most: int, file: str) -> bytes:
    """What is left of a stream of unknown size.

    Args:
        stream: open to be read.
        most: bytes that it may have.
        file: its name, for the error.

    Raises:
        LimitError: there is more.
    """
    pieces, size = [], 0
    while piece := stream.read(min(_PIECE_BYTES, most - size + 1)):
        pieces.append(piece)
        size += len(piece)
        limits.check("size of the input in bytes", size, most, file=file)
    return b"".join(pieces)
