# SPDX-License-Identifier: BSD-2-Clause
"""Loads and stores of less than words, uniform buffers, atomic operations, and what threads of a warp exchange."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from host_tools.vgpu import VgpuError
from tests.support import bifrost_asm as asm
from tests.support.bifrost_asm import Tuple, block, block_high, clause, header, load, sources, store
from tests.support.bifrost_board import CODE, INPUT, OUTPUT, ShaderBoard, Words
from tests.support.mali_model import PAGE, VA

IDS = np.arange(64, dtype=np.uint32)
THREAD_ID, OLD = 60, 4
OPERAND, ALIGNMENT = 0x53, 0x56
KEPT = 0xA5A5A5A5


@pytest.fixture
def board() -> ShaderBoard:
    return ShaderBoard()


def message(add: int, index: int, shift: int, uniform: int, kind: int, staging: int, flow: int = 1) -> bytes:
    """A clause that accesses memory at push uniform `uniform` + (register `index` << shift)."""
    fma = 0x70E400 | shift << 6 | sources(asm.FAU_LOW, 0)
    tuples = [Tuple(block_high(index, asm.UNIFORM | uniform), fma, add | sources(asm.T, asm.FAU_HIGH))]
    return clause(tuples, header(flow=flow, message=kind, staging=staging))


# What a load does with its bytes: encoding, bytes, alignment, the first bit, bits that are written, sign.
LOADS = {
    **{f"i8 to byte {n}": (0x60000 | n << 9, 1, 1, 8 * n, 8, False) for n in range(4)},
    **{f"i16 to half {n}": (0x60800 | n << 9, 2, 2, 16 * n, 16, False) for n in range(2)},
    **{
        f"{'u' if zero else 's'}8 to half {n}": (0x63800 | zero << 9 | n << 10, 1, 1, 16 * n, 16, not zero)
        for n, zero in itertools.product((0, 1), (0, 1))
    },
    **{
        f"{'u' if zero else 's'}{8 * size} to {n} words": (word | zero << 9, size, size, 0, 32 * n, not zero)
        for zero in (0, 1)
        for word, size, n in (
            (0x63400, 1, 1), (0x61400, 1, 2), (0x63000, 2, 1), (0x61800, 2, 2), (0x61C00, 4, 2),
        )
    },
    "i24": (0x65000, 3, 1, 0, 24, False),
    "i48": (0x65200, 6, 2, 0, 48, False),
}  # fmt: skip


def in_memory(data: bytes, at: int, size: int, signed: bool) -> int:
    return int.from_bytes(data[at : at + size], "little", signed=signed)


@pytest.mark.parametrize("name", LOADS)
def test_a_load_of_less_than_words(board: ShaderBoard, name: str) -> None:
    """At addresses around a page's end; what is not written stays."""
    word, size, align, low, width, signed = LOADS[name]
    shift = align.bit_length() - 1
    start = PAGE - 32 * align
    data = np.random.default_rng(4).integers(0, 256, 4096, np.uint8).tobytes()
    board.put(INPUT + start, data[:512])
    board.put_words(OUTPUT + 2048, np.full(128, KEPT, np.uint32))
    part = message(word | asm.PLAIN << 6, THREAD_ID, shift, 0, asm.LOAD_MESSAGE, OLD)
    board.prepare(load(2, 2, 3, OLD) + part + store(1, 2, 3, OLD), uniforms=(INPUT + start, OUTPUT, OUTPUT + 2048))
    assert board.go() == 1
    mask = (1 << width) - 1 << low
    before = KEPT << 32 | KEPT
    wanted = [before & ~mask | in_memory(data, align * i, size, signed) << low & mask for i in range(64)]
    found = board.words(OUTPUT, 128).view(np.uint64)
    assert [int(x) for x in found] == wanted


@pytest.mark.parametrize(("word", "size"), [(0x62000, 1), (0x62800, 2), (0x65800, 3), (0x65A00, 6)])
def test_a_store_of_less_than_words(board: ShaderBoard, word: int, size: int) -> None:
    data = np.random.default_rng(5).integers(0, 2**32, 128, np.uint32)
    board.put_words(INPUT, data)
    put = message(word | asm.PLAIN << 6, THREAD_ID, 3, 1, asm.STORE_MESSAGE, OLD, flow=0)
    board.prepare(load(0, 2, 3, OLD) + put)
    board.put_words(OUTPUT, np.full(128, KEPT, np.uint32))
    assert board.go() == 1
    mask = np.uint64((1 << 8 * size) - 1)
    before = np.uint64(KEPT << 32 | KEPT)
    wanted = before & ~mask | data.view(np.uint64) & mask
    assert np.array_equal(board.words(OUTPUT, 128).view(np.uint64), wanted)


