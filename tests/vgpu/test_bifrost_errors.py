# SPDX-License-Identifier: BSD-2-Clause
"""Shaders and descriptors that are malformed, hostile or not modelled: a located error, and the job's status."""

from __future__ import annotations

import itertools
import math
import re
import struct
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from host_tools.vgpu import VgpuError
from tests.support import bifrost_asm as asm
from tests.support.bifrost_asm import Tuple, block, block_high, clause, header, load, sources, store
from tests.support.bifrost_board import CODE, INPUT, OUTPUT, PUSH, READ_ONLY, STATE, ShaderBoard
from tests.support.mali_model import DATA, LEAF, NX, PAGE, RW, VA
from tests.support.sampling import few

CONFIG, READ, WRITE, PC, ENCODING, OPERAND, STORAGE, BARRIER, ALIGNMENT = (
    0x40, 0x42, 0x43, 0x50, 0x51, 0x53, 0x54, 0x55, 0x56,
)  # fmt: skip
TERMINATED = 4
NOWHERE = 0x12345678000
FIRST = block(first=True)
MOVE, ADD_MOVE = 0x701968, 0x3D968
TARGET = (4, 0)  # modifiers that make the high word relative


def one(
    item: Tuple | None = None, *, fma: int = asm.FMA_NOP, add: int = asm.ADD_NOP, at: int = FIRST, head: int = 0,
    constants: Sequence[int] = (), modifiers: tuple[int, int] = (0, 0),
) -> bytes:  # fmt: skip
    """A clause of one tuple."""
    return clause([item or Tuple(at, fma, add)], head or header(flow=0), constants, modifiers)


def words(*quadwords: int) -> bytes:
    return b"".join(word.to_bytes(16, "little") for word in quadwords)


HEAD = header(flow=0) << 83
WORD = 0x28 | FIRST << 8 | asm.FMA_NOP << 43 | (asm.ADD_NOP & 0x1FFFF) << 66 | HEAD | asm.ADD_NOP >> 17
BAD_TUPLE = Tuple(block(0, 1, two=5, mode=0) & ~(0xF << 31) | 9 << 31 | 5 << 8)  # mode 25
to_group, in_buffer = asm.GROUP << 6, asm.UNIFORM_BUFFER << 6
LOOP = one(add=0x6FE34 | 5 << 6, at=block(fau=0x40, first=True), head=header(), constants=[0], modifiers=TARGET)
LOADS, STORES = header(message=asm.LOAD_MESSAGE), header(message=asm.STORE_MESSAGE)

