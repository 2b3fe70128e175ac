# SPDX-License-Identifier: BSD-2-Clause
"""Outputs that come while a machine runs: told one after the other, each when the next one has begun to come."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from host_tools.runners.buffers import Buffer, Buffers
from host_tools.runners.mailbox import Layout
from host_tools.runners.replay import RunnerError
from host_tools.runners.requests import WatchedRequest
from host_tools.runners.watching import BLANK, EnoughError, watched
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