@pytest.mark.parametrize(("word", "align"), [(0x60800, 2), (0x65200, 2), (0x61C00, 4)])
def test_an_address_of_less_than_words_is_aligned(board: ShaderBoard, word: int, align: int) -> None:
    code = message(word | asm.PLAIN << 6, 0, 0, 0, asm.LOAD_MESSAGE, OLD, flow=0)
    board.prepare(code, uniforms=(INPUT + align // 2,))
    where = f"a load at GPU address {INPUT + align // 2:#x}, which is no multiple of {align}"
    with pytest.raises(VgpuError, match=where):
        board.submit()
    assert board.status() == ALIGNMENT


# ---- uniform buffers ----


def from_buffer(words: int = 1) -> bytes:
    """Load at 4 * thread of the uniform buffer that u2 says."""
    offset = clause(
        [
            Tuple(block_high(THREAD_ID, 0x42), fma=0x329000 | sources(0, 3, asm.FAU_LOW)),
            Tuple(block(two=8, mode=asm.WRITE_FMA)),
        ],
        header(),
        [0],
    )
    take = clause(
        [
            Tuple(
                block(8, 8, fau=asm.UNIFORM | 2, first=True),
                add=asm.LOAD[words] | asm.UNIFORM_BUFFER << 6 | sources(0, asm.FAU_LOW),
            )
        ],
        header(message=asm.LOAD_MESSAGE, staging=OLD),
    )
    return offset + take + store(1, 1, 2, OLD)


BUFFERS = ((0, 0), (OUTPUT + 1024, 1), (INPUT + 64, 16))


def test_a_load_from_a_uniform_buffer(board: ShaderBoard) -> None:
    board.put_words(INPUT, np.arange(1024, dtype=np.uint32))
    board.prepare(from_buffer(), uniforms=(INPUT, OUTPUT, 2), buffers=BUFFERS)
    assert board.go() == 1
    assert np.array_equal(board.words(OUTPUT, 64), IDS + 16)


@pytest.mark.parametrize(
    ("buffer", "words", "text"),
    [
        (0, 1, "a load at 0x0 in a uniform buffer of 0 bytes"),
        (1, 1, "a load at 0x10 in a uniform buffer of 16 bytes"),
        (2, 2, "a load at 0xfc in a uniform buffer of 256 bytes"),
        (3, 1, "a load from uniform buffer 3 of 3"),
        (0xFFFFFFFF, 1, "a load from uniform buffer 4294967295 of 3"),
    ],
)
def test_a_load_beyond_a_uniform_buffer(board: ShaderBoard, buffer: int, words: int, text: str) -> None:
    board.prepare(from_buffer(words), uniforms=(INPUT, OUTPUT, buffer), buffers=BUFFERS)
    with pytest.raises(VgpuError, match=rf"clause at GPU address 0x[0-9a-f]+: {re.escape(text)}"):
        board.submit()
    assert board.status() == OPERAND


def test_a_table_of_uniform_buffers_that_is_not_mapped(board: ShaderBoard) -> None:
    board.prepare(from_buffer(), uniforms=(INPUT, OUTPUT, 2), buffers=BUFFERS)
    board.put(VA + 64 + 24, (0x12345678000).to_bytes(8, "little"))
    board.submit()
    assert board.status() == 0x42


# ---- atomic operations ----


def atomic(fma: int, returns: bool, wide: bool = True) -> bytes:
    """Of the words at u1 and what r4 holds, in turn; what was there before goes to u3 + 4 * thread."""
    operands = sources(asm.FAU_LOW, asm.FAU_HIGH, *([0] if wide else []))
    act = clause(
        [Tuple(block(4, 4, fau=asm.UNIFORM | 1, first=True), fma=fma | operands | returns << 13, add=0xD7400)],
        header(message=asm.ATOMIC_MESSAGE, staging=OLD),
    )
    post = clause(
        [
            Tuple(block(4, 5, first=True), fma=0x6EE400 | POST << 6 | sources(0, 1)),
            Tuple(block(two=8, mode=asm.WRITE_FMA)),
        ],
        header(),
    )
    return load(0, 1, 2, OLD) + act + post + store(3, 1, 2, 8)


POST = 2
MERGES: dict[int, Callable[..., Any]] = {
    2: np.add, 8: lambda x, y: np.minimum(x.view(np.int32), y.view(np.int32)).view(np.uint32),
    9: lambda x, y: np.maximum(x.view(np.int32), y.view(np.int32)).view(np.uint32),
    10: np.minimum, 11: np.maximum, 12: np.bitwise_and, 13: np.bitwise_or, 14: np.bitwise_xor,
}  # fmt: skip


def in_turn(data: Words, first: int, merge: Callable[..., Any]) -> tuple[Words, int]:
    """The word before each operation, and the last one."""
    before = [first]
    for value in data:
        before.append(int(merge(np.array([before[-1]], np.uint32), np.array([value], np.uint32))[0]))
    return np.array(before[:-1], np.uint32), before[-1]


@pytest.mark.parametrize("opcode", MERGES)
@pytest.mark.parametrize("returns", [True, False])
def test_an_atomic_operation(board: ShaderBoard, opcode: int, returns: bool) -> None:
    data = np.random.default_rng(opcode).integers(0, 2**32, 64, np.uint32)
    board.put_words(INPUT, data)
    board.put_words(OUTPUT, np.array([0x12345678], np.uint32))
    code = atomic(0x2F4000 | opcode << 9, returns)
    uniforms = (INPUT, OUTPUT, 0, OUTPUT + 1024)
    board.prepare(code, uniforms=uniforms)
    assert board.go() == 1
    before, last = in_turn(data, 0x12345678, MERGES[opcode])
    assert int(board.words(OUTPUT, 1)[0]) == last
    if returns and opcode == POST:
        assert np.array_equal(board.words(OUTPUT + 1024, 64), before)


@pytest.mark.parametrize(
    ("number", "opcode", "by"), [(0, 2, 1), (1, 2, 0xFFFFFFFF), (2, 11, 1), (3, 9, 1), (4, 13, 1)]
)
def test_an_atomic_operation_with_one(board: ShaderBoard, number: int, opcode: int, by: int) -> None:
    board.put_words(OUTPUT, np.array([0x80000000], np.uint32))
    board.prepare(atomic(0x2F5E00 | number << 6, True, wide=False), uniforms=(INPUT, OUTPUT, 0, OUTPUT + 1024))
    assert board.go() == 1
    _, last = in_turn(np.full(64, by, np.uint32), 0x80000000, MERGES[opcode])
    assert int(board.words(OUTPUT, 1)[0]) == last


@pytest.mark.parametrize("compares", [False, True])
def test_an_exchange(board: ShaderBoard, compares: bool) -> None:
    """Thread by thread of the word at u1: with a new one, or where it is what the thread expects."""
    new = np.arange(100, 164, dtype=np.uint32)
    expected = np.where(IDS % 3 == 0, new - 1, 7).astype(np.uint32)
    board.put_words(INPUT, np.stack([new, expected], 1))
    board.put_words(OUTPUT, np.array([99], np.uint32))
    act = clause(
        [
            Tuple(
                block(fau=asm.UNIFORM | 1, first=True),
                add=(0x644C0 if compares else 0x640C0) | sources(asm.FAU_LOW, asm.FAU_HIGH),
            )
        ],
        header(message=asm.ATOMIC_MESSAGE, staging=OLD),
    )
    board.prepare(load(0, 2, 3, OLD) + act + store(2, 1, 2, OLD), uniforms=(INPUT, OUTPUT, OUTPUT + 1024))
    assert board.go() == 1
    word, before = 99, []
    for i in range(64):
        before.append(word)
        word = int(new[i]) if not compares or word == expected[i] else word
    assert board.words(OUTPUT + 1024, 64).tolist() == before
    assert int(board.words(OUTPUT, 1)[0]) == word


REFUSED = {
    "an operation without its ADD": (0x2F4000 | 2 << 9, asm.ADD_NOP, 0, "an atomic operation without its ADD"),
    "an ADD without its operation": (asm.FMA_NOP, 0xD7400, 7, "it completes an FMA operation that is not there"),
    "an unknown operation": (0x2F4000 | 3 << 9, 0xD7400, 7, "an FMA operation that is not known (0x2f4600)"),
    "an unknown operation with one": (0x2F5E00 | 5 << 6, 0xD7400, 7, "an FMA operation that is not known"),
    "of 64 bits": (0x2F0000 | 2 << 9, 0xD7400, 7, "an FMA operation that is not known"),
    "another message": (0x2F4000 | 2 << 9, 0xD7400, 5, "message type in a clause header"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_atomic_operation_that_is_refused(board: ShaderBoard, case: str) -> None:
    fma, add, kind, text = REFUSED[case]
    code = clause([Tuple(block(first=True), fma, add)], header(flow=0, message=kind))
    board.prepare(code)
    with pytest.raises(VgpuError, match=rf"clause at GPU address {CODE:#x}: .*{re.escape(text)}"):
        board.submit()


# ---- what threads of a warp exchange ----


def exchanged(board: ShaderBoard, add: int, size: tuple[int, int, int], only: int | None = None) -> Words:
    """For each of 64 threads what the operation gives for two words of its own; threads from `only` on end."""
    end = b""
    if only is not None:
        test, _ = asm.branch(2, 0, asm.T1, 0)
        end = clause(
            [
                Tuple(block_high(THREAD_ID, 0x82), add=0x3D968 | sources(asm.FAU_LOW)),
                Tuple(2 << 8 | 2 << 14 | 3 << 20 | 2 << 25 | 5 << 31, add=test & ~(7 << 6) | asm.FAU_LOW << 6),
            ],
            header(),
        )
    act = clause(
        [
            Tuple(block(4, 5, first=True), add=add),
            Tuple(block(two=8, mode=asm.WRITE_ADD)),
        ],
        header(),
    )
    groups = 64 // size[0]
    board.prepare(
        end + load(0, 2, 3, OLD) + act + store(1, 1, 2, 8), size=size, groups=(groups, 1, 1),
        uniforms=(INPUT, OUTPUT, only or 0),
    )  # fmt: skip
    board.put_words(OUTPUT, np.full(64, KEPT, np.uint32))
    assert board.go() == 1
    return board.words(OUTPUT, 64)


@pytest.mark.parametrize("size", [(64, 1, 1), (16, 1, 1), (2, 1, 1)])
@pytest.mark.parametrize(
    ("add", "part", "by_own"),
    [(0x3F0C0, 4, False), (0x7C100, 4, False), (0x7C140, 4, True), (0x7C000, 2, False), (0x7C240, 8, True)],
)
def test_a_word_of_another_lane(
    board: ShaderBoard, size: tuple[int, int, int], add: int, part: int, by_own: bool
) -> None:
    """Of a lane that is not there: 0. A workgroup begins a warp; the warps of a G71 have four threads."""
    generator = np.random.default_rng(part)
    data = np.stack([generator.integers(1, 2**32, 64, np.uint32), generator.integers(0, 9, 64, np.uint32)], 1)
    board.put_words(INPUT, data)
    found = exchanged(board, add | sources(0, 1), size)
    for i in range(64):
        inside = i % size[0]
        lane = inside % 4
        wanted = (int(data[i, 1]) ^ (lane if by_own else 0)) % part
        other = i - lane % part + wanted
        same_group = 0 <= other < 64 and other // size[0] == i // size[0]
        assert found[i] == (data[other, 0] if same_group else 0), i


@pytest.mark.parametrize(("code", "part"), [(0, 2), (1, 4)])
def test_which_lanes_hold_a_condition(board: ShaderBoard, code: int, part: int) -> None:
    data = np.random.default_rng(code).integers(0, 2, (64, 2)).astype(np.uint32) * np.uint32(0xFFFF0000)
    board.put_words(INPUT, data)
    found = exchanged(board, 0x3D700 | code << 4, (64, 1, 1))
    for i in range(64):
        first = i - i % part
        assert found[i] == sum((data[first + j, 0] > 0) << j for j in range(part))


def test_lanes_that_do_not_take_part(board: ShaderBoard) -> None:
    """Threads from 6 on have ended: two of the second warp are left."""
    board.put_words(INPUT, np.ones((64, 2), np.uint32))
    found = exchanged(board, 0x3D700 | 1 << 4, (64, 1, 1), only=6)
    assert found[:6].tolist() == [15, 15, 15, 15, 3, 3]
    assert (found[6:] == KEPT).all()


@pytest.mark.parametrize("add", [0x7C080, 0x7C0C0, 0x7C300, 0x7C400, 0x3D708, 0x3D730])
def test_an_exchange_whose_meaning_is_not_known(board: ShaderBoard, add: int) -> None:
    board.prepare(clause([Tuple(block(4, 5, first=True), add=add)], header(flow=0)))
    with pytest.raises(VgpuError, match="an ADD operation that is not known"):
        board.submit()
