# SPDX-License-Identifier: BSD-2-Clause
"""Accesses of a recording's jobs: seen once where the code proves them, elsewhere in a second replay too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from host_tools.accesses import observe
from host_tools.accesses.observe import Observation
from host_tools.accesses.proof import commands_of
from host_tools.model.memory import Memory
from host_tools.vgpu.binding import ACCESS_COMMAND, VirtualGpu
from tests.support.networks import COMMITTED
from tests.support.observation import before_observation
from trace_format.schema import PAGE_BYTES, DType, SlotKind
from trace_format.trace import Trace

JOBS = 14  # of LeNet
SPILLING = {"v3d42": 1, "v3d71": 3}  # the last job that is not proved


def recording(gpu: str) -> Trace:
    """As `build` looks at it."""
    return before_observation(Trace.read(COMMITTED[gpu])).trace()


@pytest.fixture
def replays(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Jobs of each replay from now on."""
    found: list[int] = []
    close = observe._Watch.close

    def counted(run: Any) -> None:
        found.append(run.gpu.counters().jobs)
        close(run)

    monkeypatch.setattr(observe._Watch, "close", counted)
    return found


def without_commands(observation: Observation) -> Mapping[int, bytes]:
    return {frame: (flags & ~np.uint8(ACCESS_COMMAND)).tobytes() for frame, flags in observation.access.items()}


def test_the_second_replay_ends_with_the_last_job_that_is_not_proved(replays: list[int]) -> None:
    assert not observe.observe(recording("v3d42")).depends_on_data
    assert replays == [JOBS, SPILLING["v3d42"] + 1]


@pytest.mark.parametrize("gpu", ["v3d42", "v3d71"])
def test_what_is_proved_is_what_two_whole_replays_show(
    gpu: str, replays: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = observe.observe(recording(gpu))
    replays.clear()
    monkeypatch.setattr(VirtualGpu, "access_varies", True)
    expected = observe.observe(recording(gpu))
    assert replays == [JOBS, JOBS]
    assert without_commands(found) == without_commands(expected)
    assert found.depends_on_data == expected.depends_on_data


def test_a_whole_number_may_be_an_index() -> None:
    """Two replays with small ones agree; others may reach the rest of a table, on pages that no job touched."""
    trace = recording("v3d71")
    whole = [replace(slot, dtype=DType.INT32) if slot.kind == SlotKind.INPUT else slot for slot in trace.slots]
    first = observe.watched(trace.with_(slots=whole))
    assert SPILLING["v3d71"] in first.open
    found = observe.judged(trace.with_(slots=whole), first)
    assert found.depends_on_data
    mappings = Memory.of(trace).mappings
    frames = dict(zip(mappings.pages.tolist(), mappings.frames.tolist(), strict=True))
    untouched = 0
    for page, frame in frames.items():
        if frame in first.jobs[SPILLING["v3d71"]].accesses and page + 1 in frames:
            assert found.needed(frames[page + 1]).all()
            untouched += frames[page + 1] not in first.union
    assert untouched


def test_a_slot_may_hold_what_decides() -> None:
    """An input over a proved job's uniforms or code: what a caller gives could decide anything."""
    trace = recording("v3d42")
    seen = observe.watched(trace)
    assert not seen.changes_commands
    commands = commands_of(seen.jobs)
    frame = min(commands)
    address = (
        next(va for (_, va), mapped in Memory.of(trace).mappings.items() if mapped.frame == frame) * PAGE_BYTES
    )
    address += int(np.argmax(commands[frame]))
    over = [replace(s, address=address) if s.kind == SlotKind.INPUT else s for s in trace.slots]
    assert observe.watched(trace.with_(slots=over)).changes_commands
