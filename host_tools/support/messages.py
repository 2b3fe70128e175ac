# SPDX-License-Identifier: BSD-2-Clause
"""What a program says besides its result: messages on standard error, all of them in a log file.

Everything below the commands logs to `LOG` and does not know who listens. On standard error: warnings and errors
always, notes and progress (INFO) unless quiet, details (DEBUG) if verbose. Standard library only: devices use it.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trace_format.errors import printable

LOG = logging.getLogger("gramophone")
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


def shown(text: str) -> str:
    """As it is printed: escapes for what a terminal acts on. Line ends of names have been escaped before."""
    return "\n".join("\t".join(map(printable, line.split("\t"))) for line in text.split("\n"))


def shows(level: int) -> bool:
    """Whether standard error gets messages of this level."""
    return any(isinstance(handler, _StandardError) and level >= handler.level for handler in LOG.handlers)


@contextmanager
def listening(*, verbose: bool = False, quiet: bool = False, log: Path | None = None) -> Iterator[None]:
    """Print messages while the context lasts, and write them to a file.

    Args:
        verbose: details too.
        quiet: only warnings and errors.
        log: file to write, with all details and the time of each.

    Raises:
        OSError: the file cannot be written.
    """
    error = _StandardError(logging.DEBUG if verbose else logging.WARNING if quiet else logging.INFO)
    handlers: list[logging.Handler] = [error]
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
        yield
    finally:
        for handler in handlers:
            LOG.removeHandler(handler)
            handler.close()
        LOG.propagate = before[1]
        LOG.setLevel(before[0])
