# SPDX-License-Identifier: BSD-2-Clause
"""What long work is doing: on a terminal a moving line for each phase, elsewhere a line when the phase is over.

    with phase("boot 2 of 3"):
        ...

prints "boot 2 of 3, 40 s" where standard error is a file or a pipe, and every half minute before that
"boot 2 of 3, 30 s so far". Phases lie in one another, and side by side in threads.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from host_tools.support.messages import LOG, shows

LONG_S = 5  # shorter phases leave no line
SO_FAR_S = 30


@contextmanager
def phase(what: str) -> Iterator[None]:
    """Say what is being done while the context lasts, and how long it took."""
    began = time.monotonic()
    LOG.debug("%s: begins", what)
    on_terminal = sys.stderr is not None and sys.stderr.isatty() and shows(logging.INFO)
    try:
        with _TERMINAL.line(what) if on_terminal else _so_far(what, began):
            yield
    except BaseException:
        LOG.debug("%s: ended early, after %.0f s", what, time.monotonic() - began)
        raise
    seconds = time.monotonic() - began
    LOG.log(logging.DEBUG if on_terminal or seconds < LONG_S else logging.INFO, "%s, %.0f s", what, seconds)


@contextmanager
def _so_far(what: str, began: float) -> Iterator[None]:
    """A line now and then, from a thread that waits."""
    over = threading.Event()

    def wait() -> None:
        while not over.wait(SO_FAR_S):
            LOG.info("%s, %.0f s so far", what, time.monotonic() - began)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class _Terminal:
    """The moving lines: one display for the phases of all threads, gone when there are none."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.phases = 0

    @contextmanager
    def line(self, what: str) -> Iterator[None]:
        """A line with the time that has passed."""
        from rich.console import Console  # not for those who print to a file
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        with self.lock:
            if not self.phases:
                columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
                self.display = Progress(*columns, console=Console(stderr=True), transient=True)
                self.display.start()
            self.phases += 1
            task = self.display.add_task(what)
        try:
            yield
        finally:
            with self.lock:
                self.phases -= 1
                self.display.remove_task(task)
                if not self.phases:
                    self.display.stop()


_TERMINAL = _Terminal()
