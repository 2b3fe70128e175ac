# SPDX-License-Identifier: BSD-2-Clause
"""Bifrost programs on the virtual Mali: threads, messages, storage, branches, barriers, 64-bit clauses."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from host_tools.vgpu.binding import ACCESS_READ_FIRST, ACCESS_WRITTEN
from tests.support import bifrost_asm as asm
from tests.support.bifrost_asm import Tuple, block, block_high, clause, header, load, sources, store
from tests.support.bifrost_board import CODE, GLOBAL_IDS, INPUT, OUTPUT, ShaderBoard, invocation
from tests.support.mali_model import DATA, LEAF, PAGE, RW, VA

IDS = np.arange(256, dtype=np.uint32)
LSHIFT_ADD, LSHIFT_RSUB = 0x329000, 0x32D000
ICMP_BRANCH_GT, LESS = 3, 0
MOV, LANE = 0x701968, 1  # of the FMA; index of the lane's number in the FAU


@pytest.fixture
def board() -> ShaderBoard:
    return ShaderBoard()


@pytest.mark.parametrize(
    ("register", "bit"), [(55, 7), (56, 8), (57, 9), (58, 10), (59, 11), (60, 12), (61, 13), (62, 14)]
)
def test_registers_that_are_preloaded(board: ShaderBoard, register: int, bit: int) -> None:
    """Six threads in x, two in y and z; groups 3 x 2 x 2. Each writes at its global x; the last one wins."""
    size, groups = (6, 2, 2), (3, 2, 2)
    z, y, x = np.meshgrid(np.arange(4), np.arange(4), np.arange(18), indexing="ij")
    wanted = {
        55: x % 6 | (y % 2) << 16, 56: z % 2, 57: x // 6, 58: y // 2, 59: z // 2, 60: x, 61: y, 62: z,
    }[register]  # fmt: skip
    program = store(1, 1, 2, register, index=60)
    board.prepare(program, size=size, groups=groups, preload=GLOBAL_IDS | 1 << bit)
    assert board.go() == 1
    assert np.array_equal(board.words(OUTPUT, 18), wanted[-1, -1].astype(np.uint32))


@pytest.mark.parametrize(("gpu", "warp"), [("mali_g71", 4), ("mali_g72", 4), ("mali_g52r1", 8), ("mali_g31", 8)])
def test_lanes_are_counted_within_a_warp(gpu: str, warp: int) -> None:
    """At addresses of less than 33 bits, which all of them have."""
    board, low, pages = ShaderBoard(gpu=gpu), 0x10000000, 5
    lane = clause(
        [
            Tuple(block(fau=LANE, first=True), fma=MOV | sources(asm.FAU_LOW)),
            Tuple(block(two=8, mode=asm.WRITE_FMA)),
        ],
        header(),
    )
    board.prepare(lane + store(1, 1, 2, 8))
    for i in range(pages):
        board.tables.set(low + i * PAGE, DATA + i * PAGE | LEAF | RW)
    job = board.words(VA, PAGE // 4).view(np.uint64)
    job[(job >= VA) & (job < VA + pages * PAGE)] -= np.uint64(VA - low)
    board.put(VA, job.tobytes())
    board.submit(low, affinity=1)
    assert board.status() == 1
    assert np.array_equal(board.words(OUTPUT, 64), IDS[:64] % warp)


@pytest.mark.parametrize("words", [1, 2, 3, 4])
def test_messages_of_each_size(board: ShaderBoard, words: int) -> None:
    """At addresses that are multiples of 4 only, so that some are in two pages."""
    data = np.arange(1, 1025, dtype=np.uint32)
    board.put_words(INPUT + PAGE - 128, data[:512])
    board.prepare(load(0, words, 2, 4) + store(1, words, 4, 4), uniforms=(INPUT + PAGE - 128, OUTPUT + 1024))
    assert board.go() == 1
    found = board.words(OUTPUT + 1024, 256).reshape(64, 4)[:, :words]
    assert np.array_equal(found, np.stack([data[i : i + 64] for i in range(words)], 1))


def test_a_loop_that_threads_leave_one_by_one(board: ShaderBoard) -> None:
    """r1 counts up to the thread's number, and at least to 1."""
    again, constant = asm.branch(ICMP_BRANCH_GT, 0, asm.T1, 0)
    loop = clause(
        [
            Tuple(block(1, 1, fau=0x41, first=True), add=0xBC600 | sources(0, asm.FAU_LOW)),
            Tuple(0x41 | 1 << 8 | 1 << 14 | 3 << 20 | 2 << 25 | 5 << 31, add=again),
        ],
        header(),
        [constant],
        (4, 0),
    )
    board.prepare(loop + store(1, 1, 2, 1), groups=(4, 1, 1))
    assert board.go() == 1
    assert np.array_equal(board.words(OUTPUT, 256), np.maximum(IDS, 1))


