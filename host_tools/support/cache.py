# SPDX-License-Identifier: BSD-2-Clause
"""Where downloads and builds are kept: the user's cache folder, never the checkout."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp

from trace_format.errors import GramophoneError


def cache_dir(*parts: str) -> Path:
    """Folder `parts` of Gramophone's cache, created when missing.

    It lies in $XDG_CACHE_HOME, else ~/.cache, as the XDG base directory specification says (a relative
    $XDG_CACHE_HOME is to be ignored).

    Raises:
        GramophoneError: it cannot be written to.
    """
    home = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(home) if os.path.isabs(home) else Path.home() / ".cache"
    folder = base.joinpath("gramophone", *parts)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise GramophoneError(
            f"{folder}: cannot be made ({error.strerror}); XDG_CACHE_HOME names another cache"
        ) from None
    if not os.access(folder, os.W_OK):
        raise GramophoneError(f"{folder}: cannot be written to; XDG_CACHE_HOME names another cache")
    return folder


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file `path`: others, threads and processes alike, wait for their turn."""
    with path.open("w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # released when the file is closed
        yield


def made_once(folder: Path, make: Callable[[Path], object]) -> Path:
    """A folder of the cache that is made when it is first needed; of several processes, one makes it.

    Args:
        folder: where it is kept; the lock is the file "in-use" in the folder that it lies in.
        make: makes a folder at the path that it is given; it is moved when it is finished.

    Returns:
        `folder`.
    """
    with locked(folder.parent / "in-use"):
        if not folder.exists():
            with TemporaryDirectory(dir=folder.parent) as name:
                fresh = Path(name) / folder.name
                make(fresh)
                os.rename(fresh, folder)
    return folder


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Give a temporary path next to `path`; renamed to `path` on success, removed on failure."""
    folder = Path(mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    temporary = folder / path.name
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
        folder.rmdir()
