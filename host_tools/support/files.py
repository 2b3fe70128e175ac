# SPDX-License-Identifier: BSD-2-Clause
"""Writing files so that no reader ever sees half of one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


def check_writable(path: str | Path) -> None:
    """Find out, before long work, whether `write_atomically` can succeed; leaves nothing.

    Raises:
        OSError: as `write_atomically`.
    """
    with _beside(path, 0o600) as (_, descriptor):
        os.close(descriptor)


@contextlib.contextmanager
def private_files() -> Iterator[None]:
    """Inside, only the user can read what is written, by this process and by those that it starts."""
    umask = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(umask)


def write_atomically(
    path: str | Path, *data: bytes | memoryview, mode: int = 0o666, overwrite: bool = True
) -> None:
    """Write a whole file, or leave everything as it was.

    Args:
        path: the file; through a symbolic link, what it points to.
        data: its new content, in pieces that follow one another.
        mode: permission bits of the new file, less the umask.
        overwrite: whether a file that exists is replaced.

    Raises:
        FileExistsError: the file exists and is not to be replaced.
        OSError: whatever the file system objects to; `filename` is `path`.
    """
    with _beside(path, mode) as (temporary, descriptor):
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(data)
            file.flush()
            os.fsync(file.fileno())
        target = Path(os.path.realpath(path))
        if overwrite:
            temporary.replace(target)
        else:
            os.link(temporary, target)  # unlike a rename, fails where the target exists


@contextlib.contextmanager
def _beside(path: str | Path, mode: int) -> Iterator[tuple[Path, int]]:
    """An open temporary file in the folder of `path`, removed at the end; OSErrors name `path`."""
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".gramophone.{os.urandom(8).hex()}.tmp")
    try:
        if target.exists() and not target.is_file():
            raise OSError(0, "not a regular file")  # a rename would replace a device such as /dev/null
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            yield temporary, descriptor
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise
