# SPDX-License-Identifier: BSD-2-Clause
"""The memory model that passes work on: whatever a trace says of memory, its model says the same."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from host_tools.model.frames import Page, runs
from host_tools.model.interpreter import interpreter
from host_tools.model.memory import Conflict, Memory
from host_tools.passes.listing import PASSES
from host_tools.passes.parameters import bind
from host_tools.passes.program import Program
from tests.support.visible import visible
from trace_format.actions import ACTION_DTYPE, MAP_READ, MAP_WRITE, Action, Actions, Columns, Op, action
from trace_format.schema import PAGE_BYTES, DType, SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace

FRAMES = 12
BASE = 64  # first frame after the image
IMAGE_BYTES = 4 * PAGE_BYTES


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Traces that map pages, fill them before the first job, and write some of them between jobs."""
    frames = draw(st.lists(st.integers(0, FRAMES - 1), min_size=1, max_size=8, unique=True))
    pages = draw(st.lists(st.integers(1, 40), min_size=len(frames), max_size=len(frames), unique=True))
    rows = [
        action(
            Op.MAP_GPU_MEM,
            flags=draw(st.sampled_from([MAP_READ, MAP_READ | MAP_WRITE])),
            va_page=p,
            pages=1,
            frame=BASE + f,
        )
        for f, p in zip(frames, pages, strict=True)
    ]  # fmt: skip
    rows += [action(Op.SET_GPU_PGTABLE), action(Op.REPLAY_START)]
    rows += draw(st.lists(_fill(frames), max_size=10))
    for job in range(draw(st.integers(1, 3))):
        rows.append(action(Op.JOB, number=job))
        rows += draw(st.lists(_fill(frames), max_size=3))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    image = generator.integers(0, 256, IMAGE_BYTES, np.uint8)
    image[: draw(st.integers(0, IMAGE_BYTES))] = 0
    return Trace(
        "v3d42",
        np.array(rows, ACTION_DTYPE),
        image.tobytes(),
        (BASE + FRAMES) * PAGE_BYTES,
        1 << 20,
    )


@st.composite
def _fill(draw: st.DrawFn, frames: list[int]) -> Action:
    """An UPLOAD or CLEAR inside one page."""
    start = draw(st.integers(0, PAGE_BYTES - 1))
    size = draw(st.integers(1, PAGE_BYTES - start))
    to = (BASE + draw(st.sampled_from(frames))) * PAGE_BYTES + start
    if draw(st.booleans()):
        return action(Op.CLEAR, bytes=size, target=to)
    return action(Op.UPLOAD, bytes=size, target=to, source=draw(st.integers(0, IMAGE_BYTES - size)))


def _visible(trace: Trace, replays: int = 1) -> dict[tuple[int, int], bytes]:
    """GPU-visible memory after some replays, where the trace says what it is."""
    with interpreter(trace) as run:
        for _ in range(replays):
            run.run()
        return visible(run)


@settings(max_examples=60)
@given(traces())
def test_a_trace_and_its_model_say_the_same(trace: Trace) -> None:
    emitted = Memory.of(trace).emit()
    emitted.check()
    assert _visible(emitted, replays=2) == _visible(trace)


@settings(max_examples=60)
@given(traces())
def test_emitting_twice_changes_nothing(trace: Trace) -> None:
    once = Memory.of(trace).emit()
    twice = Memory.of(once).emit()
    assert np.array_equal(once.actions, twice.actions)
    assert once.image == twice.image


@settings(max_examples=40)
@given(traces())
def test_sharing_and_relocating_keep_what_is_initialised(trace: Trace) -> None:
    """Bytes that the trace never initialises may hold anything; all others are as before."""
    moved = PASSES["relocate"](PASSES["duplicate-pages"](trace))
    moved.check()
    before, after = _visible(trace), _visible(moved)
    memory = Memory.of(trace)
    assert before.keys() == after.keys()
    cpu_writes = memory.cpu_written_frames()
    for key, mapping in memory.mappings.items():
        known = memory.pages[mapping.frame].live | (mapping.frame in cpu_writes)
        one, two = (np.frombuffer(x[key], np.uint8) for x in (before, after))
        if mapping.frame not in cpu_writes:
            assert np.array_equal(one[known], two[known])
    assert moved.carveout_bytes <= trace.carveout_bytes


@given(st.lists(st.booleans(), max_size=60), st.integers(1, 5))
def test_runs_cover_what_they_must_and_little_more(mask: list[bool], gap: int) -> None:
    array = np.array(mask, np.bool_)
    found = runs(array, gap)
    covered = np.zeros(len(array), np.bool_)
    for start, end in found:
        assert array[start]
        assert array[end - 1]
        covered[start:end] = True
    assert (covered | ~array).all()
    for (_, end), (start, _) in itertools.pairwise(found):
        assert start - end >= gap