def test_threads_that_branch_past_a_store(board: ShaderBoard) -> None:
    """Those below u2 skip it; after it all go on together."""
    board.put_words(OUTPUT, np.full(512, 7))
    first = clause([Tuple(block_high(60, 0x82), add=0x3D968 | sources(asm.FAU_LOW)),
                    Tuple(0x40 | 2 << 8 | 2 << 14 | 3 << 20 | 2 << 25 | 5 << 31,
                          add=0x68000 | LESS << 9 | sources(0, asm.T1, asm.FAU_HIGH))],
                   header(), [48 + 16 << 28], (4, 0))  # fmt: skip
    assert len(first) == 48
    board.prepare(first + store(1, 1, 2, 60, flow=1) + store(3, 1, 2, 60), groups=(4, 1, 1),
                  uniforms=(INPUT, OUTPUT, 100, OUTPUT + 1024))  # fmt: skip
    assert board.go() == 1
    assert np.array_equal(board.words(OUTPUT, 256), np.where(IDS < 100, 7, IDS))
    assert np.array_equal(board.words(OUTPUT + 1024, 256), IDS)


@pytest.mark.parametrize(
    ("fau", "source", "constants"),
    [(0, asm.FAU_LOW, []), (0x40, asm.FAU_LOW, [10 << 28]), (0x40, asm.FAU_HIGH, [5])],
    ids=["the FAU's zero", "a constant's low word", "a constant's high word"],
)
def test_a_branch_without_a_target_ends_threads(
    board: ShaderBoard, fau: int, source: int, constants: list[int]
) -> None:
    board.put_words(OUTPUT, np.full(64, 7))
    end = clause(
        [Tuple(block_high(60, fau), add=0x6F800 | sources(0, 0, source))], header(), constants
    )  # if not 0
    board.prepare(end + store(1, 1, 2, 60))
    assert board.go() == 1
    assert board.words(OUTPUT, 64).tolist() == [0] + [7] * 63


def shared_program() -> bytes:
    """Each thread puts its number into the group's storage, and takes that of the thread as far from the end."""
    addresses = clause(
        [
            Tuple(block_high(60, 0x42), LSHIFT_ADD | sources(0, 3, asm.FAU_LOW)),
            Tuple(10 << 8 | 10 << 14 | 0x82 | 1 << 31, LSHIFT_RSUB | sources(asm.T0, asm.FAU_LOW, 3)),
            Tuple(11 << 8 | 11 << 14 | 1 << 31),
        ],
        header(),
        [0],
    )
    put = clause([Tuple(block(10, 10, first=True), add=asm.STORE[1] | asm.GROUP << 6 | sources(0, asm.FAU_LOW))],
                 header(message=asm.STORE_MESSAGE, staging=60))  # fmt: skip
    barrier = clause([Tuple(block(first=True), add=0xD7874)], header(message=asm.BARRIER_MESSAGE))
    take = clause([Tuple(block(11, 11, first=True), add=asm.LOAD[1] | asm.GROUP << 6 | sources(0, asm.FAU_LOW))],
                  header(message=asm.LOAD_MESSAGE))  # fmt: skip
    return addresses + put + barrier + take + store(1, 1, 2, 0)


def test_a_barrier_between_threads_of_a_group(board: ShaderBoard) -> None:
    storage = struct.pack("<IIQQ", 0, 0, 0, INPUT)
    board.prepare(
        shared_program(), size=(200, 1, 1), uniforms=(INPUT, OUTPUT, 199 * 4), storage=storage, barrier=True
    )
    assert board.go() == 1
    assert board.words(OUTPUT, 200).tolist() == list(range(199, -1, -1))


@pytest.mark.parametrize("size", [0, 1, 3])
def test_each_thread_has_storage_of_its_own(board: ShaderBoard, size: int) -> None:
    """16 << size bytes; stored by offset, and by an address that SEG_ADD makes of it."""
    put = clause([Tuple(block_high(60, 0x48), add=asm.STORE[1] | asm.THREAD << 6 | sources(asm.FAU_LOW,
        asm.FAU_HIGH))],
                 header(message=asm.STORE_MESSAGE, staging=60), [0])  # fmt: skip
    pointer = clause(
        [
            Tuple(0x48 | 8 << 31, 0x701500 | asm.THREAD << 3 | sources(asm.FAU_LOW),
                  0x3D500 | asm.THREAD << 3 | sources(asm.FAU_HIGH)),
            Tuple(8 << 14 | 9 << 8 | 15 << 31),
        ], header(), [0])  # fmt: skip
    take = clause([Tuple(block(8, 9, first=True), add=asm.LOAD[1] | asm.PLAIN << 6 | sources(0, 1))],
                  header(message=asm.LOAD_MESSAGE))  # fmt: skip
    threads = 8 if size == 3 else 64  # all within a page
    storage = struct.pack("<IIQQ", size, 31, INPUT, 0)
    board.prepare(put + pointer + take + store(1, 1, 2, 0), size=(threads, 1, 1), storage=storage)
    assert board.go() == 1
    assert board.words(OUTPUT, threads).tolist() == list(range(threads))
    words = 4 << size
    assert board.words(INPUT, threads * words).reshape(threads, words)[:, 2].tolist() == list(range(threads))


