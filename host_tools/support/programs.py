# SPDX-License-Identifier: BSD-2-Clause
"""Programs that commands start: none of them outlives the command, however that is ended.

Each is the leader of a process group, so that what it starts (the compilers of a make, say) ends with it. If the
command is killed and can end nothing, the kernel kills the program.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

from host_tools.support import confined
from host_tools.support.counted import INTERVAL_S, Count, ExcessError
from host_tools.support.messages import LOG
from host_tools.support.sandbox import Sandbox, wanted
from trace_format import limits

GRACE_S = 2.0  # for a program to remove its own temporary files, before it is killed
# util-linux: the kernel is told before the program starts, which Python cannot do beside threads.
_ENDS_WITH_US = (found, "--pdeathsig", "KILL", "--") if (found := shutil.which("setpriv")) else ()
SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


class Ended(BaseException):
    """This process was asked to end by SIGTERM or SIGHUP.

    Args:
        number: the signal.
    """

    def __init__(self, number: int) -> None:
        self.signal = signal.Signals(number)
        super().__init__(f"ended by {self.signal.name}")

    @property
    def exit_status(self) -> int:
        """As shells give it for a process that a signal ended."""
        return 128 + self.signal


class _State:
    """What the handler of signals must know."""

    running: set[subprocess.Popen[str]] = set()  # noqa: RUF012 - there is one state
    ended_by: int | None = None
    starting = False  # the main thread starts a program: an exception would lose it
    killer: threading.Timer | None = None


def run(
    command: Sequence[str],
    *,
    timeout_s: float | None = None,
    merged: bool = False,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
    sandbox: Sandbox | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, without input.

    Args:
        command: the program and its arguments.
        timeout_s: after which it is ended.
        merged: standard error is part of standard output.
        cwd: its folder.
        env: its environment; without it this process's.
        pass_fds: open files that it gets, by their numbers here.
        sandbox: what it may do, if it is or reads what is foreign; its time is then that of `timeout_s`, too.

    Returns:
        Exit status and what it printed, as UTF-8.

    Raises:
        subprocess.TimeoutExpired: it was ended.
        OSError: it cannot be started.
        SandboxError: as `sandbox.wanted`.
        ExcessError: it took more than its sandbox allows, and was ended.
    """
    shown = Path(command[0]).name
    if sandbox and not wanted():
        sandbox = None
    if sandbox:
        command = confined.command(sandbox, command)
    LOG.debug("running %s", shlex.join(command))
    if _ENDS_WITH_US and shutil.which(command[0]):  # of a missing one Popen says so
        command = [*_ENDS_WITH_US, *command]
    _check()
    is_main = threading.current_thread() is threading.main_thread()
    process = None
    _State.starting = _State.starting or is_main
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merged else subprocess.PIPE,
            cwd=cwd,
            env=env,
            encoding="utf-8",
            errors="replace",
            process_group=0,
            pass_fds=pass_fds,
        )
        _State.running.add(process)
        if is_main:
            _State.starting = False
        _check()  # a signal since: its handler may not have seen the program
        if sandbox:
            output, errors = _watched(process, shown, timeout_s or sandbox.cpu_s, Count(sandbox))
        else:
            output, errors = process.communicate(timeout=timeout_s)
    finally:
        if is_main:
            _State.starting = False
        if process:
            _end(process)
            _State.running.discard(process)
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def _watched(process: subprocess.Popen[str], name: str, seconds: float, count: Count) -> tuple[str, str]:
    """What a program in a sandbox prints until it ends, which is looked at meanwhile."""
    until = time.monotonic() + seconds
    while True:
        try:
            return process.communicate(timeout=INTERVAL_S)
        except subprocess.TimeoutExpired as now:
            if time.monotonic() >= until:
                raise subprocess.TimeoutExpired(now.cmd, seconds, now.output, now.stderr) from None
            try:
                count.check(process.pid)
                if sum(len(part) for part in (now.output, now.stderr) if part) > limits.PRINTED_BYTES:
                    raise ExcessError(f"it printed more than {limits.PRINTED_BYTES} bytes")
            except ExcessError as error:
                raise ExcessError(f"{name} was ended: {error}") from None


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """Within, a signal that ends this process ends its programs first, those of other threads too.

    Raises:
        Ended: by SIGTERM or SIGHUP.
        KeyboardInterrupt: by SIGINT.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread gets signals
        return
    # What is ignored stays so: nohup ignores SIGHUP.
    kept = {number: signal.getsignal(number) for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN}
    for number in kept:
        signal.signal(number, _handle)
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
        if _State.killer:  # it would end the programs of who goes on
            _State.killer.cancel()
        _State.ended_by = _State.killer = None


def _handle(number: int, _: FrameType | None) -> None:
    """The first signal ends everything; later ones do not disturb the cleaning up."""
    if _State.ended_by is not None:
        return
    _State.ended_by = number
    _signal_all(signal.SIGTERM)
    # Threads wait for their programs, and this one for the threads: nothing but a timer can go on.
    timer = threading.Timer(GRACE_S, _signal_all, [signal.SIGKILL])
    timer.daemon = True
    timer.start()
    _State.killer = timer
    if not _State.starting:
        _check()


def _check() -> None:
    """Raise what a signal asks for."""
    if _State.ended_by == signal.SIGINT:
        raise KeyboardInterrupt
    if _State.ended_by is not None:
        raise Ended(_State.ended_by)


def end_running() -> None:
    """Ask the programs that this process has started to end: who runs them finds that they did."""
    _signal_all(signal.SIGTERM)


def _signal_all(number: int) -> None:
    for process in list(_State.running):
        _signal(process, number)


def _end(process: subprocess.Popen[str]) -> None:
    """End a program with its group, and reap it; no effect on one that has ended."""
    with process:  # closes its pipes
        if process.poll() is None:
            _signal(process, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(GRACE_S)
            _signal(process, signal.SIGKILL)


def _signal(process: subprocess.Popen[str], number: int) -> None:
    """To the group, which may outlive its leader; the group's number is not given to others before it is empty."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)
