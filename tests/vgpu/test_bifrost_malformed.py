# SPDX-License-Identifier: BSD-2-Clause
"""Descriptors, clauses and pointers with one thing wrong in each: hundreds of them, none of which runs in silence.

What each must come to is only that it is found and located: an error that has a GPU address in it, or a fault of
the job with the address in a register; a status that is not "done"; nothing that the program would have written.
test_bifrost_errors.py has the messages.
"""

from __future__ import annotations

import functools
import itertools
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from host_tools.gpus.mali.descriptors import DRAW, HEADER, TABLE
from host_tools.gpus.mali.descriptors import STATE as RENDERER_STATE
from host_tools.gpus.mali.operations import add, fma
from host_tools.vgpu import VgpuError
from tests.support import bifrost_asm as asm
from tests.support.bifrost_asm import Tuple, block, clause, header, load, sources, store
from tests.support.bifrost_board import INPUT, OUTPUT, READ_ONLY, STATE, ShaderBoard
from tests.support.mali_model import PAGE, VA

DONE = 1
Change = Callable[[ShaderBoard], None]
Case = tuple[str, Change]
STORES = store(1, 1, 2, 60)  # a word of each thread's, to OUTPUT
FIRST = block(first=True)
TAGS_OF_FIRST = [tag for tag in range(256) if re.fullmatch("00101...|0.001...", f"{tag:08b}")]
KINDS = [job.number for job in TABLE.jobs.values()]
NOWHERE = {
    "an address that is not mapped": 0x12345678000,
    "the first page": 0x40,
    "the last page of 48 bits": 0xFFFF_FFFF_F000,
    "the page before the first": VA - PAGE,
    "a page after the last": VA + 32 * PAGE,
}
# Where a pointer lies that a compute job cannot do without.
DRAW_AT = VA + TABLE.jobs["compute"].parts["draw"].offset
POINTERS = {
    "state": DRAW_AT + DRAW["state"].words[0],
    "push uniforms": DRAW_AT + DRAW["push uniforms"].words[0],
    "thread storage": DRAW_AT + DRAW["thread storage"].words[0],
    "shader": STATE + RENDERER_STATE["shader"].words[0],
    "next job": VA + HEADER["next"].words[0],
}


def poked(at: int, data: bytes) -> Change:
    return lambda board: board.put(at, data)


def pointer(at: int, to: int) -> Change:
    return poked(at, struct.pack("<Q", to))


def bits(at: int, mask: int, value: int) -> Change:
    """Some bits of a word in memory."""

    def change(board: ShaderBoard) -> None:
        (before,) = board.words(at, 1).tolist()
        board.put(at, struct.pack("<I", before & ~mask & 0xFFFFFFFF | value))

    return change


def prepared(code: bytes, **options: Any) -> Change:
    """Another program before the one that stores."""
    return lambda board: board.prepare(code + STORES, **options)


def one(fma_word: int = asm.FMA_NOP, add_word: int = asm.ADD_NOP, at: int = FIRST, head: int = 0) -> bytes:
    """A clause of one tuple, which goes on with the next one."""
    return clause([Tuple(at, fma_word, add_word)], head or header())


def message(operation: int, segment: int, kind: int, uniform: int) -> bytes:
    """A clause with a message whose address is a uniform."""
    word = operation | segment << 6 | sources(asm.FAU_LOW, asm.FAU_HIGH)
    return one(add_word=word, at=block(fau=0x80 | uniform, first=True), head=header(message=kind))


def pointers() -> Iterator[Case]:
    """Of descriptors and code, of tensors, of storage, of uniform buffers, of the next job."""
    for (name, at), (what, to) in itertools.product(POINTERS.items(), NOWHERE.items()):
        yield f"{name}: {what}", pointer(at, to)
    for what, to in NOWHERE.items():
        yield f"an input: {what}", prepared(load(0, 1, 2, 0), uniforms=(to, OUTPUT))
        yield f"an output: {what}", prepared(b"", uniforms=(INPUT, to))
        local = struct.pack("<IIQQ", 1, 31, to, 0)
        loads = message(asm.LOAD[1], asm.THREAD, asm.LOAD_MESSAGE, 2)
        yield f"storage of threads: {what}", prepared(loads, storage=local, uniforms=(INPUT, OUTPUT, 0))
        loads = message(asm.LOAD[1], asm.UNIFORM_BUFFER, asm.LOAD_MESSAGE, 2)
        yield f"a uniform buffer: {what}", prepared(loads, buffers=[(to, 1)], uniforms=(INPUT, OUTPUT, 0))
    yield "an output that is only for reading", prepared(b"", uniforms=(INPUT, READ_ONLY))


