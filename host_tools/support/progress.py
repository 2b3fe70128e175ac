# SPDX-License-Identifier: BSD-2-Clause
"""What long work is doing: on a terminal a moving line for each phase, elsewhere a line when the phase is over.

    with phase("boot 2 of 3"):
        ...

prints "boot 2 of 3, 40 s" where standard error is a file or a pipe, and every half minute before that
"boot 2 of 3, 30 s so far". Phases lie in one another, and side by side in threads. What can be counted is:
"boot 2 of 3, 120 of 403 jobs, 30 s so far, about 70 s left".
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from host_tools.support.messages import LOG, shows
from trace_format.files import read_file

LONG_S = 5  # shorter phases leave no line
SO_FAR_S = 30


@dataclass
class Jobs:
    """Jobs that are being done, and how fast.

    Attributes:
        done: how many have ended so far.
        total: how many there are; 0: nobody knows.
        noun: what they are.
    """

    done: Callable[[], int]
    total: int = 0
    noun: str = "jobs"
    _since: tuple[int, float] | None = field(default=None, init=False)  # a first count that is not 0, and its time

    def told(self, now: float) -> tuple[str, str]:
        """How far it is, and how long it takes yet, at a time in seconds; each "" while that is not known."""
        done = self.done()
        if not done:
            return "", ""
        self._since = self._since or (done, now)
        first, began = self._since
        if done > self.total:
            return f"{done} {self.noun}", ""
        left = (now - began) / (done - first) * (self.total - done) if done > first else 0
        return f"{done} of {self.total} {self.noun}", f"about {left:.0f} s left" if left >= 1 else ""


def jobs_in(file: Path, total: int) -> Jobs:
    """Jobs whose number the virtual GPU writes to a file (its plugin's `progress`)."""

    def done() -> int:
        try:
            return int.from_bytes(read_file(file)[:8], "little")
        except OSError:
            return 0

    return Jobs(done, total)


def kernels_in(file: Path) -> Jobs:
    """Kernels whose number, and that of all of them, a compiler writes to a file, as numbers of 8 bytes."""

    def done() -> int:
        try:
            data = read_file(file)
        except OSError:
            return 0
        found.total = int.from_bytes(data[8:16], "little")
        return int.from_bytes(data[:8], "little")

    found = Jobs(done, noun="kernels")
    return found


@contextmanager
def phase(what: str, jobs: Jobs | None = None) -> Iterator[None]:
    """Say what is being done while the context lasts, and how long it took."""
    jobs = jobs or Jobs(lambda: 0)
    began = time.monotonic()
    LOG.debug("%s: begins", what)
    on_terminal = sys.stderr is not None and sys.stderr.isatty() and shows(logging.INFO) and has_rich()
    try:
        with _TERMINAL.line(what, jobs) if on_terminal else _so_far(what, jobs, began):
            yield
    except BaseException:
        LOG.debug("%s: ended early, after %.0f s", what, time.monotonic() - began)
        raise
    seconds = time.monotonic() - began
    LOG.log(logging.DEBUG if on_terminal or seconds < LONG_S else logging.INFO, "%s, %.0f s", what, seconds)


def has_rich() -> bool:
    """Whether lines can move: the package comes with the extra `record`."""
    try:
        import rich  # noqa: F401
    except ModuleNotFoundError:
        return False
    return True


@contextmanager
def download(what: str, total: int, present: Callable[[], int]) -> Iterator[Callable[[], None]]:
    """Show a download while the context lasts; what is yielded is to be called now and then.

    Args:
        what: it is.
        total: bytes that there will be.
        present: bytes that are there.
    """
    if not has_rich():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda: progress.update(task, completed=present())


@contextmanager
def _so_far(what: str, jobs: Jobs, began: float) -> Iterator[None]:
    """A line now and then, from a thread that waits."""
    over = threading.Event()

    def wait() -> None:
        while not over.wait(SO_FAR_S):
            now = time.monotonic()
            far, left = jobs.told(now)
            LOG.info("%s", ", ".join(filter(None, (what, far, f"{now - began:.0f} s so far", left))))

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
    def line(self, what: str, jobs: Jobs) -> Iterator[None]:
        """A line with the time that has passed."""
        from rich.console import Console  # not for those who print to a file
        from rich.progress import Progress, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
        from rich.text import Text

        class Far(ProgressColumn):
            """How far it is."""

            max_refresh = 0.5

            def render(self, task: Task) -> Text:
                return Text(", ".join(filter(None, task.fields["jobs"].told(time.monotonic()))))

        with self.lock:
            if not self.phases:
                text = TextColumn("{task.description}", markup=False)
                columns = (SpinnerColumn(), text, TimeElapsedColumn(), Far())
                self.display = Progress(*columns, console=Console(stderr=True), transient=True)
                self.display.start()
            self.phases += 1
            task = self.display.add_task(what, jobs=jobs)
        try:
            yield
        finally:
            with self.lock:
                self.phases -= 1
                self.display.remove_task(task)
                if not self.phases:
                    self.display.stop()


_TERMINAL = _Terminal()
