# SPDX-License-Identifier: BSD-2-Clause
"""Calls that only prepare constants, and where buffers lie."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from host_tools.record.compiled.layout import (
    ALIGNMENT,
    CONSTANTS,
    GRANULARITY,
    MAGIC,
    TABLES,
    TENSORS,
    WORK,
    PlanError,
    laid_out,
)
from host_tools.record.compiled.plan import Buffer, Call, Kind, Plan, View
from trace_format.schema import PAGE_BYTES


def constant(size: int) -> Buffer:
    return Buffer(Kind.CONSTANT, size, bytes(range(size)))


def call(kernel: int, *buffers: int, writes: tuple[int, ...] = (0,)) -> Call:
    return Call(kernel, (1, 1, 1), tuple(View(at, 0, 4) for at in buffers), writes, f"call {kernel}")


BUFFERS = [
    constant(4),
    Buffer(Kind.WORK, 4),
    Buffer(Kind.WORK, 4),
    Buffer(Kind.INPUT, 4, name="x", dtype="float32", shape=(1,)),
    Buffer(Kind.OUTPUT, 4, name="y", dtype="float32", shape=(1,)),
    Buffer(Kind.WORK, 4),
]
PREPARES, PREPARES_MORE, USES, ENDS = call(0, 1, 0), call(1, 2, 1), call(2, 5, 2, 3), call(3, 4, 5)


def test_what_depends_on_constants_only_is_apart() -> None:
    first, rest = Plan(BUFFERS, list("abcd"), [PREPARES, PREPARES_MORE, USES, ENDS]).preparing()
    assert [c.name for c in first.calls] == ["call 0", "call 1"]
    assert first.kernels == ["a", "b"]
    assert [c.name for c in rest.calls] == ["call 2", "call 3"]
    assert {name for name in first.named(Kind.OUTPUT) if name.isdecimal()} == {"2"}  # 1 is on the way
    done = rest.with_constants({"2": np.frombuffer(b"abcd", np.uint8)}).trimmed()
    assert done.kernels == ["c", "d"]
    assert [buffer.data for buffer in done.buffers if buffer.kind == Kind.CONSTANT] == [b"abcd"]
    assert done.named(Kind.INPUT).keys() == {"x"}


def test_a_buffer_that_two_calls_write_is_no_constant() -> None:
    """The second may change what the first has left, and what comes between reads that."""
    first, rest = Plan(BUFFERS, list("abcd"), [PREPARES, USES, call(1, 1, 3), ENDS]).preparing()
    assert first.calls == []
    assert len(rest.calls) == 4


def test_an_output_is_written_in_every_replay() -> None:
    first, _ = Plan(BUFFERS, ["a"], [call(0, 4, 0)]).preparing()
    assert first.calls == []


def test_words_of_the_runner() -> None:
    layout = laid_out(Plan(BUFFERS, ["a", "b"], [call(0, 5, 3, 0), call(1, 4, 5)]))
    data = layout.words([b"spir", b"v..."])
    words = struct.unpack(f"<{len(data) // 4}I", data)
    assert words[:7] == (MAGIC, 3, *layout.sizes, 2, 2)
    assert layout.sizes == (ALIGNMENT, PAGE_BYTES + 2 * ALIGNMENT, ALIGNMENT)
    first, second = words[13:26], words[26:]
    assert words[7:9] == (3, 1)
    assert first[:4] == (0, 1, 1, 1)
    assert first[4:] == (WORK, 0, 4, TENSORS, PAGE_BYTES, 4, CONSTANTS, 0, 4)
    assert second[0] == 1


@pytest.mark.parametrize("size", [1, GRANULARITY - PAGE_BYTES, GRANULARITY - ALIGNMENT, GRANULARITY])
def test_tables_lie_apart(size: int) -> None:
    """What a driver puts behind a buffer object, at the next multiple of GRANULARITY, is not mapped next to it."""
    tables = [Buffer(Kind.TABLE, 4, b"rows"), Buffer(Kind.TABLE, 4, b"more")]
    layout = laid_out(
        Plan([*BUFFERS, *tables, Buffer(Kind.CONSTANT, size, bytes(size))], ["a"], [call(0, 5, 6, 8)])
    )
    assert layout.places[6:8] == [(TABLES, 0), (TABLES + 1, 0)]
    constants, _, _, first, second = layout.sizes
    assert layout.constants()[constants:][:4] == b"rows"
    assert layout.constants()[constants + first :][:4] == b"more"
    assert len(layout.constants()) == constants + first + second
    assert all(-end % GRANULARITY >= PAGE_BYTES for end in layout.sizes)


def test_tensors_in_and_out() -> None:
    layout = laid_out(Plan(BUFFERS, ["a"], [call(0, 4, 3)]))
    data = bytearray(layout.tensors({"x": np.array([2.5], np.float32)}))
    assert data.startswith(layout.mark)
    assert data[PAGE_BYTES : PAGE_BYTES + 4] == struct.pack("<f", 2.5)
    data[PAGE_BYTES + ALIGNMENT : PAGE_BYTES + ALIGNMENT + 4] = struct.pack("<f", 7)
    assert layout.results(bytes(data))["y"].tolist() == [7]
    with pytest.raises(PlanError, match="input x: expected 4 bytes, found 0"):
        layout.tensors({})


def test_what_cannot_be_bound_is_refused() -> None:
    odd = Call(0, (1, 1, 1), (View(5, 4, 4),), (0,), "odd")
    with pytest.raises(PlanError, match="kernel odd begins at byte 4 of a buffer"):
        laid_out(Plan(BUFFERS, ["a"], [odd])).words([b"spir"])
    with pytest.raises(PlanError, match="intermediate results need 2147483904 bytes"):
        laid_out(Plan([Buffer(Kind.WORK, (1 << 31) + 1)], ["a"], [call(0, 0)]))


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 5000), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=12))
def test_buffers_that_live_at_the_same_time_do_not_overlap(lives: list[tuple[int, int, int]]) -> None:
    buffers = [Buffer(Kind.WORK, size) for size, _, _ in lives]
    calls = [
        Call(0, (1, 1, 1), tuple(View(at, 0, 1) for at, (_, a, b) in enumerate(lives) if now in (a, b)), ())
        for now in range(10)
    ]
    layout = laid_out(Plan(buffers, ["a"], calls))
    for one, (size, *span) in enumerate(lives):
        for other in range(one):
            size2, *span2 = lives[other]
            together = max(min(span), min(span2)) <= min(max(span), max(span2))
            begin, begin2 = layout.places[one][1], layout.places[other][1]
            assert not together or begin + size <= begin2 or begin2 + size2 <= begin
    assert layout.sizes[WORK] <= sum(-(-size // ALIGNMENT) * ALIGNMENT for size, *_ in lives)


def test_a_plan_that_is_cut_where_a_value_lies() -> None:
    """Who makes the value writes an output, and who takes it reads an input."""
    buffers = [
        Buffer(Kind.INPUT, 4, name="x", dtype="float32", shape=(1,)),
        Buffer(Kind.WORK, 4, name="q", dtype="int8", shape=(4,)),
        Buffer(Kind.OUTPUT, 4, name="y", dtype="float32", shape=(1,)),
    ]
    first, second = (Call(0, (1, 1, 1), (View(at, 0, 4), View(at + 1, 0, 4)), (1,)) for at in (0, 1))
    made = Plan(buffers, ["kernel"], [first, second]).cut({"q": "q/computed", "lost": "lost/computed"})
    assert made.named(Kind.INPUT) == {"x": 0, "q": 1}
    assert made.named(Kind.OUTPUT) == {"y": 2, "q/computed": 3}
    assert [call.written for call in made.calls] == [{3}, {2}]
    assert [call.read for call in made.calls] == [{0}, {1}]
