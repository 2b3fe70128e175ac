# SPDX-License-Identifier: BSD-2-Clause
"""The virtual Mali-G610: registers, the firmware's contract as panthor uses it, command streams, dispatches."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from host_tools.vgpu.binding import VgpuError
from tests.support.csf_board import (
    DATA_VA,
    DOORBELL,
    GLOBAL_IRQ,
    GROUP_IRQ,
    IDLE_EVENT,
    JOB,
    MCU_CONTROL,
    MCU_STATUS,
    RING,
    STREAM,
    SYNC_EVENT,
    CsfBoard,
    move,
    move32,
    two,
)
from tests.support.valhall_bench import END, GLOBAL_ID, U1, WAIT, encode

WORDS = DATA_VA + 0x2000
ADD64, LOAD, STORE, BRANCH, CALL, JUMP, SYNC_ADD64, SYNC_WAIT64 = 17, 20, 21, 22, 32, 33, 51, 53
ALWAYS = 6 << 28


@pytest.fixture
def board() -> Iterator[CsfBoard]:
    made = CsfBoard()
    yield made
    made.gpu.close()


def store(value: int, to: int = WORDS) -> list[int]:
    """Instructions that store a word."""
    return [move(40, to), move32(42, value), two(STORE, to=42, a=40, low=1 << 16)]


# ---- registers ----


def test_identity_and_power(board: CsfBoard) -> None:
    assert [board.read(at) for at in (0, 0x1C, 0x100, 0x110, 0x120)] == [0xA8670005, 0x040A0412, 0x50005, 1, 1]
    board.write(0x1A0, 1)
    assert board.read(0x160) == 1


@pytest.mark.parametrize("offset", [0x1800, 0x38, 0x20000, 0x60, 0x1FFFFC])
def test_registers_that_are_not_there(board: CsfBoard, offset: int) -> None:
    with pytest.raises(VgpuError, match=f"0x{offset:04x}: unknown register"):
        board.read(offset)


def test_a_reset_turns_the_microcontroller_off(board: CsfBoard) -> None:
    board.write(0x30, 0x101)
    assert (board.read(MCU_STATUS), board.read(0x20) & 0x100) == (0, 0x100)


def test_a_flush_counts(board: CsfBoard) -> None:
    before = board.read(0x10000)
    board.write(0x30, 4 | 0x233 << 8)
    assert (board.read(0x10000), board.read(0x20) & 1 << 17) == (before + 1, 1 << 17)


def test_a_command_that_is_not_modelled(board: CsfBoard) -> None:
    with pytest.raises(VgpuError, match="0x0030"):
        board.write(0x30, 0x301)


# ---- the firmware's contract ----


def test_a_boot_fills_in_what_the_firmware_does() -> None:
    board = CsfBoard(boot=False)
    assert board.read(MCU_STATUS) == 0
    board.write(MCU_CONTROL, 2)
    assert (board.read(MCU_STATUS), board.read(0x1000)) == (1, GLOBAL_IRQ)
    assert board.gpu.interrupt_level(JOB)
    assert board.word(0x04000000) == 0x01010000
    assert board.word(0x04001040) == 95 | 8 << 8 | 7 << 16
    board.gpu.close()


def test_a_boot_without_its_sections() -> None:
    board = CsfBoard(boot=False)
    board.write(0x2400, 0x40F00000)  # a table of zeros
    board.write(0x2418, 1)
    with pytest.raises(VgpuError, match=r"microcontroller reads at an address that is not mapped \(0x4000010\)"):
        board.write(MCU_CONTROL, 2)


def test_latency() -> None:
    board = CsfBoard(boot=False, latency_ns=1000)
    board.write(MCU_CONTROL, 2)
    assert board.read(MCU_STATUS) == 0
    board.gpu.advance(999)
    assert board.read(MCU_STATUS) == 0
    board.gpu.advance(1000)
    assert board.read(MCU_STATUS) == 1
    board.gpu.close()


def test_requests_are_acknowledged(board: CsfBoard) -> None:
    board.set(0x04002004, 1 << 8)
    board.ring_global(toggle=1 << 8)  # a ping
    assert (board.word(0x04006000), board.read(0x1000)) == (1 << 8, GLOBAL_IRQ)


def test_a_halt_is_not_acknowledged(board: CsfBoard) -> None:
    board.ring_global(toggle=1)
    assert (board.read(MCU_STATUS), board.word(0x04006000), board.read(0x1000)) == (2, 0, 0)


@pytest.mark.parametrize("bit", [4, 12, 31])
def test_a_request_that_is_not_known(board: CsfBoard, bit: int) -> None:
    with pytest.raises(VgpuError, match="request to the microcontroller that is not modelled"):
        board.ring_global(toggle=1 << bit)


def test_an_idle_group_is_told_once(board: CsfBoard) -> None:
    board.start()
    assert board.word(0x04007000) == 1 | IDLE_EVENT
    board.write(0x1004, GROUP_IRQ)
    board.run([])
    assert board.read(0x1000) == 0
    board.run([two(0)])
    assert board.read(0x1000) == GROUP_IRQ
    assert board.word(0x04007000) == 1 | IDLE_EVENT


def test_suspend_and_resume_keep_registers(board: CsfBoard) -> None:
    board.start()
    board.run([move32(42, 77), move(40, WORDS)])
    board.set(0x04003000, 2)
    board.ring_global(groups=1)
    assert board.word(0x04007000) & 7 == 2
    board.run([two(STORE, to=42, a=40, low=1 << 16)])
    assert board.data(WORDS) == 0  # a suspended group does not run
    board.set(0x04003000, 3)
    board.ring_global(groups=1)
    assert board.data(WORDS) == 77


def test_a_group_that_resumes_what_was_not_suspended(board: CsfBoard) -> None:
    with pytest.raises(VgpuError, match="0xabc000"):
        board.start(state=3)


# ---- command streams ----


def test_moves_sums_loads_and_stores(board: CsfBoard) -> None:
    board.start()
    board.put(WORDS, struct.pack("<3I", 5, 6, 7))
    board.run([
        move(40, WORDS - 8),
        two(ADD64, to=40, a=40, low=8),
        two(LOAD, to=50, a=40, low=0b111 << 16),
        two(16, to=52, a=52, low=0xFFFFFFFE),  # - 2
        two(18, to=53, a=50, b=52),  # the smaller one
        two(STORE, to=50, a=40, low=0b1101 << 16 | 16),
    ])  # fmt: skip
    assert [board.data(WORDS + 16 + 4 * n) for n in range(4)] == [5, 0, 5, 5]
    assert board.extracted() == 48


@pytest.mark.parametrize(
    ("condition", "taken"), [(0, (0, -1)), (1, (1,)), (2, (0,)), (3, (1, -1)), (4, (-1,)), (5, (0, 1))]
)
def test_branches(board: CsfBoard, condition: int, taken: tuple[int, ...]) -> None:
    board.start()
    for value in (-1, 0, 1):
        board.put(WORDS, bytes(4))
        code = [move32(44, value), two(BRANCH, a=44, low=condition << 28 | 3), *store(1)]
        board.put(STREAM, struct.pack(f"<{len(code)}Q", *code))
        board.run([move(46, STREAM), move32(48, 8 * len(code)), two(CALL, a=46, b=48)])
        assert board.data(WORDS) == (0 if value in taken else 1)


def test_calls_and_jumps(board: CsfBoard) -> None:
    """A jump leaves the end of the call it is in; a call of the ring counts when it returns."""
    board.start()
    second = [*store(2, WORDS + 4)]
    first = [*store(1), move(46, STREAM + 0x100), move32(48, 8 * len(second)), two(JUMP, a=46, b=48), *store(9)]
    board.put(STREAM, struct.pack(f"<{len(first)}Q", *first))
    board.put(STREAM + 0x100, struct.pack(f"<{len(second)}Q", *second))
    board.run([move(46, STREAM), move32(48, 8 * len(first)), two(CALL, a=46, b=48), *store(3, WORDS + 8)])
    assert [board.data(WORDS + 4 * n) for n in range(3)] == [1, 2, 3]
    assert board.extracted() == 48


def test_the_ring_goes_round(board: CsfBoard) -> None:
    board.start()
    for _ in range(3):
        board.run([two(0)] * 511 + [move32(42, 1)])
    board.run(store(4))
    assert board.data(WORDS) == 4


def test_streams_wait_for_one_another(board: CsfBoard) -> None:
    board.start(streams=2)
    at = [move(40, WORDS + 16), move(42, 1)]
    board.run([*at, two(SYNC_WAIT64, a=40, b=42, low=1 << 28), *store(5)])  # > 1
    assert board.data(WORDS) == 0
    assert board.word(0x04007200 + 0x60) == 3
    board.run([*at, two(SYNC_ADD64, a=40, b=42, low=2)], stream=1)
    assert board.data(WORDS) == 0
    board.run([two(SYNC_ADD64, a=40, b=42)], stream=1)  # of the system's scope: the driver is told, too
    assert board.data(WORDS) == 5
    assert board.word(0x04007000) & SYNC_EVENT
    assert board.word(0x04007200 + 0x60) == 0


# Each ends the GPU's work: the last instruction of a ring, and what is said of it.
REFUSED = {
    "an opcode that is not known": (two(10), "not modelled"),
    "one of fragments": (two(7), "not modelled"),
    "reserved bits": (two(3, low=1), "reserved bits"),
    "bits of an error barrier": (two(47, low=1), "reserved bits"),
    "an odd pair": (move(41, 0), "register that is not there"),
    "a register beyond the last": (move32(96, 0), "register that is not there"),
    "words beyond the last register": (two(LOAD, to=90, a=40, low=0xFFFF << 16), "register that is not there"),
    "memory that is not mapped": (two(LOAD, to=50, a=60, low=1 << 16), "memory that is not mapped"),
    "a condition that is not known": (two(BRANCH, a=44, low=7 << 28), "condition"),
    "a branch of a ring": (two(BRANCH, low=ALWAYS | 0xFFFF), "branch of a ring"),
    "a jump of a ring": (two(JUMP, a=46, b=48), "jump of a ring"),
    "a call of no whole instructions": (two(CALL, a=40, b=63), "whole number"),
    "calls without an end": (two(CALL, a=46, b=48), "nested deeper than 8"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_stops_the_gpu(board: CsfBoard, what: str) -> None:
    word, message = REFUSED[what]
    board.start()
    board.put(STREAM, struct.pack("<Q", two(CALL, a=46, b=48)))
    board.run([move(60, 0x123000), move(40, WORDS), move32(63, 4), move(46, STREAM), move32(48, 8)])
    with pytest.raises(VgpuError, match=message) as error:
        board.run([word])
    assert f"{word:016x}" in str(error.value)
    assert f"{(STREAM if 'nested' in message else RING + 40):#x}" in str(error.value)


def test_a_stream_that_does_not_end(board: CsfBoard) -> None:
    board.start()
    board.put(STREAM, struct.pack("<Q", two(BRANCH, low=ALWAYS | 0xFFFF)))
    with pytest.raises(VgpuError, match=f"{STREAM:#x}: a stream that does not end"):
        board.run([move(46, STREAM), move32(48, 8), two(CALL, a=46, b=48)])


def test_a_doorbell_takes_one(board: CsfBoard) -> None:
    with pytest.raises(VgpuError, match="doorbell"):
        board.write(DOORBELL, 2)


# ---- dispatches ----

SHADER, CODE, UNIFORMS, TABLES, BUFFERS, OUTPUT, THREADS = (DATA_VA + 0x3000 + 0x400 * n for n in range(7))


def dispatch(size: int = 64, groups: int = 2, **registers: int) -> list[int]:
    """A ring that runs the program at CODE; registers: others by r0, r1.."""
    chosen = {
        "r33": size - 1,
        **{"r37": groups, "r38": 1, "r39": 1},
        **{name: registers[name] for name in registers if name[0] == "r"},
    }
    pairs = {0: TABLES | 2, 8: UNIFORMS | 2 << 56, 16: SHADER, 24: THREADS}
    code = [word for to, value in pairs.items() for word in (move32(to, value), move32(to + 1, value >> 32))]
    code += [move32(int(name[1:]), value) for name, value in chosen.items()]
    return [*code, two(4, low=1)]


def prepare(board: CsfBoard, code: list[int]) -> None:
    board.put(SHADER, struct.pack("<IIQ", 8 | 1 << 4, 0xFF << 7, CODE))
    board.put(THREADS, struct.pack("<IIQQ", 0, 31, 0, 0))
    board.put(UNIFORMS, struct.pack("<QQ", 0, OUTPUT))
    board.put(TABLES, struct.pack("<QQQQ", BUFFERS, 0, BUFFERS, 64))
    board.put(BUFFERS, struct.pack("<IIQQQ", 1, 0, 0, 0, 0) + struct.pack("<IIQ", 9, 64, WORDS))
    board.put(CODE, struct.pack(f"<{len(code)}Q", *code))


PROGRAM = [
    encode("IADD_IMM.i32", (0xC0,), 2, constant=1 << 24 | 1),  # table 1, buffer 1
    encode("IADD_IMM.i32", (0xC0,), 3, constant=8),
    encode("LD_BUFFER.i32", (3, 2), 0, count=1, unsigned=1, flow=WAIT),
    encode("IADD.u32", (0, GLOBAL_ID), 0),
    encode("SHADDX.u64", (U1, GLOBAL_ID), 4, shift=2, part1=8),
    encode("STORE.i32", (4,), 0, count=1, flow=END),
]


def test_a_dispatch(board: CsfBoard) -> None:
    board.start()
    prepare(board, PROGRAM)
    board.put(WORDS + 8, struct.pack("<I", 1000))
    board.run(dispatch())
    found = [board.data(OUTPUT + 4 * n) for n in range(129)]
    assert found == [*(1000 + n for n in range(128)), 0]


REFUSED_DISPATCHES: dict[str, tuple[Callable[[CsfBoard], None], dict[str, int], str]] = {
    "a shader that is none": (lambda b: b.put(SHADER, struct.pack("<I", 9)), {}, "no compute shader"),
    "a float mode": (lambda b: b.put(SHADER, struct.pack("<I", 0x18 | 1 << 16)), {}, "float mode"),
    "a register that is not preloaded": (lambda b: b.put(SHADER + 4, struct.pack("<I", 1)), {}, "preloaded"),
    "a first thread": (lambda b: None, {"r34": 1}, "first thread"),
    "no workgroups": (lambda b: None, {"r37": 0}, "no workgroups"),
    "a workgroup that is too large": (lambda b: None, {"r33": 1023 | 1 << 10}, "more threads"),
    "storage without an end": (lambda b: b.put(THREADS, struct.pack("<I", 17)), {}, "thread storage"),
    "a shader elsewhere": (lambda b: None, {"r17": 0}, "the MMU stopped"),
    "an instruction that is none": (lambda b: b.put(CODE, struct.pack("<Q", 0x1FF << 48)), {}, "not known"),
}


@pytest.mark.parametrize("what", REFUSED_DISPATCHES)
def test_dispatches_that_stop_the_gpu(board: CsfBoard, what: str) -> None:
    change, registers, message = REFUSED_DISPATCHES[what]
    board.start()
    prepare(board, PROGRAM)
    change(board)
    with pytest.raises(VgpuError, match=message):
        board.run(dispatch(**registers))


def test_two_boards_do_the_same() -> None:
    """Memory and registers, byte by byte."""
    memories = []
    for _ in range(2):
        board = CsfBoard()
        board.start()
        prepare(board, PROGRAM)
        board.run(dispatch())
        memories.append(board.ram.bytes[:0x3000000].copy())
        board.gpu.close()
    assert np.array_equal(memories[0], memories[1])
