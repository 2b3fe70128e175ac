# SPDX-License-Identifier: BSD-2-Clause
"""Files that commands read and write: "-" is standard input or standard output."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from host_tools.commands.framework import FILE, STREAM
from host_tools.support.files import check_writable, write_atomically
from trace_format import limits
from trace_format.codec import Buffer
from trace_format.files import read_file, read_stream

OUTPUT = click.option("-o", "--output", type=FILE, required=True, help="File to write; - is standard output.")


def read(path: Path, most: int = limits.FILE_BYTES) -> bytes:
    """The content of a regular file, or of standard input.

    Raises:
        LimitError: there are more bytes than `most`, or it is no regular file.
        OSError: it cannot be read.
    """
    return read_stream(sys.stdin.buffer, most, str(path)) if path == STREAM else read_file(path, most)


def check_output(output: Path) -> None:
    """Find out, before long work, whether `write` can succeed; that it replaces no input is the framework's part.

    Raises:
        OSError: as `write`.
    """
    if output != STREAM:
        check_writable(output)


def write(output: Path, *data: Buffer, mode: int = 0o666, overwrite: bool = True) -> None:
    """Write a whole file, in one piece or more, as `write_atomically`, or to standard output."""
    if output == STREAM:
        sys.stdout.buffer.writelines(data)
        sys.stdout.buffer.flush()
    else:
        write_atomically(output, *data, mode=mode, overwrite=overwrite)
