# SPDX-License-Identifier: BSD-2-Clause
"""Outputs that come while a machine runs: told one after the other, each when the next one has begun to come."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from host_tools.machine.errors import RecordError
from host_tools.runners.buffers import Buffer, Buffers
from host_tools.runners.mailbox import Layout
from host_tools.runners.replay import RunnerError
from host_tools.runners.requests import WatchedRequest
from host_tools.runners.watching import BLANK, EnoughError, followed, watched
from host_tools.support import programs
from signing.delivery import Delivery
from tests.support import replayer_samples as s
from tests.support.small_jobs import OUTPUT, slot
from trace_format.schema import SlotKind

REPLAYS, AT = 4, 64
SLOT = slot("left", SlotKind.OUTPUT, OUTPUT)


def test_each_replay_is_told_of_when_the_next_one_comes() -> None:
    values = np.arange(REPLAYS * SLOT.shape[0], dtype=SLOT.numpy_dtype).reshape(REPLAYS, -1)
    values[1] = int.from_bytes(bytes([BLANK]) * 4, "little", signed=True)  # looks like nothing
    told: list[tuple[int, bytes]] = []

    def watch(number: int, outputs: Mapping[str, bytes]) -> None:
        told.append((number, outputs["left"]))

    buffers = Buffers([Buffer(0, SLOT, np.zeros_like(values), REPLAYS)])
    request = WatchedRequest(Delivery(b""), s.KEY, repeat=REPLAYS, each=frozenset(["left"]), watch=watch)
    memory = memoryview(bytearray(AT + values.nbytes))
    step = values[0].nbytes
    with watched(request, memory, buffers, Layout(0, (AT,), len(memory))):
        for number, value in enumerate(values):
            memory[AT + number * step : AT + (number + 1) * step] = value.tobytes()
            time.sleep(0.2)
    assert [number for number, _ in told] == [0, 1, 2]
    assert [data for _, data in told] == [value.tobytes() for value in values[:3]]


def test_a_console_says_what_comes(tmp_path: Path) -> None:
    """Lines of a replay's outputs, some of them cut, between others; the last replay's is the result's."""
    told: list[tuple[int, Mapping[str, bytes]]] = []

    def watch(number: int, outputs: Mapping[str, bytes]) -> None:
        told.append((number, outputs))

    request = WatchedRequest(Delivery(b""), s.KEY, repeat=3, each=frozenset(["left", "x y"]), watch=watch)
    console = tmp_path / "console"
    with followed(request, console):
        parts = (
            b"boot\r\nreplay 0 le",
            b"ft 01ff\r\nreplay 0 x y 00\r\nreplay 1 x",
            b" y 03\nreplay 1 left 0203\n",
        )
        for part in (*parts, b"@gramophone begin x\nreplay 2 left 0000\nreplay 2 x y 00\n"):
            with console.open("ab") as file:
                file.write(part)
            time.sleep(0.15)
    assert told == [(0, {"left": b"\1\xff", "x y": b"\0"}), (1, {"left": b"\2\3", "x y": b"\3"})]


def test_what_a_console_says_is_enough(tmp_path: Path) -> None:
    """The machine is ended, and its failure is not reported."""
    request = WatchedRequest(Delivery(b""), s.KEY, repeat=9, each=frozenset(["left"]), watch=lambda *_: True)
    console = tmp_path / "console"

    def machine(request: WatchedRequest, seconds: float) -> None:
        with followed(request, console):
            console.write_bytes(b"replay 0 left 00\n")
            done = programs.run(["sleep", str(seconds)], timeout_s=50)
            raise RecordError(f"ended with status {done.returncode}")

    with pytest.raises(EnoughError):
        machine(request, 60)
    with pytest.raises(RecordError, match="ended with status 0"):
        machine(replace(request, watch=lambda *_: None), 0.2)


@pytest.mark.parametrize("fails", [False, True])
def test_a_watcher_that_has_seen_enough_ends_the_machine(fails: bool) -> None:
    """Its program is ended, whatever its status says then; without that, its failure stays what it is."""
    values = np.ones((REPLAYS, *SLOT.shape), SLOT.numpy_dtype)
    buffers = Buffers([Buffer(0, SLOT, np.zeros_like(values), REPLAYS)])
    memory = memoryview(bytearray(AT + values.nbytes))
    how: dict[str, Any] = {"repeat": REPLAYS, "each": frozenset(["left"])}

    def machine(request: WatchedRequest) -> None:
        with watched(request, memory, buffers, Layout(0, (AT,), len(memory))):
            memory[AT:] = values.tobytes()
            began = time.monotonic()
            done = programs.run(["sleep", "4"])
            assert (done.returncode == -signal.SIGTERM) == (time.monotonic() < began + 3)
            if fails:
                raise RunnerError("QEMU ended")

    with pytest.raises(EnoughError):
        machine(WatchedRequest(Delivery(b""), s.KEY, watch=lambda number, _: number == 1, **how))
    if fails:
        with pytest.raises(RunnerError, match="QEMU ended"):
            machine(WatchedRequest(Delivery(b""), s.KEY, watch=lambda number, _: False, **how))


def test_nothing_is_touched_without_a_watcher() -> None:
    request = WatchedRequest(Delivery(b""), s.KEY, each=frozenset(["left"]))
    memory = memoryview(bytearray(AT))
    with watched(request, memory, Buffers(), Layout(0, (), AT)):
        pass
    assert not any(memory)