def test_a_page_mapped_twice_is_a_conflict_and_passes_leave_such_a_trace() -> None:
    rows = [
        action(Op.MAP_GPU_MEM, flags=MAP_READ, pages=1, frame=BASE, address_space=0, va_page=1),
        action(Op.SET_GPU_PGTABLE),
        action(Op.REPLAY_START),
        action(Op.JOB, number=0),
        action(Op.MAP_GPU_MEM, flags=MAP_READ, pages=1, frame=BASE + 1, address_space=0, va_page=1),
        action(Op.JOB, number=1),
    ]
    trace = Trace("v3d42", np.array(rows, ACTION_DTYPE), b"", (BASE + 2) * PAGE_BYTES, 1 << 20)
    with pytest.raises(Conflict):
        Memory.of(trace)
    for name in ("map-once", "read-only", "dead-memory", "duplicate-pages", "relocate", "trim-address-space"):
        program = Program(trace)  # what the second job finds in its page is not said
        assert PASSES[name].edit(program) == "virtual page 0x1 of address space 0 is mapped twice"
        assert program.trace() is trace


def test_a_value_bound_to_a_parameter_leaves_all_other_memory_as_it_is() -> None:
    """The image grows by the value, over the frames right after it; they must make room."""
    generator = np.random.default_rng(1)
    image = generator.integers(0, 256, IMAGE_BYTES, np.uint8)
    first, pages = IMAGE_BYTES // PAGE_BYTES, 9
    rows = [
        action(Op.MAP_GPU_MEM, flags=MAP_READ | MAP_WRITE, pages=pages, frame=first, address_space=0, va_page=1),
        action(Op.SET_GPU_PGTABLE),
        action(Op.REPLAY_START),
        action(Op.UPLOAD, bytes=IMAGE_BYTES, target=first * PAGE_BYTES, source=0),
        action(Op.JOB, number=0),
        action(Op.UPLOAD, bytes=8, target=(first + 1) * PAGE_BYTES, source=0),
    ]
    values = generator.standard_normal(4500).astype(np.float32)
    slot = Slot("w", SlotKind.PARAMETER, DType.FLOAT32, values.shape, (4,), 5 * PAGE_BYTES)
    trace = Trace(
        "v3d42",
        np.array(rows, ACTION_DTYPE),
        image.tobytes(),
        (first + pages) * PAGE_BYTES,
        1 << 20,
        slots=[slot],
    )
    bound = bind(trace, {"w": values})
    bound.check()
    before, after = _visible(trace), _visible(bound, replays=2)
    assert before.keys() == after.keys()
    weights = b"".join(after[key] for key in sorted(after))[4 * PAGE_BYTES :]
    assert weights[: values.nbytes] == values.tobytes()
    for (space, page), content in before.items():
        if page < slot.address // PAGE_BYTES:
            assert after[space, page] == content
    for name in ("map-once", "duplicate-pages", "relocate"):
        bound = PASSES[name](bound)
        assert _visible(bound) == after


@given(traces())
def test_a_settled_model_is_the_one_that_is_read_again(trace: Trace) -> None:
    """Passes one after the other on one program find what they would find in a trace that was written and read."""
    program = Program(trace)
    program.commit()
    settled, again = program.memory, Memory.of(program.trace())
    assert settled.mappings == again.mappings
    assert list(settled.pages) == list(again.pages)
    for frame, page in settled.pages.items():
        other = again.pages[frame]
        assert (page.frame, page.in_image, page.is_blank) == (frame, other.in_image, other.is_blank)
        assert np.array_equal(page.live, other.live)
        assert np.array_equal(page.content, other.content)
    assert settled.cpu_writes == again.cpu_writes
    assert settled.prologue.tolist() == again.prologue.tolist()
    assert settled.stream.tolist() == again.stream.tolist()
    assert settled.carveout_bytes == again.carveout_bytes
    assert settled.behaviour() == again.behaviour()


@given(traces())
def test_sizes_are_those_of_the_trace_that_is_written(trace: Trace) -> None:
    program = Program(trace)
    assert program.sizes() == Program(program.trace()).sizes()
    program.commit()
    assert program.sizes() == Program(program.trace()).sizes()
    PASSES["relocate"].edit(program)
    assert program.sizes() == Program(program.trace()).sizes()


@given(traces())
def test_actions_dropped_from_a_model_are_those_dropped_from_its_trace(trace: Trace) -> None:
    def doubles(rows: Actions) -> NDArray[np.bool_]:
        """Jobs that follow another one directly: an action on memory between them makes a difference."""
        jobs = Columns(rows).is_op(Op.JOB)
        return jobs & np.concatenate(([False], jobs[:-1]))[: len(jobs)]

    program, plain = Program(trace), Program(Memory.of(trace).emit())
    program.commit()
    program.drop(doubles)
    plain.drop(doubles)
    assert program.trace().actions.tolist() == plain.trace().actions.tolist()
    assert program.trace().image == plain.trace().image


def test_zeros_are_the_same_in_one_piece_and_in_two() -> None:
    one, two = Page.blank(0), Page.blank(0)
    one.put(slice(0, PAGE_BYTES), 0)
    two.put(slice(0, 100), 0)
    two.put(slice(100, PAGE_BYTES), 0)
    assert one.digest() == two.digest() != Page.blank(0).digest()
