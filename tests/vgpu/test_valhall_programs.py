# SPDX-License-Identifier: BSD-2-Clause
"""Valhall programs: branches, memory, barriers, other threads, and what is refused where."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.valhall_bench import (
    BASE,
    END,
    GLOBAL_ID,
    INPUT,
    OUTPUT,
    THREAD,
    U0,
    U1,
    WAIT,
    ZERO,
    Bench,
    encode,
)

RECONVERGE, DISCARD = 10, 13
GROUP_POINTER, THREAD_POINTER, LANE = 0xE6, 0xE2, 0xE2  # special sources, of pages 1, 1 and 3
ATOMIC_ADD, ATOMIC_UMAX, EXCHANGE = 2, 11, 15


def address(to: int, pair: int = U1, shift: int = 2, index: int = GLOBAL_ID) -> int:
    """r[to] = a pair of uniforms + (register << shift)."""
    return encode("SHADDX.u64", (pair, index), to, shift=shift, part1=8)


def store(register: int, words: int = 1, *, at: int = 4, offset: int = 0, flow: int = END) -> int:
    size = {1: 32, 2: 64, 3: 96, 4: 128}[words]
    return encode(f"STORE.i{size}", (at,), register, count=words, offset=offset, flow=flow)


def load(register: int, words: int = 1, *, at: int = 4, offset: int = 0) -> int:
    size = {1: 32, 2: 64, 3: 96, 4: 128}[words]
    return encode(f"LOAD.i{size}", (at,), register, count=words, offset=offset, unsigned=1, flow=WAIT)


def number(register: int, value: int, flow: int = 0) -> int:
    return encode("IADD_IMM.i32", (ZERO,), register, constant=value, flow=flow)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def run(bench: Bench, code: list[int], count: int = 64, **options: object) -> np.ndarray:
    """The words of OUTPUT after it."""
    assert bench.run(code, **options) == 0, bench.error  # type: ignore[arg-type]
    return bench.words(OUTPUT, count).copy()


def test_threads_go_different_ways_and_meet_again(bench: Bench) -> None:
    """Each adds up the numbers below its own, then those that are odd take one away."""
    code = [
        number(0, 0),
        encode("MOV.i32", (THREAD,), 1, flow=RECONVERGE),
        encode("BRANCHZ", (1,), eq=1, offset=3, flow=RECONVERGE),  # out of the loop
        encode("IADD.u32", (0, 1), 0),
        encode("IADD_IMM.i32", (1,), 1, constant=-1 & 0xFFFFFFFF),
        encode("BRANCHZ", (ZERO,), eq=1, offset=-4, flow=RECONVERGE),
        encode("LSHIFT_AND.i32", (THREAD, ZERO, 0xC8), 2, part1=4),  # & 0x03020100
        encode("RSHIFT_AND.i32", (THREAD, ZERO, 0xC1), 2, part1=4),
        encode("IADD_IMM.i32", (2,), 3, constant=0),
        encode("LSHIFT_AND.i32", (3, ZERO, 5), 3, part1=4),
        address(4),
        store(0),
    ]
    found = run(bench, code)
    assert found.tolist() == [n * (n + 1) // 2 for n in range(64)]


def test_a_branch_to_the_middle_of_a_run_of_instructions(bench: Bench) -> None:
    """Where threads meet a block ends, whatever the flow of the instruction before says."""
    code = [
        number(0, 1),
        encode("BRANCHZ", (THREAD,), eq=0, offset=1),  # all but thread 0 pass by the next one
        number(0, 2),
        encode("IADD_IMM.i32", (0,), 0, constant=10),
        address(4),
        store(0),
    ]
    assert run(bench, code).tolist() == [12, *[11] * 63]


@pytest.mark.parametrize("part", [0, 1, 2])
def test_a_branch_on_a_half(bench: Bench, part: int) -> None:
    words = np.zeros(64, np.uint32)
    words[1::2] = 0x00010000  # the high half
    bench.words(INPUT, 64)[:] = words
    code = [
        address(4, U0),
        load(1),
        number(0, 7, RECONVERGE),
        encode("BRANCHZ", (1,), eq=0, part0=part, offset=1, flow=RECONVERGE),
        number(0, 8, RECONVERGE),
        address(4),
        store(0),
    ]
    found = run(bench, code)
    holds = {0: words != 0, 1: words & 0xFFFF != 0, 2: words >> 16 != 0}[part]
    assert np.array_equal(found, np.where(holds, 7, 8))


LOADS = {
    ("LOAD.i8", 0): (1, 0xA5A5A500 | 0x81, None), ("LOAD.i8", 2): (1, 0xA581A5A5, None),
    ("LOAD.i8", 4): (1, 0xA5A50081, 0xA5A5FF81), ("LOAD.i8", 5): (1, 0x0081A5A5, 0xFF81A5A5),
    ("LOAD.i8", 6): (1, 0x81, 0xFFFFFF81), ("LOAD.i8", 7): (2, 0x81, 0xFFFFFFFFFFFFFF81),
    ("LOAD.i16", 0): (1, 0xA5A5F281, None), ("LOAD.i16", 1): (1, 0xF281A5A5, None),
    ("LOAD.i16", 2): (1, 0xF281, 0xFFFFF281), ("LOAD.i16", 3): (2, 0xF281, 0xFFFFFFFFFFFFF281),
    ("LOAD.i24", None): (1, 0xA5C3F281, None),
    ("LOAD.i32", 0): (1, 0x94C3F281, None), ("LOAD.i32", 1): (2, 0x94C3F281, 0xFFFFFFFF94C3F281),
    ("LOAD.i48", None): (2, 0xA5A5665594C3F281, None), ("LOAD.i64", None): (2, 0x8877665594C3F281, None),
}  # fmt: skip


@pytest.mark.parametrize("unsigned", [1, 0])
@pytest.mark.parametrize(("name", "lane"), LOADS)
@pytest.mark.parametrize("from_buffer", [False, True])
def test_loads(bench: Bench, name: str, lane: int | None, unsigned: int, from_buffer: bool) -> None:
    words, wanted, signed = LOADS[name, lane]
    bench.memory[INPUT + 2 : INPUT + 10] = np.frombuffer(bytes.fromhex("81f2c39455667788"), np.uint8)
    if name in ("LOAD.i32", "LOAD.i64"):
        bench.memory[INPUT + 4 : INPUT + 12] = bench.memory[INPUT + 2 : INPUT + 10].copy()
    at = 4 if name in ("LOAD.i32", "LOAD.i64") else 2
    fields = {"unsigned": unsigned, "count": words, "flow": WAIT} | (
        {f"lane{name[6:]}": lane} if lane is not None else {}
    )
    if from_buffer:
        loads = [number(2, 1 << 24), number(3, at), encode(name.replace("LOAD", "LD_BUFFER"), (3, 2), 0, **fields)]
    else:
        loads = [address(4, U0, index=6), encode(name, (4,), 0, offset=at, **fields)]
    code = [number(6, 0), number(0, 0xA5A5A5A5), number(1, 0xA5A5A5A5), *loads, address(4, shift=3), store(0, 2)]
    tables = [[], [(BASE + INPUT, 64)]]
    found = run(bench, code, 128, tables=tables).view(np.uint64)
    expected = signed if signed is not None and not unsigned else wanted
    if words == 1:
        expected |= 0xA5A5A5A5 << 32
    assert {int(one) for one in found} == {expected}


@pytest.mark.parametrize("size", [8, 16, 24, 32, 48, 64, 96, 128])
def test_stores(bench: Bench, size: int) -> None:
    bench.memory[OUTPUT : OUTPUT + 64 * 16] = 0xEE
    words = (size + 31) // 32
    code = [
        *(number(register, 0x03020100 + 0x04040404 * register) for register in range(4)),
        address(4, shift=4),
        encode(f"STORE.i{size}", (4,), 0, count=words, offset=0, flow=END),
    ]
    run(bench, code)
    found = bench.memory[OUTPUT : OUTPUT + 64 * 16].reshape(64, 16)
    assert (found == np.where(np.arange(16) < size // 8, np.arange(16), 0xEE)).all()


def test_addresses_of_buffers(bench: Bench) -> None:
    """LEA_BUFFER: a buffer's address and an offset; which buffer, each thread says."""
    code = [
        encode("LSHIFT_AND.i32", (THREAD, ZERO, 0xC1), 0, part1=4),
        encode("IADD_IMM.i32", (0,), 0, constant=2 << 24),
        encode("LEA_BUFFER", (GLOBAL_ID, 0), 2, count=2, flow=WAIT),
        address(4, shift=3),
        store(2, 2),
    ]
    table = [(0x1000 * number, 16) for number in range(64)]
    found = run(bench, code, 128, tables=[[], [], table]).view(np.uint64)
    assert found.tolist() == [0x1000 * n + n for n in range(64)]


