# SPDX-License-Identifier: BSD-2-Clause
"""Command streams as the conversion interprets them: what instructions do, what is refused, and where."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from host_tools.gpus.mali_csf.instructions import Code, instruction
from host_tools.gpus.mali_csf.walk import FIELDS, MAX_INSTRUCTIONS, StreamError, Walk

STREAM, OTHER, WORDS = 0x1000_0000, 0x1100_0000, 0x2000_0000
JOB = 3
RUN = instruction(Code.RUN_COMPUTE)
ALWAYS, EQUAL = 6 << 28, 2 << 28


def move(register: int, value: int) -> int:
    return instruction(Code.MOVE, to=register, low=value)


def move32(register: int, value: int) -> int:
    return instruction(Code.MOVE32, to=register, low=value & 0xFFFFFFFF)


def words_of(stream: Sequence[int], at: int) -> dict[int, int]:
    """A stream as words of memory."""
    return {
        at + 8 * i + 4 * half: word >> 32 * half & 0xFFFFFFFF for i, word in enumerate(stream) for half in (0, 1)
    }


def walked(stream: Sequence[int], *, other: Sequence[int] = (), **memory: int) -> tuple[Walk, list[list[int]]]:
    """A stream, one that it may call, words from WORDS on by `w0`, `w4`; registers of each dispatch."""
    found = words_of(stream, STREAM) | words_of(other, OTHER)
    found |= {WORDS + int(name[1:]): value for name, value in memory.items()}
    dispatches: list[list[int]] = []
    walk = Walk(JOB, found.get, {})
    walk.run(STREAM, 8 * len(stream), lambda _, registers: dispatches.append([*registers]))
    return walk, dispatches


def test_moves_and_sums() -> None:
    stream = [
        move(10, 0xABCD_1234_5678),
        move32(12, -5),
        instruction(Code.ADD32, to=13, a=12, low=7),
        instruction(Code.ADD64, to=14, a=10, low=0xFFFFFFFF),
        instruction(Code.UMIN32, to=16, a=12, b=13),
        RUN,
    ]
    registers = walked(stream)[1][0]
    assert registers[10:17] == [0x1234_5678, 0xABCD, 0xFFFFFFFB, 2, 0x1234_5677, 0xABCD, 2]


def test_a_loop_that_counts_in_memory() -> None:
    """A counter of a driver: loaded, changed, stored, until it is 0."""
    stream = [
        move(20, WORDS),
        instruction(Code.LOAD, to=30, a=20, low=1 << 16 | 4),
        instruction(Code.ADD32, to=30, a=30, low=0xFFFFFFFF),
        instruction(Code.STORE, to=30, a=20, low=1 << 16 | 4),
        RUN,
        instruction(Code.BRANCH, a=30, low=1 << 28 | 0x10000 - 5 & 0xFFFF),
    ]
    walk, dispatches = walked(stream, w0=0, w4=3)
    assert [registers[30] for registers in dispatches] == [2, 1, 0]
    assert walk.stored == {WORDS + 4: 0}
    assert walk.loads == {WORDS + 4: (STREAM + 8, stream[1])}
    assert walk.instructions == 1 + 3 * 5


@pytest.mark.parametrize(("code", "returns"), [(Code.CALL, True), (Code.JUMP, False)])
def test_other_streams(code: Code, returns: bool) -> None:
    stream = [move(40, OTHER), move32(42, 16), instruction(code, a=40, b=42), RUN]
    _, dispatches = walked(stream, other=[move32(5, 9), RUN])
    assert [registers[5] for registers in dispatches] == ([9, 9] if returns else [9])


@pytest.mark.parametrize(
    ("code", "value", "left"),
    [
        (Code.SYNC_ADD64, 1 << 32 | 2, (7, 6)),
        (Code.SYNC_SET64, 1 << 32 | 2, (2, 1)),
        (Code.SYNC_ADD32, 2, (7, 5)),
        (Code.SYNC_SET32, 2, (2, 5)),
    ],
)
def test_signals(code: Code, value: int, left: tuple[int, int]) -> None:
    stream = [move(40, WORDS), move(42, value), instruction(code, a=40, b=42)]
    walk, _ = walked(stream, w0=5, w4=5)
    assert tuple(walk.word(WORDS + 4 * half) for half in (0, 1)) == left


@pytest.mark.parametrize(("greater", "value", "goes"), [(1, 4, True), (1, 3, False), (0, 3, True), (0, 4, False)])
@pytest.mark.parametrize("code", [Code.SYNC_WAIT32, Code.SYNC_WAIT64])
def test_waits(code: Code, greater: int, value: int, goes: bool) -> None:
    stream = [move(40, WORDS), move(42, 3), instruction(code, a=40, b=42, low=greater << 28), RUN]
    if goes:
        assert len(walked(stream, w0=value, w4=0)[1]) == 1
    else:
        with pytest.raises(
            StreamError, match=rf"{STREAM + 16:#x}: a wait that would block: .* is {value}, the limit 3"
        ):
            walked(stream, w0=value, w4=0)


CALL_DEEPER = [move(40, STREAM), move32(42, 24), instruction(Code.CALL, a=40, b=42)]
# The lowest bit that each instruction may not have; MOVE may have all.
RESERVED = {code: ~bits & bits + 1 & (1 << 56) - 1 for code, bits in FIELDS.items()}
MALFORMED: list[tuple[str, list[int], int, str]] = [
    # name, stream, number of the instruction, message
    *(
        (f"opcode {op}", [op << 56], 0, f"an instruction of opcode {op}, which is not known")
        for op in (5, 6, 7, 9, 11, 24, 25, 40, 41, 44, 49, 50, 255)
    ),
    *(
        (f"reserved bits of {Code(op).name}", [0, op << 56 | bit], 1, f"reserved bits {bit:#x}")
        for op, bit in RESERVED.items()
        if bit
    ),
    ("an odd pair", [move(41, 0)], 0, "register 41, which is not there or not the first of a pair"),
    ("a pair beyond", [move(96, 0)], 0, "register 96, which"),
    ("a register beyond", [move32(96, 0)], 0, "register 96, which"),
    ("a source beyond", [instruction(Code.ADD32, to=1, a=200)], 0, "register 200, which"),
    (
        "a load beyond the registers",
        [move(20, WORDS), instruction(Code.LOAD, to=95, a=20, low=2 << 16)],
        1,
        "registers from 95 on, of which some are not there",
    ),
    (
        "a load that is not mapped",
        [instruction(Code.LOAD, to=5, a=20, low=1 << 16)],
        0,
        "an access to 0x0, which is not mapped",
    ),
    (
        "a store that is not mapped",
        [move(20, WORDS + 64), instruction(Code.STORE, to=5, a=20, low=1 << 16)],
        1,
        f"an access to {WORDS + 64:#x}, which is not mapped",
    ),
    (
        "an odd address",
        [move(20, WORDS), instruction(Code.LOAD, to=5, a=20, low=1 << 16 | 2)],
        1,
        f"an access to {WORDS + 2:#x}, which is no multiple of 4",
    ),
    ("an unknown condition", [instruction(Code.BRANCH, low=7 << 28)], 0, "a condition that is not known"),
    ("a loop without end", [instruction(Code.BRANCH, low=ALWAYS | 0xFFFF)], 0, "a stream that does not end"),
    (
        "a branch out of the stream",
        [instruction(Code.BRANCH, low=ALWAYS | 0x8000)],
        -0x7FFF,
        "which is not mapped",
    ),
    ("calls too deep", CALL_DEEPER, 2, "calls that are nested deeper than 8"),
    (
        "a call of half an instruction",
        [move(40, OTHER), move32(42, 12), instruction(Code.CALL, a=40, b=42)],
        2,
        "no whole number of instructions",
    ),
    (
        "a jump between instructions",
        [move(40, OTHER + 4), move32(42, 8), instruction(Code.JUMP, a=40, b=42)],
        2,
        "no whole number of instructions",
    ),
    (
        "a wait",
        [move(40, WORDS), move(42, 1), instruction(Code.SYNC_WAIT64, a=40, b=42, low=1 << 28)],
        2,
        "a wait that would block",
    ),
    ("a heap at an odd register", [instruction(Code.HEAP_SET, a=3)], 0, "register 3, which"),
]


def test_there_are_many_malformed_streams() -> None:
    assert len({name for name, *_ in MALFORMED}) == len(MALFORMED) >= 40


@pytest.mark.parametrize(
    ("stream", "number", "message"), [row[1:] for row in MALFORMED], ids=[r[0] for r in MALFORMED]
)
def test_a_malformed_stream_is_located(
    stream: list[int], number: int, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("host_tools.gpus.mali_csf.walk.MAX_INSTRUCTIONS", min(MAX_INSTRUCTIONS, 1000))
    where = f"command stream of job {JOB}, at GPU address {STREAM + 8 * number:#x}: "
    with pytest.raises(StreamError, match=re.escape(where) + ".*" + re.escape(message)):
        walked(stream, other=[0], w0=0, w4=0)