CODES: dict[str, tuple[bytes, int, str]] = {
    "zeros": (bytes(16), ENCODING, "does not begin with a first tuple"),
    "a later tuple first": (words(0x43), ENCODING, "does not begin with a first tuple"),
    "a clause inside another": (words(WORD, WORD), ENCODING, "a clause begins inside another"),
    "an unknown tag": (words(WORD, 0x02), ENCODING, "unknown tag"),
    "a rest without a beginning": (words(WORD, 0x44), ENCODING, "the rest of a tuple that has not begun"),
    "a later rest": (words(WORD, 0x20, 0x05, 0xC0), ENCODING, "the rest of a tuple that has not begun"),
    "constants at place 15": (words(WORD, 0x03, 0x7F), ENCODING, "constants at an unknown place"),
    "constants of another clause": (words(WORD, 0x03, 0x70), ENCODING,
        "constants of a clause with another number"),
    "tuples are missing": (words(WORD, 0x52), ENCODING, "tuples are missing"),
    "no end": (words(WORD, *[0x01FF << 83 | 0x03] * 11), ENCODING, "a clause without an end"),
    "an unknown FMA": (one(fma=0x7FFFFF), ENCODING, "FMA operation that is not known (0x7fffff)"),
    "an unknown ADD": (one(add=0xFFFFF), ENCODING, "ADD operation that is not known (0x0fffff)"),
    "an exponent of 16 bits": (one(fma=0x280000 | 6 << 12), ENCODING,
        "FMA operation that is not known (0x286000)"),
    "truth of an unknown kind": (one(fma=0x240000 | 3 << 16), ENCODING, "FMA operation that is not known"),
    "a condition after the last": (one(fma=0x240000 | 6 << 13), ENCODING, "FMA operation that is not known"),
    "a widened mantissa": (one(fma=0x701B20), ENCODING, "FMA operation that is not known"),
    "a shift by other bytes": (one(fma=0x33C000 | 1 << 9), ENCODING, "FMA operation that is not known"),
    "a comparison of floats in halves": (one(add=0x68000 | 1 << 12 | 6 << 9), ENCODING,
        "ADD operation that is not known"),
    "an atomic of 64 bits": (one(add=0x64100), ENCODING, "ADD operation that is not known"),
    "a block of mode 25": (
        clause([Tuple(FIRST), BAD_TUPLE], header(flow=0)), ENCODING, "a register block of unknown mode"),
    "a block of mode 0": (one(at=0), ENCODING, "a register block of unknown mode"),
    "flush to zero": (one(head=header(flow=0, others=1 << 5)), ENCODING, "a float mode that is not modelled"),
    "no infinities": (one(head=header(flow=0, others=1 << 7)), ENCODING, "a float mode that is not modelled"),
    "no NaN": (one(head=header(flow=0, others=1 << 8)), ENCODING, "a float mode that is not modelled"),
    "reserved header bits": (one(head=header(flow=0, others=1 << 14)), ENCODING,
        "a clause header with reserved bits"),
    "a message that is not there": (one(head=LOADS), ENCODING, "message type in a clause header"),
    "a load that is called a store": (
        one(add=asm.LOAD[1] | 1 << 6 | sources(0, 1), head=STORES), ENCODING, "message type in a clause header"),
    "an atomic message": (one(head=header(message=7)), ENCODING, "message type in a clause header"),
    "two messages": (
        clause([Tuple(FIRST, add=asm.LOAD[1] | 1 << 6 | sources(0, 1)),
                Tuple(block(0, 1), add=asm.LOAD[1] | 1 << 6 | sources(0, 1))], LOADS),
        ENCODING, "a second message in a clause"),
    "a branch in the middle": (
        clause([Tuple(block(0, 1, fau=0x40, first=True), add=0x68000 | sources(0, 1, 5)), Tuple(block(0, 1))],
               header(), [0], TARGET), ENCODING, "a branch before the last tuple"),
    "64 bits in a 32-bit clause": (one(fma=0x720000), ENCODING, "an operation of 64-bit clauses"),
    "32 bits in a 64-bit clause": (
        one(Tuple(asm.wide_block(0, 0, 0, 7, mode=0xFB), MOVE, 0x3D965), head=header(message=asm.WIDE)), ENCODING,
        "an FMA operation that is none of 64-bit clauses"),
    "an ADD in a 64-bit clause": (
        one(Tuple(asm.wide_block(0, 0, 0, 7, mode=0xFB), 0x720000, ADD_MOVE), head=header(message=asm.WIDE)),
        ENCODING,
        "an ADD operation in a 64-bit clause"),
    "a 64-bit block of mode 0": (
        one(Tuple(asm.wide_block(0, 0, 0, 7, mode=0), 0x720000, 0x3D965), head=header(message=asm.WIDE)), ENCODING,
        "a register block of unknown mode"),
    "a 64-bit operand of an ADD": (
        one(Tuple(asm.wide_block(0, 0, 0, 7, mode=0xFB), 0x720000 | 7, 0x3D965), head=header(message=asm.WIDE)),
        OPERAND, "a result that a 64-bit clause does not have"),
    "a 64-bit result of nobody": (
        one(Tuple(asm.wide_block(0, 0, 0, 7, mode=0xFB), 0x720000 | 6, 0x3D965), head=header(message=asm.WIDE)),
        OPERAND, "a result of the tuple before the first"),
    "a 64-bit port that is off": (
        one(Tuple(asm.wide_block(0, 0, 0, 7, mode=0xFF), 0x720000 | 1, 0x3D965), head=header(message=asm.WIDE)),
        OPERAND, "an operand from a port that is off"),
    "a high word without a low one": (one(add=0xEFE00), ENCODING,
        "it completes an FMA operation that is not there"),
    "a comparison without low words": (one(add=0x7BE00), ENCODING,
        "it completes an FMA operation that is not there"),
    "a pointer without a low word": (one(add=0x3F8C0), ENCODING,
        "it completes an FMA operation that is not there"),
    "storage without a low word": (one(add=0x3D500), ENCODING, "it completes an FMA operation that is not there"),
    "uniform buffers": (one(add=asm.LOAD[1] | in_buffer | sources(0, 1), head=LOADS), OPERAND, "buffer 0 of 0"),
    "stored uniform buffers": (one(add=asm.STORE[1] | in_buffer, head=STORES), ENCODING, "that is not modelled"),
    "segment 0": (one(add=asm.LOAD[1], head=LOADS), ENCODING, "segment that is not modelled"),
    "port 2 is off": (one(fma=MOVE | 2), OPERAND, "an operand from a port that is off (0x70196a)"),
    "port 1 is off": (one(fma=MOVE | 1, at=2 << 27 | 8 << 27), OPERAND, "an operand from a port that is off"),
    "t0 in the first tuple": (one(fma=MOVE | asm.T0), OPERAND, "a result that does not exist"),
    "t1 in the first tuple": (one(add=ADD_MOVE | asm.T1), OPERAND, "a result that does not exist"),
    "t of a NOP": (one(add=ADD_MOVE | asm.T), OPERAND, "a result that does not exist"),
    "t0 of a NOP": (clause([Tuple(FIRST), Tuple(block(), MOVE | asm.T0)], header(flow=0)), OPERAND,
                    "a result that does not exist"),
    "a NOP's result": (clause([Tuple(FIRST), Tuple(block(three=4, mode=asm.WRITE_FMA))], header(flow=0)), OPERAND,
                       "a register gets the result of a NOP"),
    "a branch's result": (clause([Tuple(FIRST), Tuple(block(three=4, mode=asm.WRITE_ADD))], header(flow=0)),
        OPERAND,
                          "a register gets a result that does not exist"),
    "a constant too many": (one(fma=MOVE | 4, at=block(fau=0x60, first=True), constants=[5]), OPERAND,
                            "a constant that the clause does not have"),
    "a uniform too many": (one(fma=MOVE | 4, at=block(fau=0x82, first=True)), OPERAND,
                           "a push uniform that the job does not have"),
    "the warp's number": (one(fma=MOVE | 4, at=block(fau=2, first=True)), OPERAND,
        "a special operand that is not modelled"),
    "an operand of the program counter": (
        one(fma=MOVE | 5, at=block(fau=0x40, first=True), constants=[5], modifiers=TARGET), OPERAND,
        "an operand relative to the program counter"),
    "a low word of the program counter": (
        one(fma=MOVE | 4, at=block(fau=0x40, first=True), constants=[5], modifiers=(1, 0)), OPERAND,
        "an operand relative to the program counter"),
    "modifiers without a meaning": (
        one(fma=MOVE | 4, at=block(fau=0x40, first=True), constants=[5], modifiers=(3, 0)), OPERAND,
        "an operand relative to the program counter"),
    "a branch to a register": (one(add=0x68000 | sources(0, 1, 0)), OPERAND, "a branch to a register"),
    "a branch to a uniform": (one(add=0x68000 | sources(0, 1, 5), at=block(fau=0x80, first=True)), OPERAND,
                              "a branch to what is no constant"),
    "a branch to an address": (
        one(add=0x68000 | sources(0, 1, 5), at=block(fau=0x40, first=True), constants=[5 << 28]), OPERAND,
        "a branch that is not relative"),
    "a branch to the low word of an address": (
        one(add=0x68000 | sources(0, 1, 4), at=block(fau=0x40, first=True), constants=[5]), OPERAND,
        "a branch that is not relative"),
    "a branch to a quadword's middle": (
        one(add=0x6FE34 | 5 << 6, at=block(fau=0x40, first=True), head=header(), constants=[8 << 28],
        modifiers=TARGET),
        PC, "a branch to the middle of a quadword"),
    "an address that is not the FMA's": (
        one(fma=0x70E400, add=asm.LOAD[1] | 1 << 6 | sources(0, 1), head=LOADS), OPERAND,
        "an address whose low word is not the FMA's"),
    "registers after the last": (
        one(add=asm.LOAD[4] | 1 << 6 | sources(0, 1), head=header(message=asm.LOAD_MESSAGE, staging=61)), OPERAND,
        "a message of registers after the last"),
    "no group storage": (one(add=asm.LOAD[1] | to_group | sources(0, 1), head=LOADS), STORAGE,
                         "a message to storage that the job does not have"),
    "no thread storage": (one(add=asm.STORE[1] | asm.THREAD << 6 | sources(0, 1), head=STORES), STORAGE,
                          "a message to storage that the job does not have"),
    "an address in no storage": (one(fma=0x701500 | asm.THREAD << 3), OPERAND,
                                 "an address in storage that the job does not have"),
    "a load at an odd address": (load(2, 1, 0, 0, index=0), ALIGNMENT,
                               "a load at GPU address 0xffffb8f5d001, which is no"),
    "a store at an odd address": (store(2, 1, 0, 0, index=0), ALIGNMENT, "a store at GPU address 0xffffb8f5d001"),
    "a loop without an end": (LOOP, TERMINATED, "hang: threads ran more than"),
    "a barrier that is not announced": (one(add=0xD7874, head=header(message=asm.BARRIER_MESSAGE)), BARRIER,
                                        "a barrier in a shader whose state says that it has none"),
}  # fmt: skip


