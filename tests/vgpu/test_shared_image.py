# SPDX-License-Identifier: BSD-2-Clause
"""A replay whose memory shares the image's pages: what it finds, uploads and clears is as without."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from host_tools.demo import RAW
from host_tools.model.equivalence import difference
from host_tools.model.interpreter import interpreter
from host_tools.model.memory import Memory
from host_tools.passes.listing import PASSES
from host_tools.support.sheet import Sheet, sheet_of
from trace_format.actions import ACTION_DTYPE, Action, Actions, Op, action
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Trace

CARVEOUT = 128 * PAGE_BYTES
IMAGE = np.random.default_rng(2).bytes(48 * PAGE_BYTES)
FIRST = len(IMAGE)


def offsets(end: int) -> st.SearchStrategy[int]:
    """Many of them where pages begin."""
    pages = st.integers(0, end // PAGE_BYTES).map(lambda page: page * PAGE_BYTES)
    return pages | st.tuples(pages, st.integers(-40, 40)).map(sum).filter(lambda at: 0 <= at <= end)


@st.composite
def fills(draw: st.DrawFn) -> Action:
    target = draw(offsets(CARVEOUT - FIRST - 1)) + FIRST
    size = draw(st.integers(1, min(CARVEOUT - target, len(IMAGE))) | st.just(min(CARVEOUT - target, len(IMAGE))))
    if draw(st.booleans()):
        return action(Op.CLEAR, bytes=size, target=target)
    alike = (target % PAGE_BYTES) + draw(offsets(len(IMAGE) - size)) // PAGE_BYTES * PAGE_BYTES
    source = draw(st.sampled_from([alike, 0, 3]))
    return action(Op.UPLOAD, bytes=min(size, len(IMAGE) - source), target=target, source=source)


def memory_after(rows: Actions, image: bytes | memoryview, replays: int) -> bytes:
    trace = Trace("v3d42", rows, image, CARVEOUT, PAGE_BYTES)
    with interpreter(trace) as run:
        for _ in range(replays):
            run.run()
            found = run.memory[:CARVEOUT].tobytes()
            run.memory[FIRST:CARVEOUT] ^= 1  # as jobs would
    return found


@settings(max_examples=60, deadline=None)
@given(st.lists(fills(), min_size=1, max_size=6), st.integers(1, 2))
def test_uploads_and_clears_are_as_without(actions: list[Action], replays: int) -> None:
    rows = np.array(actions, ACTION_DTYPE)
    sheet = Sheet.of([IMAGE])
    assert sheet is not None
    assert memory_after(rows, memoryview(sheet), replays) == memory_after(rows, IMAGE, replays)
    assert bytes(sheet) == IMAGE


def test_an_emitted_trace_can_share_its_image(monkeypatch: pytest.MonkeyPatch) -> None:
    """LeNet's recording, after the pass that first makes a model of its memory; its uploads are small."""
    few = 4 * PAGE_BYTES
    monkeypatch.setattr("host_tools.model.interpreter.LAID_BYTES", few)
    recording = Trace.read(RAW)
    memory = Memory.of(PASSES["map-once"](recording))
    packing = memory.settle()
    plain, shared = memory.emit(packing), memory.emit(packing, to_run=True)
    assert sheet_of(shared.image) is not None
    assert len(shared.image) < len(plain.image) + 64 * PAGE_BYTES
    uploads = [row for row in map(Action.of, shared.actions) if row.op == Op.UPLOAD and row.bytes >= few]
    assert uploads
    assert all((row.target - row.source) % PAGE_BYTES == 0 for row in uploads)
    shared.check()
    assert not difference(plain, shared, {}, replays=2)
    assert Memory.of(shared).behaviour() == memory.behaviour()