def test_barriers_and_memory_of_a_workgroup(bench: Bench) -> None:
    """Two batches of threads hand words to one another, workgroup by workgroup."""
    shared = [
        encode("MOV.i32", (GROUP_POINTER,), 20, page=1),
        encode("MOV.i32", (GROUP_POINTER + 1,), 21, page=1),
        encode("SHADDX.u64", (20, THREAD), 4, shift=2, part1=8),
        store(GLOBAL_ID, flow=WAIT),
        encode("BARRIER", slot=7, flow=9),
        encode("IADD_IMM.i32", (ZERO,), 1, constant=127),
        encode("ISUB.u32", (1, THREAD), 1),
        encode("SHADDX.u64", (20, 1), 4, shift=2, part1=8),
        load(2),
        address(6),
        store(2, at=6),
    ]
    found = run(bench, shared, 256, threads=256, group=128, has_group_storage=True)
    assert found.tolist() == [128 * (n // 128) + 127 - n % 128 for n in range(256)]


def test_storage_of_threads(bench: Bench) -> None:
    code = [
        encode("MOV.i32", (THREAD_POINTER,), 4, page=1),
        encode("MOV.i32", (THREAD_POINTER + 1,), 5, page=1),
        store(THREAD, offset=12, flow=0),
        load(2, offset=12),
        address(4),
        store(2),
    ]
    assert run(bench, code, thread_bytes=16).tolist() == list(range(64))


def test_the_lane(bench: Bench) -> None:
    code = [encode("MOV.i32", (LANE,), 2, page=3), address(4), store(2)]
    assert run(bench, code).tolist() == [n % 16 for n in range(64)]


@pytest.mark.parametrize(
    ("name", "fields", "staged", "word", "given"),
    [
        ("ATOM.i32", {"atomic": ATOMIC_ADD, "count": 1}, (3, 0), 1000 + 3 * 64, None),
        ("ATOM_RETURN.i32", {"atomic": ATOMIC_ADD, "count": 1}, (3, 0), 1000 + 3 * 64, lambda n: 1000 + 3 * n),
        ("ATOM_RETURN.i32", {"atomic": ATOMIC_UMAX, "count": 1}, (5000, 0), 5000, lambda n: 5000 if n else 1000),
        ("ATOM_RETURN.i32", {"atomic": EXCHANGE, "count": 1}, (9, 0), 9, lambda n: 9 if n else 1000),
        (
            "ATOM_RETURN.i32",
            {"atomic": EXCHANGE, "count": 2, "compare": 1},
            (9, 1000),
            9,
            lambda n: 9 if n else 1000,
        ),
        ("ATOM1_RETURN.i32", {"atomic1": 0, "count": 1}, (0, 0), 1064, lambda n: 1000 + n),
        ("ATOM1_RETURN.i32", {"atomic1": 1, "count": 0}, (0, 0), 936, None),
    ],
)
def test_atomic_operations(
    bench: Bench, name: str, fields: dict[str, int], staged: tuple[int, int], word: int, given: object
) -> None:
    """In the order of threads; what they get is the word before."""
    bench.words(INPUT, 4)[:] = 0, 1000, 0, 0
    if name == "ATOM_RETURN.i32":
        fields = fields | {"result_register": 12}
    result = 12 if name == "ATOM_RETURN.i32" else 10
    code = [
        number(10, staged[0]),
        number(11, staged[1]),
        number(6, 0),
        address(4, U0, index=6),
        encode(name, (4,), 10, offset=4, flow=WAIT, **fields),
        address(4),
        store(result),
    ]
    found = run(bench, code)
    assert bench.words(INPUT, 2)[1] == word
    if given:
        assert found.tolist() == [given(n) for n in range(64)]  # type: ignore[operator]


# What ends a job: code, status, a part of the message; BASE + 8 is the second instruction.
REFUSED = {
    "an instruction that is none": ([number(0, 0), 0x01FF << 48], 0x51, "0008: an instruction that is not"),
    "zeros": ([number(0, 0), 0], 0x51, "0x7f0000000008"),
    "reserved bits": ([number(0, 0) | 1 << 63], 0x51, "0x7f0000000000"),
    "a flow of fragments": ([encode("NOP", flow=DISCARD)], 0x51, "flow"),
    "a uniform that is not there": ([encode("MOV.i32", (0x84,), 0)], 0x53, "push uniform"),
    "the core's number": ([encode("MOV.i32", (0xE6,), 0, page=3)], 0x53, "special operand"),
    "an odd pair": ([encode("IADD.u64", (0x81, 0), 0)], 0x53, "odd word"),
    "a pair of results that is odd": ([encode("IADD.u64", (0, 2), 1)], 0x53, "no pair"),
    "nothing of a result": ([encode("MOV.i32", (0,), 0, writes=0)], 0x53, "nothing is kept"),
    "storage of a thread": ([encode("MOV.i32", (THREAD_POINTER,), 0, page=1)], 0x54, "thread storage"),
    "storage of a workgroup": ([encode("MOV.i32", (GROUP_POINTER,), 0, page=1)], 0x54, "workgroup storage"),
    "registers after the last": ([encode("LOAD.i128", (4,), 62, count=4, unsigned=1)], 0x53, "after the last"),
    "another number of registers": ([encode("LOAD.i64", (4,), 0, count=1, unsigned=1)], 0x51, "of registers"),
    "an unknown slot": ([encode("STORE.i32", (4,), 0, count=1, slot=7)], 0x51, "slot"),
    "a barrier of another slot": ([encode("BARRIER", slot=0)], 0x51, "slot"),
    "a branch of all threads": ([encode("BRANCHZ", (0,), part0=3)], 0x51, "several threads"),
    "code that runs on": ([number(0, 0), encode("BRANCHZ", (ZERO,), eq=1, offset=1 << 20)], 0x50, "0x7f000080"),
    "an address that is no multiple": ([number(4, 2), number(5, 0), load(0)], 0x56, "no multiple of 4"),
    "memory that is not mapped": ([number(4, 0x100), number(5, 1), load(0)], 0x42, "0x100000100"),
    "a store where nothing is": ([number(4, 0x100), number(5, 1), store(0)], 0x43, "0x100000100"),
    "a table that is not there": (
        [number(2, 7 << 24), encode("LD_BUFFER.i32", (0, 2), 0, count=1, unsigned=1)], 0x53, "from table 7 of 1"
    ),
    "a buffer that is not there": (
        [number(2, 1), encode("LEA_BUFFER", (0, 2), 2, count=2)], 0x53, "from uniform buffer 1 of 1"
    ),
    "beyond a buffer": (
        [number(2, 0), number(0, 64), encode("LD_BUFFER.i32", (0, 2), 0, count=1, unsigned=1)], 0x53, "of 64 bytes"
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_ends_a_job(bench: Bench, what: str) -> None:
    code, status, message = REFUSED[what]
    assert bench.run([*code, encode("NOP", flow=END)], tables=[[(BASE + INPUT, 64)]]) == status, bench.error
    assert message in bench.error


def test_threads_that_do_not_end(bench: Bench) -> None:
    assert bench.run([encode("BRANCHZ", (ZERO,), eq=1, offset=-1)]) == 0x04
    assert "hang" in bench.error