@pytest.mark.parametrize("case", CODES)
def test_a_program_that_is_refused(case: str) -> None:
    code, status, text = CODES[case]
    uniforms = (INPUT, OUTPUT, INPUT + 1) if "odd" in case else (INPUT, OUTPUT)
    board = ShaderBoard()
    board.prepare(code, uniforms=uniforms)
    with pytest.raises(VgpuError, match=rf"job at GPU address {VA:#x}.*{re.escape(text)}") as found:
        board.submit()
    if status != BARRIER:
        assert re.search(rf"clause at GPU address {CODE:#x}", str(found.value))
    assert board.status() == status


Change = Callable[[ShaderBoard], None]


def poke(va: int, value: int) -> Change:
    return lambda board: board.put(va, struct.pack("<I", value))


def descriptors(**options: Any) -> Change:
    return lambda board: board.prepare(store(1, 1, 2, 60), **options)


DESCRIPTORS: dict[str, tuple[Change, int, str]] = {
    "fields that overlap": (poke(VA + 36, 9 | 3 << 5), CONFIG, "fields of the invocation overlap (0x69)"),
    "385 threads": (descriptors(size=(385, 1, 1)), CONFIG,
        "a workgroup of more threads than the GPU holds (0x181)"),
    "2^32 threads in a row": (
        lambda board: board.put(VA + 32, struct.pack("<II", 0xFFFFFFFF, 32 << 10 | 32 << 16 | 32 << 22)), CONFIG,
        "a dispatch of 2^32 threads in a row"),
    "a preloaded program counter": (descriptors(preload=1 << 6), CONFIG,
        "preloaded registers that are not modelled"),
    "storage of 16 << 20": (descriptors(storage=struct.pack("<II", 20, 31)), CONFIG,
        "an unknown size of thread storage"),
}  # fmt: skip


