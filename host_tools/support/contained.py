# SPDX-License-Identifier: BSD-2-Clause
"""Runs a function that executes foreign code in a process of its own, in a sandbox.

The process is a fork: it has what this one has in memory, and all it can do is to answer. What it says is taken as
anybody's: the answer is read by its type (host_tools/support/plain.py), an error is one of ours with a text, and
messages are text.
"""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import json
import logging
import os
import resource
import select
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TypeVar, cast

from host_tools.support import plain, sheet
from host_tools.support.counted import INTERVAL_S, Count, ExcessError
from host_tools.support.messages import LOG
from host_tools.support.sandbox import Sandbox, confine, wanted
from trace_format.errors import GramophoneError

T = TypeVar("T")
PR_SET_PDEATHSIG = 1  # linux/prctl.h
MOST_LOGGED = 1 << 20  # bytes of a message
LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)
ANSWER, ERROR = b"a", b"e"


class ContainedError(GramophoneError):
    """The process did not answer: it crashed, ran out of memory or time, or answered what is no answer."""


class _Process:
    confined = False  # this one is in a sandbox already, and can start no other


def call(what: str, work: Callable[[], T], kind: Any, sandbox: Sandbox | None = None) -> T:
    """What `work` returns, from a process in a sandbox; from this one if it is in one, or there are to be none.

    Args:
        what: the work in words, for errors: "the virtual GPU".
        work: may read what this process has in memory. Whatever it changes is not changed here.
        kind: the type of its result, as for `plain.loads`.
        sandbox: what it may do; None: nothing besides.

    Raises:
        GramophoneError, or a built-in exception: as `work`, with the text only.
        ContainedError: there is no answer.
        SandboxError: as `sandbox.wanted`.
    """
    if _Process.confined or not wanted():
        return work()
    chosen = sandbox or Sandbox()
    answer = os.memfd_create("answer")
    sheets = [sheet.new_file() for _ in range(chosen.sheets)]
    messages, said = os.pipe()
    parent, count = os.getpid(), Count(chosen)
    try:
        with warnings.catch_warnings():
            # Python warns of forks beside threads. Ours wait for an event or a file; the child has none of them.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if not child:
            _work(work, chosen, parent, answer, said, sheets)
        os.close(said)
        said = -1
        with _ended(child) as end:
            try:
                _listen(messages, child, chosen.cpu_s, count)
            except ExcessError as error:
                raise ContainedError(f"{what} was ended: {error}") from None
            status = end()
        return cast(T, _answer(what, status, answer, kind, chosen))
    finally:
        for number in (answer, messages, said, *sheets):
            if number >= 0:
                os.close(number)


@contextlib.contextmanager
def _ended(child: int) -> Iterator[Callable[[], int]]:
    """Gives what waits for a child; at the end it is no more, whatever has happened here."""
    status: list[int] = []

    def wait() -> int:
        status.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        return status[0]

    try:
        yield wait
    finally:
        if not status:
            os.kill(child, signal.SIGKILL)
            wait()


def _listen(messages: int, child: int, seconds: float, count: Count) -> None:
    """Pass on what the child logs, until it ends.

    Raises:
        ExcessError: it takes longer than that, or more than it may have.
    """
    until, left = time.monotonic() + seconds, b""
    poll = select.poll()
    poll.register(messages, select.POLLIN)
    process = os.pidfd_open(child)
    try:
        poll.register(process, select.POLLIN)
        looked = time.monotonic()
        while True:
            ready = dict(poll.poll(INTERVAL_S * 1000))
            now = time.monotonic()
            if now >= until:
                raise ExcessError(f"it took more than {seconds} s")
            if not ready or now >= looked + INTERVAL_S:
                count.check(child)
                looked = now
            if messages not in ready:
                if ready:
                    return
                continue
            data = os.read(messages, 1 << 16)
            if not data:  # closed, by its end or before
                poll.unregister(messages)
            *lines, left = (left + data).split(b"\n")
            for line in lines:
                _log(line)
            if len(left) > MOST_LOGGED:
                left = b""
    finally:
        os.close(process)


def _log(line: bytes) -> None:
    with contextlib.suppress(ValueError, TypeError, RecursionError):  # what is no message is not shown
        level, text = json.loads(line)
        if level in LEVELS and isinstance(text, str):
            LOG.log(int(level), "%s", text)


