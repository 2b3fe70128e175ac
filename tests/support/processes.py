# SPDX-License-Identifier: BSD-2-Clause
"""Processes that tests start, found again by a mark in their environment, and what they leave behind."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
import uuid
from pathlib import Path

MARK = "GRAMOPHONE_TEST_MARK"
PROGRESS = re.compile(r".+, \d+ s( so far)?")  # host_tools.support.progress


def without_progress(printed: str) -> list[str]:
    """The lines that a command printed, but for those on progress, which a slow machine has more of."""
    return [line for line in printed.splitlines() if not PROGRESS.fullmatch(line)]


def default_signals() -> None:
    """For a new process: the signals that end it do so, whatever they do to us. nohup ignores one."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


class Marked:
    """All processes that come of one that is started with `environment`, however they are related to it."""

    def __init__(self) -> None:
        self.mark = uuid.uuid4().hex
        self.environment = os.environ | {MARK: self.mark}

    def running(self, program: str = "") -> list[int]:
        """Numbers of those that run, of the ones whose command line has `program` in it; zombies do not count."""
        found = []
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                with contextlib.suppress(OSError):
                    is_ours = f"{MARK}={self.mark}".encode() in (folder / "environ").read_bytes().split(b"\0")
                    if is_ours and program.encode() in (folder / "cmdline").read_bytes():
                        found.append(int(folder.name))
        return found

    def wait_for(self, program: str, count: int = 1, timeout_s: float = 120) -> None:
        """Wait until so many of them run a program."""
        until = time.monotonic() + timeout_s
        while len(self.running(program)) < count:
            assert time.monotonic() < until, f"{program} did not start"
            time.sleep(0.05)

    def gone(self) -> bool:
        """Whether none is left; one that was killed takes a moment."""
        until = time.monotonic() + 1
        while self.running() and time.monotonic() < until:
            time.sleep(0.01)
        return not self.running()

    def end(self) -> list[int]:
        """Kill those that are left; which they were."""
        left = self.running()
        for number in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        return left