@pytest.mark.parametrize("case", DESCRIPTORS)
def test_a_descriptor_that_is_refused(case: str) -> None:
    change, status, text = DESCRIPTORS[case]
    board = ShaderBoard()
    board.prepare(store(1, 1, 2, 60))
    change(board)
    with pytest.raises(VgpuError, match=rf"compute job at GPU address {VA:#x}: {re.escape(text)}"):
        board.submit()
    assert board.status() == status


FAULTS: dict[str, tuple[Change, int, int, int]] = {
    "a load from nowhere": (
        lambda board: board.prepare(load(0, 1, 2, 0), uniforms=(NOWHERE,)), READ, NOWHERE, 0x2C0),
    "a load across a page's end": (
        lambda board: board.prepare(load(0, 4, 0, 0, index=0), uniforms=(READ_ONLY + PAGE - 8,)), READ,
        READ_ONLY + PAGE, 0x2C3),
    "a store to a page for reading": (
        lambda board: board.prepare(store(0, 1, 2, 60), uniforms=(READ_ONLY,)), WRITE, READ_ONLY, 0x3CB),
    "no renderer state": (poke(VA + 64 + 56, 0x1000), READ, STATE & ~0xFFFFFFFF | 0x1000, 0x2C1),
    "no uniforms": (poke(VA + 64 + 48, 0x1000), READ, PUSH & ~0xFFFFFFFF | 0x1000, 0x2C1),
    "no local storage": (poke(VA + 64 + 112, 0x1000), READ, 0x1000, 0x2C0),
    "no code": (poke(STATE, 0x1000), PC, CODE & ~0xFFFFFFFF | 0x1000, 0x1C1),
    "code at address 0": (lambda board: board.put(STATE, bytes(8)), PC, 0, 0x1C0),
    "code that cannot be executed": (
        lambda board: board.tables.set(CODE, DATA + PAGE | LEAF | RW | NX), PC, CODE, 0x1CB),
}  # fmt: skip


