# SPDX-License-Identifier: BSD-2-Clause
"""Outputs of each replay while a machine runs: in its memory, a file that this process maps, too, or on a console
that it writes to.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from host_tools.machine.errors import RecordError
from host_tools.runners.buffers import Buffer, Buffers
from host_tools.runners.mailbox import Layout
from host_tools.runners.replay import RunnerError
from host_tools.runners.requests import Watch, WatchedRequest
from host_tools.support import programs
from trace_format.files import open_regular

EVERY_S = 0.05
BLANK = 0xA5  # fills the memory of what is watched
LINE = re.compile(rb"replay (\d+) (.+) ([0-9a-f]+)\r?")  # `gramophone-gpu replay --follow`
AHEAD = 8  # replays that are looked for: outputs of these bytes alone are told of with later ones


class EnoughError(Exception):
    """The watcher had seen enough, and the machine was ended."""


@contextmanager
def watched(request: WatchedRequest, memory: memoryview, buffers: Buffers, places: Layout) -> Iterator[None]:
    """Tell `request.watch` of each replay whose outputs have come, while the machine runs, the last one but at the
    end: a replay is over when the next one's outputs come.

    Args:
        request: what runs.
        memory: from the mailbox on.
        buffers, places: of it.

    Raises:
        EnoughError: `request.watch` returned True.
    """
    if request.watch is None:
        yield
        return
    rows = [
        (row, at)
        for row, at in zip(buffers.rows, places.buffers_at, strict=True)
        if row.slot.name in request.each and row.replays
    ]
    for row, at in rows:
        memory[at : at + row.data.nbytes] = bytes([BLANK]) * row.data.nbytes
    with _telling(partial(_tell, request.watch, memory, rows, request.repeat)):
        yield


@contextmanager
def followed(request: WatchedRequest, console: Path) -> Iterator[None]:
    """As `watched`, of a machine in which `gramophone-gpu replay --follow` prints to the console.

    Raises:
        EnoughError: `request.watch` returned True.
    """
    if request.watch is None:
        yield
        return
    console.touch()
    with _telling(partial(_tell_lines, request, console)):
        yield


@contextmanager
def _telling(tell: Callable[[threading.Event, threading.Event], None]) -> Iterator[None]:
    """Have another thread tell what comes, until the machine is done; EnoughError: it has ended the machine."""
    done, enough = threading.Event(), threading.Event()
    thread = threading.Thread(target=tell, args=(done, enough), daemon=True)
    thread.start()
    try:
        yield
    except (RunnerError, RecordError):
        if not enough.is_set():  # else the machine was ended
            raise
    finally:
        done.set()
        thread.join()
    if enough.is_set():
        raise EnoughError


def _tell(
    watch: Watch,
    memory: memoryview,
    rows: list[tuple[Buffer, int]],
    replays: int,
    done: threading.Event,
    enough: threading.Event,
) -> None:
    told = 0
    while told < replays - 1:
        if _is_over(memory, rows, told, replays):
            if watch(told, {row.slot.name: _of(memory, row, at, told) for row, at in rows}):
                enough.set()
                programs.end_running()
                return
            told += 1
        elif done.wait(EVERY_S) and not _is_over(memory, rows, told, replays):
            return


def _tell_lines(request: WatchedRequest, console: Path, done: threading.Event, enough: threading.Event) -> None:
    assert request.watch is not None
    outputs, rest = dict[str, bytes](), b""
    with open_regular(console) as file:
        while True:
            is_last = done.wait(EVERY_S)
            *lines, rest = (rest + file.read()).split(b"\n")
            for found in filter(None, map(LINE.fullmatch, lines)):
                outputs[found[2].decode("utf-8", "replace")] = bytes.fromhex(found[3].decode())
                number = int(found[1])
                if number == request.repeat - 1:
                    return
                if len(outputs) < len(request.each):
                    continue
                if request.watch(number, outputs):
                    enough.set()
                    programs.end_running()
                    return
                outputs = {}
            if is_last:
                return


def _is_over(memory: memoryview, rows: list[tuple[Buffer, int]], replay: int, replays: int) -> bool:
    later = range(replay + 1, min(replay + 1 + AHEAD, replays))
    return any(_of(memory, row, at, one).strip(bytes([BLANK])) for one in later for row, at in rows)


def _of(memory: memoryview, row: Buffer, at: int, replay: int) -> bytes:
    first = at + replay * row.nbytes
    return bytes(memory[first : first + row.nbytes])