def quadwords() -> Iterator[Case]:
    """A program that begins with a quadword of another kind, or goes on with one."""
    for tag in set(range(256)) - set(TAGS_OF_FIRST):
        yield f"a first quadword with tag {tag:#04x}", poked(VA + PAGE, bytes([tag]))
    first = bytes([0x28]) + one()[1:16]  # that another one follows
    for tag in (0x02, 0x18, 0x3F, 0x7F, *TAGS_OF_FIRST[:8]):
        yield f"a second quadword with tag {tag:#04x}", prepared(first + bytes([tag]) + bytes(15))


def unknown(known: Callable[[int], object], width: int) -> Sequence[int]:
    """Encodings that no operation has, spread over all that there are."""
    step = (1 << width) // 4096
    found = [word for word in range(step // 2, 1 << width, step) if known(word) is None]
    return found[:: max(1, len(found) // 24)]


def operations() -> Iterator[Case]:
    for word in unknown(fma, 23):
        yield f"an FMA operation {word:#x}", prepared(one(fma_word=word))
    for word in unknown(add, 20):
        yield f"an ADD operation {word:#x}", prepared(one(add_word=word))


def headers() -> Iterator[Case]:
    """Of clauses: messages without an operation, modes of floats, reserved bits."""
    for kind in set(range(1, 32)) - {asm.WIDE}:
        yield f"message type {kind} of nothing", prepared(one(head=header(message=kind)))
    for bit in (5, 6, 7, 8, 14):
        yield f"bit {bit} of a clause's header", prepared(one(head=header(others=1 << bit)))


def fields() -> Iterator[Case]:
    """Of descriptors."""
    control = VA + 4 * HEADER.words["control"]
    for kind in set(range(128)) - set(KINDS):
        yield f"job type {kind}", bits(control, 0xFE, kind << 1)
    yield "a header of 32 bits", bits(control, 1, 0)
    for bit in (10, 13):
        yield f"bit {bit} of the header", bits(control, 1 << bit, 1 << bit)
    for number in (0, 1):
        yield f"dependency {number + 1} on no job", bits(control + 4, 0xFFFF << 16 * number, 9 << 16 * number)
    for name, low, width in (("size y", 0, 5), ("size z", 5, 5), ("groups x", 10, 6), ("groups y", 16, 6)):
        yield f"{name} after what follows", bits(VA + 36, (1 << width) - 1 << low, 31 << low)
    stores = message(asm.STORE[1], asm.THREAD, asm.STORE_MESSAGE, 2)
    for size in range(16):
        local = struct.pack("<IIQQ", size, 31, INPUT, 0)
        beyond = prepared(stores, storage=local, uniforms=(INPUT, OUTPUT, 16 << size))
        yield f"a store after a thread's storage of 16 << {size}", beyond
    for size in range(20, 32):
        yield f"thread storage of 16 << {size}", prepared(b"", storage=struct.pack("<IIQQ", size, 31, INPUT, 0))
    yield "a preloaded program counter", prepared(b"", preload=1 << 6)


MADE = (pointers, quadwords, operations, headers, fields)


@functools.cache
def cases() -> dict[str, Change]:
    made = [case for kind in MADE for case in kind()]
    assert len(made) == len(dict(made)), "names are of one case each"
    return dict(made)


@pytest.mark.parametrize("name", cases())
def test_it_is_found_and_located(name: str) -> None:
    board = ShaderBoard(threads=1)
    board.prepare(STORES)
    cases()[name](board)
    before = board.words(OUTPUT, PAGE // 4)
    said = ""
    try:
        board.submit()
    except VgpuError as error:
        said = str(error)
    if said:
        assert re.search("GPU address 0x[0-9a-f]+", said), said
    else:
        assert board.gpu.counters().faults == 1
        assert board.read(0x2000) == 1, "the MMU's interrupt"
        assert board.slot(0x24) != DONE
        assert board.pair_read(0x2420) % (1 << 48) // PAGE in {to // PAGE for to in (*NOWHERE.values(), READ_ONLY)}
    later = name.startswith("next job")  # the first one was right, and done
    assert later == (board.status() == DONE)
    assert later or (board.words(OUTPUT, PAGE // 4) == before).all()


def test_without_a_change_the_job_is_done() -> None:
    """What the cases above begin with."""
    board = ShaderBoard(threads=1)
    board.prepare(STORES)
    assert board.go() == DONE
    assert board.words(OUTPUT, 64).tolist() == list(range(64))


def test_there_are_hundreds() -> None:
    assert len(cases()) >= 300
    assert all(sum(1 for _ in made()) >= 25 for made in MADE)