@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_of_the_mmu(case: str) -> None:
    """As any other of the job manager's: interrupts of the MMU and the slot, address and status in registers."""
    change, status, address, exception = FAULTS[case]
    board = ShaderBoard()
    board.prepare(store(1, 1, 2, 60))
    change(board)
    board.submit()
    assert (board.slot(0x24), board.read(0x1000), board.status()) == (status, 1 << 17, status)
    assert (board.read(0x2000), board.gpu.counters().faults) == (1, 1)
    assert (board.pair_read(0x2420), board.read(0x241C)) == (address, exception)


@pytest.mark.parametrize(("offset", "words"), [(32, 1), (28, 2), (0xFFFFFFFC, 4)])
def test_an_offset_outside_of_a_threads_storage(offset: int, words: int) -> None:
    board = ShaderBoard()
    code = one(add=asm.LOAD[words] | asm.THREAD << 6 | sources(asm.FAU_LOW, asm.FAU_HIGH),
               at=block(fau=0x82, first=True), head=header(message=asm.LOAD_MESSAGE))  # fmt: skip
    board.prepare(code, uniforms=(INPUT, OUTPUT, offset), storage=struct.pack("<IIQQ", 1, 31, INPUT, 0))
    with pytest.raises(VgpuError, match=rf"a load at {offset:#x} in a thread's storage of 32 bytes"):
        board.submit()
    assert board.status() == STORAGE


def test_threads_that_end_before_a_barrier() -> None:
    end = clause([Tuple(block_high(60, 0), add=0x6F800 | sources(0, 0, asm.FAU_LOW))], header())
    wait = clause([Tuple(FIRST, add=0xD7874)], header(message=asm.BARRIER_MESSAGE))
    board = ShaderBoard()
    board.prepare(end + wait + store(1, 1, 2, 60), size=(128, 1, 1), barrier=True)
    with pytest.raises(
        VgpuError, match="threads of workgroup 0 wait at a barrier that others ended without reaching"
    ):
        board.submit()
    assert board.status() == BARRIER


MANY = (1 << 13, 1 << 13, 1)  # workgroups, a batch each: longer than anyone waits


@pytest.mark.parametrize("threads", [1, 4])
def test_a_chain_that_runs_too_long(threads: int) -> None:
    """The limit is of all batches together; none of them runs long."""
    board = ShaderBoard(threads=threads, job_limit=1 << 16)
    board.prepare(store(1, 1, 2, 60), groups=MANY, preload=0)
    with pytest.raises(VgpuError, match=rf"job at GPU address {VA:#x}: hang: its chain ran more than 65536"):
        board.submit()
    assert board.status() == TERMINATED


@pytest.mark.parametrize(("limit", "status"), [(64 + 1, 1), (64, TERMINATED)])
def test_translating_and_running_count_exactly(limit: int, status: int) -> None:
    """One clause is translated, 64 are run."""
    board = ShaderBoard(job_limit=limit)
    board.prepare(one(), groups=(64, 1, 1))
    assert ("hang: its chain" in attempt(board)) == (status != 1)
    assert board.status() == status


