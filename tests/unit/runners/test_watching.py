# SPDX-License-Identifier: BSD-2-Clause
"""Outputs that come while a machine runs: told one after the other, each when the next one has begun to come."""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np

from host_tools.runners.buffers import Buffer, Buffers
from host_tools.runners.mailbox import Layout
from host_tools.runners.requests import WatchedRequest
from host_tools.runners.watching import BLANK, watched
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


def test_nothing_is_touched_without_a_watcher() -> None:
    request = WatchedRequest(Delivery(b""), s.KEY, each=frozenset(["left"]))
    memory = memoryview(bytearray(AT))
    with watched(request, memory, Buffers(), Layout(0, (), AT)):
        pass
    assert not any(memory)