def _answer(what: str, status: int, answer: int, kind: Any, sandbox: Sandbox) -> Any:
    size = os.fstat(answer).st_size
    if status == -signal.SIGXCPU or (status == -signal.SIGKILL and not size):
        raise ContainedError(f"{what} took more than {sandbox.cpu_s} s, or too much memory, and was ended")
    if status < 0:
        raise ContainedError(f"{what} ended with {_name(-status)}")
    if status or not 0 < size <= sandbox.written_bytes:
        raise ContainedError(f"{what} ended with status {status} and without an answer")
    with open(os.dup(answer), "rb") as file:
        file.seek(0)
        if file.read(1) == ERROR:
            raise _error(*plain.load(tuple[str, str, list[Any], dict[str, Any], str], file))
        try:
            return plain.load(kind, file)
        except plain.PlainError as error:
            raise ContainedError(f"{what} gave a wrong answer: {error}") from None


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # of real-time signals only the first and the last have names
        return f"signal {number}"


def _full_name(kind: type) -> str:
    """Two modules may have errors of one name."""
    return f"{kind.__module__}.{kind.__qualname__}"


def _error(name: str, text: str, arguments: list[Any], attributes: dict[str, Any], trace: str) -> Exception:
    """An exception of a class that is there, ours or Python's, without what its constructor would do; one of ours
    with the same text where it would not say this."""
    ours, classes = {_full_name(GramophoneError): GramophoneError}, [GramophoneError]
    while classes:
        found = classes.pop().__subclasses__()
        ours |= {_full_name(item): item for item in found}
        classes += found
    python = getattr(builtins, name.removeprefix("builtins."), None)
    kind: Any = ours.get(name) or python
    error: Exception = GramophoneError(text)
    if isinstance(kind, type) and issubclass(kind, Exception):
        with contextlib.suppress(Exception):
            same: Exception = kind.__new__(kind, *arguments)
            same.__dict__.update(attributes)
            error = same if str(same) == text else error
    error.add_note(trace)
    return error


def _work(
    work: Callable[[], Any], sandbox: Sandbox, parent: int, answer: int, said: int, sheets: list[int]
) -> NoReturn:
    """The child's part: it never returns, so that nothing of the parent's is done twice."""
    status = 1
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before that
            os._exit(status)
        _close_others(answer, said, *sheets)
        sheet.take_from(sheets)
        LOG.handlers[:] = [_Pipe(said)]
        confine(sandbox)
        _Process.confined = True
        _give(work, answer)
        status = 0
    finally:
        os._exit(status)


def _give(work: Callable[[], Any], answer: int) -> None:
    """Write the result, without another copy of it in memory, or the error in its place."""
    with open(answer, "wb", closefd=False) as file:
        try:
            value = work()
            file.write(ANSWER)
            plain.dump(value, file)
        except BaseException as error:
            file.seek(0)
            file.truncate()
            file.write(ERROR)
            plain.dump(_said(error), file)


def _said(error: BaseException) -> tuple[str, str, list[Any], dict[str, Any], str]:
    """An error as `_error` takes it."""
    if isinstance(error, MemoryError):
        text = "it needs more memory than it may have"
        return _full_name(ContainedError), text, [text], {}, ""
    if not isinstance(error, Exception):
        raise error
    attributes = {name: value for name, value in vars(error).items() if type(value) in (str, int)}
    nothing = {name: None for name, value in vars(error).items() if value is None}
    arguments = [item for item in error.args if type(item) in (str, int)]
    if isinstance(error, OSError) and error.filename:
        arguments += [str(error.filename), None, *([str(error.filename2)] if error.filename2 else [])]
    return _full_name(type(error)), str(error), arguments, attributes | nothing, traceback.format_exc()


def _close_others(*kept: int) -> None:
    """No open file is left but these: no socket, and no standard stream, which may be a terminal."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    first = 3
    for number in sorted(kept):
        os.closerange(first, number)
        first = number + 1
    os.closerange(first, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


class _Pipe(logging.Handler):
    """Sends messages to the parent, which has the handlers that show them."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def emit(self, record: logging.LogRecord) -> None:
        line = json.dumps([record.levelno, record.getMessage()]).encode() + b"\n"
        while line:
            line = line[os.write(self.number, line) :]
