# SPDX-License-Identifier: BSD-2-Clause
"""Streams made straight: what they were told by memory stands in them, and a replay leaves the same memory."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from numpy.typing import NDArray

from host_tools.gpus.mali_csf.conversion import STREAMS_VA
from host_tools.gpus.mali_csf.instructions import Code, instruction, packed
from host_tools.gpus.mali_csf.judging import is_straight
from host_tools.gpus.mali_csf.page_tables import SPACE
from host_tools.gpus.mali_csf.straight import STRAIGHT, straighten
from host_tools.gpus.mali_csf.walk import StreamError
from host_tools.model.interpreter import interpreter
from host_tools.passes.pipeline import build
from tests.support.valhall_bench import END, GLOBAL_ID, U1, WAIT, encode
from trace_format.actions import MAP_EXECUTE, MAP_READ, MAP_WRITE, Action, Op, action, actions_of, array_of
from trace_format.errors import TraceError
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Trace

CODE, DATA = 0x0200_0000, 0x0210_0000
SHADER, UNIFORMS, TABLES, BUFFERS, THREADS, OUTPUT, COUNTER = (DATA + 0x200 * n for n in range(7))
STORAGE_POINTER, CONTEXT = THREADS + 8, COUNTER + 0x20
ADDED = 5
# Stores for each thread: the word at OUTPUT with its number added.
PROGRAM = [
    encode("SHADDX.u64", (U1, GLOBAL_ID), 4, shift=2, part1=8),
    encode("LOAD.i32", (4,), 0, count=1, unsigned=1, flow=WAIT),
    encode("IADD_IMM.i32", (0,), 0, constant=ADDED),
    encode("STORE.i32", (4,), 0, count=1, flow=END),
]


def move(to: int, value: int) -> int:
    return instruction(Code.MOVE, to=to, low=value)


def moved(code: Code, va: int, register: int) -> list[int]:
    """A load or a store of two words."""
    return [move(60, va), instruction(code, to=register, a=60, low=3 << 16)]


def dispatch() -> list[int]:
    """A dispatch whose stream copies a pointer into its thread storage first, and counts in memory."""
    pairs = {0: TABLES, 16: SHADER, 24: THREADS, 38: 1 << 32 | 1}
    stream = [move(to, value) for to, value in pairs.items()]
    stream += [
        instruction(Code.MOVE32, to=at, low=v) for at, v in ((8, UNIFORMS), (9, 2 << 24), (33, 15), (37, 1))
    ]
    stream += [*moved(Code.LOAD, CONTEXT, 62), *moved(Code.STORE, STORAGE_POINTER, 62)]
    stream += [*moved(Code.LOAD, COUNTER, 64), instruction(Code.ADD64, to=64, a=64, low=1)]
    stream += [*moved(Code.STORE, COUNTER, 64), instruction(Code.BRANCH, a=64, low=2 << 28 | 1)]
    return [*stream, instruction(Code.RUN_COMPUTE, low=1), instruction(Code.NOP)]


def recording(*streams: list[int]) -> Trace:
    """A raw trace: memory with a program and its descriptors, and a job for each stream."""
    memory = np.zeros(PAGE_BYTES, np.uint8)

    def put(va: int, data: bytes) -> None:
        memory[va - DATA :][: len(data)] = np.frombuffer(data, np.uint8)

    put(SHADER, struct.pack("<IIQ", 8 | 1 << 4, 0xFF << 7, CODE))
    put(UNIFORMS, struct.pack("<QQ", 0, OUTPUT))
    put(THREADS, struct.pack("<II", 0, 31))
    put(CONTEXT, struct.pack("<Q", 0x1000_0000_0123_4500))  # packed: a mode in 63:60
    joined = b"".join(packed(stream) for stream in streams)
    code = packed(PROGRAM)
    image = code + bytes(PAGE_BYTES - len(code)) + memory.tobytes() + joined
    pages = -(-len(joined) // PAGE_BYTES)
    first = 2 + pages  # of the carve-out after the image
    maps = [(CODE, 0, 1, MAP_READ | MAP_EXECUTE), (DATA, first, 1, MAP_READ | MAP_WRITE)]
    maps.append((STREAMS_VA, 2, pages, MAP_READ))
    rows: list[Action] = [action(Op.SET_GPU_PGTABLE, address_space=SPACE)]
    for va, frame, count, flags in maps:
        where = {"address_space": SPACE, "va_page": va // PAGE_BYTES, "pages": count, "frame": frame}
        rows.append(action(Op.MAP_GPU_MEM, flags=flags, **where))
    rows += [
        action(Op.REPLAY_START),
        action(Op.UPLOAD, bytes=PAGE_BYTES, source=PAGE_BYTES, target=first * PAGE_BYTES),
    ]
    at = STREAMS_VA
    for number, stream in enumerate(streams):
        call = {"address_space": SPACE, "stream": at, "instructions": len(stream), "timeout_us": 1000}
        rows += [action(Op.JOB, number=number), action(Op.RUN_STREAM, **call)]
        at += 8 * len(stream)
    size = (first + 1) * PAGE_BYTES
    made = Trace("mali_g610", array_of(rows), image, size, 1 << 48, meta={"name": "straight"}, raw=True)
    return Trace.parse(made.build())


def left(trace: Trace) -> NDArray[np.uint32]:
    """The words of the data page after two replays."""
    with interpreter(trace) as run:
        run.run()
        run.run()
        at = run.tables.translate(SPACE, DATA)
        return run.memory[at : at + PAGE_BYTES].view("<u4").copy()


def streams_in(trace: Trace) -> list[list[int]]:
    """The instructions of all jobs."""
    mapped = next(r for r in actions_of(trace.actions) if r.op == Op.MAP_GPU_MEM and r.va_page == STREAMS_VA >> 12)
    calls = [row for row in actions_of(trace.actions) if row.op == Op.RUN_STREAM]
    starts = [mapped.frame * PAGE_BYTES + row.stream - STREAMS_VA for row in calls]
    return [
        np.frombuffer(trace.image, "<u8", row.instructions, start).tolist()
        for row, start in zip(calls, starts, strict=True)
    ]


def test_a_replay_leaves_what_the_recording_left() -> None:
    idle = [*moved(Code.LOAD, COUNTER, 64), *moved(Code.STORE, COUNTER + 8, 64)]
    raw = recording(idle, dispatch(), [*dispatch(), *dispatch()])
    found = straighten(raw)
    before, after = left(raw), left(found.trace)
    differs = {DATA + 4 * int(at) for at in np.flatnonzero(before != after)}
    assert before[(OUTPUT - DATA) // 4 :][:17].tolist() == [3 * ADDED] * 16 + [0]
    assert differs == {COUNTER}
    assert found.left_out == {COUNTER, COUNTER + 4, COUNTER + 8, COUNTER + 12}
    assert (found.trace.jobs, found.folded) == (2, 4)
    assert [sum(word >> 56 == Code.RUN_COMPUTE for word in stream) for stream in streams_in(found.trace)] == [1, 2]


def test_streams_are_of_seven_instructions() -> None:
    found = straighten(recording(dispatch()))
    (stream,) = streams_in(found.trace)
    assert {Code(word >> 56) for word in stream} <= STRAIGHT
    assert all(word >> 48 & 0xFF < 92 for word in stream if word >> 56 in (Code.MOVE, Code.MOVE32))
    assert len(stream) == found.after < found.before + 30
    again = straighten(found.trace)
    assert streams_in(again.trace) == [stream]


def refused(stream: list[int]) -> str:
    with pytest.raises(StreamError) as error:
        straighten(recording(stream))
    return str(error.value)


def test_a_load_of_what_a_dispatch_wrote() -> None:
    """Its instruction is named, whether the dispatch was of this job or of one before."""
    stream = [*dispatch(), *moved(Code.LOAD, OUTPUT, 70)]
    place = STREAMS_VA + 8 * (len(stream) - 1)
    what = f"at GPU address {place:#x}: a load of the word at {OUTPUT:#x}, which a dispatch wrote"
    assert f"command stream of job 0, {what}" in refused(stream)
    with pytest.raises(StreamError, match=r"job 1, .*which a dispatch wrote"):
        straighten(recording(dispatch(), moved(Code.LOAD, OUTPUT, 70)))


def test_descriptors_that_change_between_dispatches() -> None:
    change = [move(62, 0x1000_0123_4600), *moved(Code.STORE, CONTEXT, 62)]
    text = refused([*dispatch(), *change, *dispatch()])
    assert f"the descriptor's word at {STORAGE_POINTER:#x} changes between dispatches" in text


def test_a_descriptor_that_is_not_mapped() -> None:
    assert f"an access to {0x0300_0000:#x}, which is not mapped" in refused(
        [*dispatch()[:-2], move(16, 0x0300_0000), instruction(Code.RUN_COMPUTE, low=1)]
    )


def test_what_is_built_is_straight_and_does_the_same() -> None:
    raw = recording([*moved(Code.LOAD, COUNTER, 64)], dispatch(), dispatch())
    built = build(raw, skip=("relocate",))
    assert is_straight(built)
    assert not is_straight(raw)
    at = (OUTPUT - DATA) // 4
    assert left(built)[at:][:16].tolist() == left(raw)[at:][:16].tolist() == [2 * ADDED] * 16


def test_what_is_not_straight_is_not_built() -> None:
    with pytest.raises(TraceError, match=r"job 0: at GPU address 0x1000000: .*a device refuses it"):
        build(recording(dispatch()), skip=("straight-streams",))


def test_memory_that_is_mapped_twice() -> None:
    """A ring of a driver's, which no dispatch reads, is left out; one that a dispatch reads stays."""
    raw = recording(dispatch())
    again = action(Op.MAP_GPU_MEM, flags=MAP_READ, address_space=SPACE, va_page=0x300, pages=1, frame=4)
    rows = list(actions_of(raw.actions))
    twice = raw.with_(actions=array_of([*rows[:1], again, again.with_(va_page=0x301), *rows[1:]]))
    twice = twice.with_(carveout_bytes=max(raw.carveout_bytes, 5 * PAGE_BYTES))
    mapped = {row.va_page for row in actions_of(straighten(twice).trace.actions) if row.op == Op.MAP_GPU_MEM}
    assert not mapped & {0x300, 0x301}
    assert {CODE // PAGE_BYTES, DATA // PAGE_BYTES} < mapped
