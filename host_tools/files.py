"""Writing files so that nobody ever sees half of one."""

from __future__ import annotations

import errno
import os
import secrets
from pathlib import Path


def check_writable(path: str | Path) -> None:
    """Find out before long work whether `write_atomically` can succeed; writes nothing.

    Raises:
        OSError: the folder is missing or not writable, or `path` is no regular file; `filename` is `path`.
    """
    target = Path(os.path.realpath(path))
    try:
        if not target.parent.is_dir():
            target.parent.stat()
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if target.exists() and not target.is_file():
            raise OSError(0, "not a regular file")  # a rename would replace a device such as /dev/null
        if not os.access(target.parent, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        error.filename = str(path)
        raise


def write_atomically(path: str | Path, data: bytes, *, mode: int = 0o666, overwrite: bool = True) -> None:
    """Write a whole file, or leave everything as it was.

    Args:
        path: the file; through a symbolic link, what it points to.
        data: its new content.
        mode: permission bits of the new file, less the umask.
        overwrite: whether a file that exists is replaced.

    Raises:
        FileExistsError: the file exists and is not to be replaced.
        OSError: whatever the file system objects to; `filename` is `path`.
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".gramophone.{secrets.token_hex(8)}.tmp")
    try:
        check_writable(target)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            if overwrite:
                temporary.replace(target)
            else:
                os.link(temporary, target)  # unlike a rename, fails where the target exists
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise
