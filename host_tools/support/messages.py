# SPDX-License-Identifier: BSD-2-Clause
"""What a program says besides its result: messages on standard error, all of them in a log file.

Everything below the commands logs to `LOG` and does not know who listens. On standard error: warnings and errors
always, notes and progress (INFO) unless quiet, details (DEBUG) if verbose. Standard library only: devices use it.
"""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trace_format.errors import printable

LOG = logging.getLogger("gramophone")
WARNING = "warning: "  # begins a warning's line
FILE_FORMAT = "%(asctime)s %(levelname)s %(message)s"


class _StandardError(logging.Handler):
    """One line, or several, with escapes for what a terminal acts on; to what is standard error at the time."""

    def emit(self, record: logging.LogRecord) -> None:
        if sys.stderr is not None:  # None: it was closed before Python started; print would take standard output
            print(shown(record.getMessage()), file=sys.stderr, flush=True)


class _File(logging.FileHandler):
    """A log file; its lines are those of the messages, so that none can be forged."""

    def format(self, record: logging.LogRecord) -> str:
        return shown(super().format(record))

    def handleError(self, record: logging.LogRecord) -> None:
        """A full disk is an error like any other."""
        raise


class _Warnings(logging.Handler):
    """Keeps warnings for a result that others read."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.given: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno == logging.WARNING:  # errors are said elsewhere
            self.given.append(record.getMessage().removeprefix(WARNING))


def warn(message: str) -> None:
    """Tell the user what must not be overlooked."""
    LOG.warning("%s%s", WARNING, message)


def escape_unprintable() -> None:
    """Print escapes for characters that the encoding of a standard stream lacks, and for a name's odd bytes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def shown(text: str) -> str:
    """As it is printed: escapes for what a terminal acts on. Line ends of names have been escaped before."""
    return "\n".join("\t".join(map(printable, line.split("\t"))) for line in text.split("\n"))


def shows(level: int) -> bool:
    """Whether standard error gets messages of this level."""
    return any(isinstance(handler, _StandardError) and level >= handler.level for handler in LOG.handlers)


@contextmanager
def listening(*, verbose: bool = False, quiet: bool = False, log: Path | None = None) -> Iterator[list[str]]:
    """Print messages while the context lasts, write them to a file, and collect the warnings: those so far.

    Args:
        verbose: details too.
        quiet: only warnings and errors.
        log: file to write, with all details and the time of each.

    Raises:
        OSError: the file cannot be written.
    """
    error = _StandardError(logging.DEBUG if verbose else logging.WARNING if quiet else logging.INFO)
    warnings = _Warnings()
    handlers: list[logging.Handler] = [error, warnings]
    if log is not None:
        try:
            file = _File(log, mode="w", encoding="utf-8", errors="backslashreplace")
        except OSError as unusable:
            unusable.filename = str(log)  # as the user named it
            raise
        file.setFormatter(logging.Formatter(FILE_FORMAT))
        handlers.append(file)
    before = LOG.level, LOG.propagate
    LOG.propagate = False
    LOG.setLevel(logging.DEBUG if log is not None else error.level)
    for handler in handlers:
        LOG.addHandler(handler)
    try:
        yield warnings.given
    finally:
        for handler in handlers:
            LOG.removeHandler(handler)
            handler.close()
        LOG.propagate = before[1]
        LOG.setLevel(before[0])
