# SPDX-License-Identifier: BSD-2-Clause
"""Counts, from outside, what a process in a sandbox takes that the kernel bounds for each file or user only."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from host_tools.support.sandbox import Sandbox
from trace_format.errors import GramophoneError

INTERVAL_S = 0.2  # between two looks: a disk takes little in it
THREADS = 1024
ENTRY_BYTES = 4096  # what an empty file takes


class ExcessError(GramophoneError):
    """The process took more than it may have, and is to be ended."""


class Count:
    """Of one process, which has not started yet.

    Args:
        sandbox: in which it will be.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        self._folders = sandbox.writes
        self._most = sandbox.written_bytes
        self._before = self._in_folders()

    def check(self, process: int) -> None:
        """Look once at the process, by its number; it has not been waited for.

        Raises:
            ExcessError: it has too many threads, or wrote too many bytes.
        """
        with contextlib.suppress(OSError):  # it has ended
            if os.stat(f"/proc/{process}/task").st_nlink - 2 > THREADS:
                raise ExcessError(f"it started more than {THREADS} threads")
        if self._in_folders() + _removed(process) > self._before + self._most:
            raise ExcessError(f"it wrote more than {self._most} bytes")

    def _in_folders(self) -> int:
        return sum(_taken(status) for folder in self._folders for status in _entries(folder))


def _entries(top: Path) -> Iterator[os.stat_result]:
    """What is in a folder and in those below; none of these is the process's, a sandbox has no call for that."""
    folders = [top]
    while folders:
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):  # removed since, or renamed
                    yield entry.stat(follow_symlinks=False)
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(Path(entry.path))


def _removed(process: int) -> int:
    """Bytes of files that a process has open, and that are in no folder."""
    found = 0
    with contextlib.suppress(OSError), os.scandir(f"/proc/{process}/fd") as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                status = entry.stat()
                found += 0 if status.st_nlink else _taken(status)
    return found


def _taken(status: os.stat_result) -> int:
    return max(512 * status.st_blocks, ENTRY_BYTES)
