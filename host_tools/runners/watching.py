# SPDX-License-Identifier: BSD-2-Clause
"""Outputs of each replay while a machine runs: its memory is a file that this process maps, too."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from host_tools.runners.buffers import Buffer, Buffers
from host_tools.runners.mailbox import Layout
from host_tools.runners.replay import RunnerError
from host_tools.runners.requests import Watch, WatchedRequest
from host_tools.support import programs

EVERY_S = 0.05
BLANK = 0xA5  # fills the memory of what is watched
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
    done, enough = threading.Event(), threading.Event()
    arguments = (request.watch, memory, rows, request.repeat, done, enough)
    thread = threading.Thread(target=_tell, args=arguments, daemon=True)
    thread.start()
    try:
        yield
    except RunnerError:
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


def _is_over(memory: memoryview, rows: list[tuple[Buffer, int]], replay: int, replays: int) -> bool:
    later = range(replay + 1, min(replay + 1 + AHEAD, replays))
    return any(_of(memory, row, at, one).strip(bytes([BLANK])) for one in later for row, at in rows)


def _of(memory: memoryview, row: Buffer, at: int, replay: int) -> bytes:
    first = at + replay * row.nbytes
    return bytes(memory[first : first + row.nbytes])