def test_jobs_of_a_chain_share_its_limit() -> None:
    def run(limit: int) -> str:
        board = ShaderBoard(job_limit=limit)
        board.prepare(one(), groups=(30, 1, 1))
        second = VA + 0x400
        board.put(VA + 24, struct.pack("<Q", second))
        board.put(second, bytes(board.ram.bytes[DATA - board.ram.base :][:0xC0]))
        board.put(second + 24, bytes(8))
        return attempt(board)

    assert run(62) == ""
    assert "hang: its chain ran more than 61 clauses" in run(61)


def test_each_chain_has_the_limit_anew() -> None:
    board = ShaderBoard(job_limit=65)
    for _ in range(3):
        board.prepare(one(), groups=(64, 1, 1))
        assert board.go() == 1


def test_threads_that_hang_are_named_though_their_chain_has_a_smaller_limit() -> None:
    board = ShaderBoard(job_limit=1000)
    board.prepare(LOOP)
    with pytest.raises(VgpuError, match=rf"clause at GPU address {CODE:#x}: hang: threads ran more than 1000"):
        board.submit()
    assert board.status() == TERMINATED


def test_what_no_thread_comes_to_does_no_harm() -> None:
    """Only code that is executed must be right."""
    over, constant = asm.branch(3, 0, 1, 16 * 30)  # never taken: r0 and r1 are 0
    jump = one(
        add=over, at=block(0, 1, fau=0x40, first=True), head=header(), constants=[constant], modifiers=TARGET
    )
    board = ShaderBoard()
    board.prepare(jump + store(1, 1, 2, 60))
    assert board.go() == 1
    assert board.words(OUTPUT, 64).tolist() == list(range(64))


def attempt(board: ShaderBoard) -> str:
    """Submit the job; the error, or ""."""
    try:
        board.submit()
    except VgpuError as error:
        return str(error)
    return ""


def run_any(code: bytes) -> None:
    """Whatever it is, it is run, refused with a located error, or faults; the status says which."""
    board = ShaderBoard(threads=1)
    board.prepare(code, uniforms=(INPUT, OUTPUT))
    error = attempt(board)
    assert f"compute job at GPU address {VA:#x}" in error or not error
    refused = {ENCODING, OPERAND, PC, STORAGE, BARRIER, ALIGNMENT, TERMINATED}
    assert board.status() in (refused if error else {1, READ, WRITE, PC})


@few(40, 150, deadline=None)
@given(st.binary(min_size=16, max_size=256))
def test_any_bytes_as_a_program(code: bytes) -> None:
    run_any(code)


@few(40, 150, deadline=None)
@given(
    st.integers(0, 0x7FFFFF), st.integers(0, 0xFFFFF), st.integers(0, (1 << 35) - 1), st.integers(0, (1 << 45) - 1)
)
def test_any_tuple_as_a_program(fma: int, add: int, bits: int, head: int) -> None:
    """A clause that is well-formed but for what is in it."""
    mask = header(flow=7, message=31, staging=63)
    run_any(clause([Tuple(bits, fma, add)], head & mask) + store(1, 1, 2, 60))


@few(40, 150, deadline=None)
@given(st.integers(0, 0xFFFFFFFF), st.integers(0, 0xFFFFFFFF), st.integers(0, 0xFFFFFFFF))
def test_any_invocation(packed: int, shifts: int, preload: int) -> None:
    """Up to as many threads as do not take long."""
    starts = [0, shifts & 31, shifts >> 5 & 31, shifts >> 10 & 63, shifts >> 16 & 63, shifts >> 22 & 63, 32]
    sizes = [(packed >> low & (1 << max(high - low, 0)) - 1) + 1 for low, high in itertools.pairwise(starts)]
    assume(math.prod(sizes) < 1 << 16 or sorted(starts) != starts)
    board = ShaderBoard(threads=1)
    board.prepare(one())
    board.put(VA + 32, struct.pack("<II", packed, shifts))
    board.put(STATE + 48, struct.pack("<I", preload))
    error = attempt(board)
    assert f"compute job at GPU address {VA:#x}" in error or not error
    assert board.status() == (CONFIG if error else 1)
    assert board.gpu.counters().instructions == (0 if error else 2 * math.prod(sizes))