def test_multiplications_of_64_bits(board: ShaderBoard) -> None:
    """Pairs 0 (r0, r1) and 1; the second tuple takes the first one's result, its own goes to pair 4 (r8, r9)."""
    rows = np.random.default_rng(5).integers(0, 2**32, (64, 4), np.uint32)
    wide = clause(
        [
            Tuple(asm.wide_block(0, 1, 0, 6, mode=0xFB) | 7 << 13, 0x720000 | sources(0, 1, 3), 0x3D965),
            Tuple(asm.wide_block(0, 1, 1, 8), 0x720000 | sources(0, asm.T0, 2), 0x3D965),
            Tuple(asm.wide_block(0, 0, 4, 6, mode=0xFB), 0x720000 | sources(0, 0, 3), 0x3D965),
        ],
        header(message=asm.WIDE),
    )
    board.prepare(load(0, 4, 4, 0) + wide + store(1, 2, 3, 8))
    board.put_words(INPUT, rows)
    assert board.go() == 1
    a, b = rows.astype(np.uint64).view(np.uint64).reshape(64, 2, 2).transpose(1, 0, 2) @ np.array(
        [1, 1 << 32], np.uint64
    )
    result = board.words(OUTPUT, 128).view(np.uint64)
    assert np.array_equal(result, a * (a * b) + b)


def test_results_arrive_one_tuple_late(board: ShaderBoard) -> None:
    """r0 is changed by the first tuple; the second still reads the old one, and the new one as t0."""
    rows = np.random.default_rng(6).integers(0, 2**32, (64, 4), np.uint32)
    program = clause(
        [
            Tuple(block(0, 1, first=True), 0x73C000 | sources(0, 1, 3)),  # t0 = r0 * r1
            Tuple(block(0, 1, three=0, mode=asm.WRITE_FMA), 0x701968 | sources(0), 0xBC600 | sources(0, asm.T0)),
            Tuple(block(0, 1, two=8, three=9, mode=asm.WRITE_BOTH)),
        ],
        header(),
    )
    board.prepare(load(0, 4, 4, 0) + program + store(1, 2, 3, 8))
    board.put_words(INPUT, rows)
    assert board.go() == 1
    old, new = rows[:, 0], rows[:, 0] * rows[:, 1]
    assert np.array_equal(board.words(OUTPUT, 128).reshape(64, 2), np.stack([old, old + new], 1))


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_any_number_of_worker_threads(threads: int) -> None:
    """A loop long enough that workers start, and the counters: r1 counts up to r2."""
    board, rounds = ShaderBoard(threads=threads), 5000
    again, constant = asm.branch(ICMP_BRANCH_GT, 0, asm.T1, 0)
    loop = clause(
        [
            Tuple(block(1, 1, fau=0x41, first=True), add=0xBC600 | sources(0, asm.FAU_LOW)),
            Tuple(block(2, 2, fau=0x41, three=1, mode=asm.WRITE_ADD), add=again),
        ],
        header(),
        [constant],
        (4, 0),
    )
    board.put_words(INPUT, np.array([0, 0, rounds, 0]))
    board.prepare(load(0, 4, 0, 0, index=55) + loop + store(1, 1, 2, 1), groups=(16, 1, 1))
    assert board.go() == 1
    assert board.words(OUTPUT, 1024).tolist() == [rounds] * 1024
    counters = board.gpu.counters()
    header_bytes = 16  # the status in the job's header
    assert (counters.instructions, counters.bytes_written) == (1024 * (4 * rounds + 4), 4096 + header_bytes)


def test_what_a_job_touches_byte_by_byte() -> None:
    board = ShaderBoard(track_access=True)
    board.prepare(load(0, 1, 3, 0) + store(1, 1, 4, 0))
    assert board.go() == 1
    seen = board.gpu.access_map()
    place = {name: DATA + va - VA for name, va in (("code", CODE), ("input", INPUT), ("output", OUTPUT))}
    read = seen[place["input"]][: 64 * 8].reshape(64, 8)
    assert (read[:, :4] & ACCESS_READ_FIRST != 0).all()
    assert not read[:, 4:].any()
    written = seen[place["output"]][: 64 * 16].reshape(64, 16)
    assert (written[:, :4] == ACCESS_WRITTEN).all()
    assert not written[:, 4:].any()
    assert (seen[place["code"]][:32] & ACCESS_READ_FIRST != 0).all()
    assert not seen[place["code"]][32:].any()


def test_an_invocation_is_packed_as_short_as_it_can_be() -> None:
    assert invocation((1, 1, 1), (1, 1, 1)) == bytes(8)
