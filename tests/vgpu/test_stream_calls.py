# SPDX-License-Identifier: BSD-2-Clause
"""Calls of command streams: as the interpreter makes them, from action to memory."""

from __future__ import annotations

import pytest

from host_tools.families.page_tables import DivergenceError
from host_tools.gpus.mali_csf.instructions import Code, instruction, packed
from host_tools.model.interpreter import interpreter
from trace_format.actions import MAP_READ, MAP_WRITE, Action, Op, action, array_of
from trace_format.errors import ActionError
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Trace

STREAM, WORDS, SPACE = 0x0100_0000, 0x0200_0000, 0
MOVE, MOVE32, STORE = Code.MOVE, Code.MOVE32, Code.STORE


def stored(value: int, register: int = 42) -> list[int]:
    """Instructions that store a word."""
    return [
        instruction(MOVE, to=40, low=WORDS),
        instruction(MOVE32, to=register, low=value),
        instruction(STORE, to=register, a=40, low=1 << 16),
    ]


def call(number: int, count: int, at: int = STREAM, **changes: int) -> list[Action]:
    """A job of a stream."""
    operands = {"address_space": SPACE, "stream": at, "instructions": count, "timeout_us": 1000} | changes
    return [action(Op.JOB, number=number), action(Op.RUN_STREAM, **operands)]


def trace(stream: list[int], *jobs: Action) -> Trace:
    """The stream in the image's first page, and a page of words in the next one."""
    maps = ((STREAM, 0, MAP_READ), (WORDS, 1, MAP_READ | MAP_WRITE))
    rows = [action(Op.SET_GPU_PGTABLE, address_space=SPACE)]
    for va, frame, flags in maps:
        where = {"address_space": SPACE, "va_page": va // PAGE_BYTES, "pages": 1, "frame": frame}
        rows.append(action(Op.MAP_GPU_MEM, flags=flags, **where))
    made = Trace(
        gpu="mali_g610",
        actions=array_of([*rows, action(Op.REPLAY_START), *jobs]),
        image=packed(stream),
        carveout_bytes=2 * PAGE_BYTES,
        va_bytes=1 << 48,
        meta={"name": "calls"},
        raw=True,
    )
    made.check()
    return made


def test_a_call_runs_and_registers_stay() -> None:
    """The second call stores what the first left in a register, to another place."""
    again = [instruction(MOVE, to=40, low=WORDS + 8), instruction(STORE, to=42, a=40, low=1 << 16)]
    stream = [*stored(7), *again]
    with interpreter(trace(stream, *call(0, 3), *call(1, 2, STREAM + 3 * 8))) as run:
        run.run()
        words = run.memory[PAGE_BYTES:][:12].view("<u4")
        assert words.tolist() == [7, 0, 7]
        run.memory[PAGE_BYTES:][:12] = 0
        run.run()
        assert words.tolist() == [7, 0, 7]
        assert run.gpu.counters().jobs == 4


def test_a_ring_goes_round() -> None:
    """200 calls of three instructions in the ring are more than its page."""
    rows = [row for number in range(200) for row in call(number, 3)]
    with interpreter(trace(stored(9), *rows)) as run:
        run.run()
        assert run.gpu.counters().jobs == 200


def test_a_stream_that_waits_is_no_job() -> None:
    waiting = [
        instruction(MOVE, to=40, low=WORDS),
        instruction(MOVE, to=42, low=1),
        instruction(Code.SYNC_WAIT64, a=40, b=42, low=1 << 28),
    ]
    with interpreter(trace(waiting, *call(0, 3))) as run, pytest.raises(DivergenceError, match="has not ended"):
        run.run()


def test_an_address_that_is_not_mapped() -> None:
    with (
        interpreter(trace(stored(1), *call(0, 1, WORDS + PAGE_BYTES))) as run,
        pytest.raises(DivergenceError, match=r"action 5 \(RunStream\).*not mapped"),
    ):
        run.run()


def test_another_gpu_has_no_streams() -> None:
    made = trace(stored(1), *call(0, 3)).with_(gpu="mali_g71")
    with interpreter(made) as run, pytest.raises(DivergenceError, match="a Arm Mali G71 has no command streams"):
        run.run()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stream": STREAM + 4}, "not at a multiple of 8"),
        ({"stream": (1 << 48) - 8, "instructions": 2}, "stream outside va_bytes"),
        ({"instructions": 0}, "no instructions"),
        ({"timeout_us": 0}, "timeout is zero"),
        ({"address_space": 8}, "no such address space"),
    ],
)
def test_a_malformed_call(changes: dict[str, int], message: str) -> None:
    with pytest.raises(ActionError, match=message):
        trace(stored(1), *call(0, 3, **changes))
