# SPDX-License-Identifier: BSD-2-Clause
"""Bifrost clauses from tuples, and programs that run one tuple for each thread on words from memory.

Forms of clauses, register blocks and headers: Mesa 22.3.6 src/panfrost/bifrost/disassemble.c, ISA.xml.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

FMA_NOP, ADD_NOP = 0x701963, 0x3D960
FLOW_END, FLOW_ON = 0, 1
LOAD_MESSAGE, STORE_MESSAGE, ATOMIC_MESSAGE, BARRIER_MESSAGE, WIDE = 5, 6, 7, 8, 15
T, FAU_LOW, FAU_HIGH, T0, T1 = 3, 4, 5, 6, 7  # codes of sources
UNIFORM, ZERO = 0x80, 0
CONSTANT = (0x40, 0x50, 0x60, 0x70, 0x20, 0x30)  # FAU index of a clause's constants
# Modes of ports 2 and 3: port 2 is read; the FMA's, the ADD's, both results are written.
IDLE, READ, WRITE_FMA, WRITE_ADD, READ_FMA, READ_ADD, WRITE_BOTH = 16, 20, 17, 21, 3, 6, 15
LOAD = {1: 0x60C00, 2: 0x60E00, 3: 0x65400, 4: 0x61000}
STORE = {1: 0x62C00, 2: 0x62E00, 3: 0x65C00, 4: 0x61200}
PLAIN, GROUP, UNIFORM_BUFFER, THREAD = 1, 2, 4, 7  # segments of messages


@dataclass(frozen=True)
class Tuple:
    """Register block, FMA and ADD operation."""

    block: int
    fma: int = FMA_NOP
    add: int = ADD_NOP


def sources(*codes: int) -> int:
    """Codes of sources as operations hold them."""
    return sum(code << 3 * place for place, code in enumerate(codes))


def block(
    low: int = 0,
    high: int = 0,
    *,
    fau: int = ZERO,
    two: int = 0,
    three: int = 0,
    mode: int = IDLE,
    first: bool = False,
) -> int:
    """A register block of 32 bits; ports 0 and 1 read `low` and `high`.

    Args:
        low, high: registers, not in descending order, `low` below 32.
        two, three: registers of ports 2 and 3; modes from 16 on have one for both, except in the first tuple.
    """
    if first:
        control = mode & 7 | (mode & 16) >> 1
    elif mode == IDLE:
        control, two, three = 11, 0, 0  # mode 27, which is as idle
    else:
        control = mode & 15
        if mode >= 16:
            two = three = two or three
    return fau | three << 8 | two << 14 | low << 20 | high << 25 | control << 31


def wide_block(a: int, b: int, p: int, q: int, *, fau: int = ZERO, mode: int = 0xFA) -> int:
    """A register block of 64 bits: numbers of pairs."""
    return fau | p << 8 | q << 13 | a << 18 | b << 22 | mode << 27


def header(*, flow: int = FLOW_ON, message: int = 0, staging: int = 0, others: int = 0) -> int:
    """A clause's header of 45 bits; `others`: further bits."""
    return flow << 11 | staging << 18 | message << 35 | others


def _main(item: Tuple) -> int:
    return item.block | item.fma << 35 | (item.add & 0x1FFFF) << 58


def clause(
    items: Sequence[Tuple], head: int, constants: Sequence[int] = (), modifiers: tuple[int, int] = (0, 0)
) -> bytes:
    """A clause of 1, 2 or 3 tuples.

    Args:
        items: tuples.
        head: from `header`.
        constants: of 60 bits, at most two (with 3 tuples: one); their low 4 bits come from the FAU index.
        modifiers: M1 and M2, which say what of the constants is relative.
    """
    words: list[int] = []
    high = [item.add >> 17 for item in items]
    ends = 0x40 if not constants or len(items) == 3 else 0
    if len(items) == 1:
        words = [0x08 | ends | high[0] | _main(items[0]) << 8 | head << 83]
        place = 0
    else:
        words = [0x28 | high[0] | _main(items[0]) << 8 | head << 83]
    if len(items) == 2:
        words += [0x03 | ends | _main(items[1]) << 8 | high[1] << 125]
        place = 1
    if len(items) == 3:
        low, rest = _main(items[2]) & (1 << 45) - 1, _main(items[2]) >> 45
        words += [0x20 | high[1] | _main(items[1]) << 8 | low << 83]
        constant = constants[0] if constants else 0
        words += [0x44 | constant << 8 | modifiers[0] << 68 | modifiers[1] << 72 | rest << 83 | high[2] << 125]
    elif constants:
        # M1 = 67:64 - 127:124, M2 = 35:32 - 95:92 of the quadword: a constant that is not used makes them right.
        one, two = constants if len(constants) == 2 else (constants[0], 0)
        if len(constants) == 1:
            two = ((one >> 56) - modifiers[0] & 15) << 56 | ((one >> 24) - modifiers[1] & 15) << 24
        words += [0x70 | place | one << 8 | two << 68]
    return b"".join(word.to_bytes(16, "little") for word in words)


def branch(condition: int, left: int, right: int, offset: int, *, operands: int = 0) -> tuple[int, int]:
    """A BRANCH to `offset` bytes from its clause, by FAU_HIGH of a constant with modifier 4: both."""
    return 0x68000 | operands << 12 | condition << 9 | sources(left, right, FAU_HIGH), (
        offset & (1 << 28) - 1
    ) << 28


def load(pointer: int, words: int, shift: int, staging: int, index: int = 60) -> bytes:
    """A clause that loads from push uniform `pointer` + (register `index` << shift)."""
    fma = 0x70E400 | shift << 6 | sources(FAU_LOW, 0)
    add = LOAD[words] | PLAIN << 6 | sources(T, FAU_HIGH)
    # A register from 32 on is read as 63 - register with the ports in descending order.
    port = block_high(index, UNIFORM | pointer)
    return clause([Tuple(port, fma, add)], header(message=LOAD_MESSAGE, staging=staging))


def store(pointer: int, words: int, shift: int, staging: int, index: int = 60, flow: int = FLOW_END) -> bytes:
    """A clause that stores at push uniform `pointer` + (register `index` << shift)."""
    fma = 0x70E400 | shift << 6 | sources(FAU_LOW, 0)
    add = STORE[words] | PLAIN << 6 | sources(T, FAU_HIGH)
    port = block_high(index, UNIFORM | pointer)
    return clause([Tuple(port, fma, add)], header(flow=flow, message=STORE_MESSAGE, staging=staging))


def block_high(register: int, fau: int) -> int:
    """The block of a first tuple whose port 0 reads a register from 32 on; nothing is written."""
    return fau | (63 - register) << 20 | (62 - register if register < 63 else 0) << 25 | 8 << 31


def one_tuple(fma: int, add: int) -> bytes:
    """A program: r0-r3 from u0 + 16 * thread; a tuple with r0, r1, r2 at ports 0 to 2, r3 in t1; what FMA and ADD
    gave, or 0, to u1 + 8 * thread."""
    writes = {(False, False): IDLE, (True, False): WRITE_FMA, (False, True): WRITE_ADD, (True, True): WRITE_BOTH}
    mode = writes[fma != FMA_NOP, add != ADD_NOP]
    compute = clause(
        [
            Tuple(block(3, 3, first=True), add=0x3D968 | sources(0)),
            Tuple(block(0, 1, two=2, mode=READ), fma, add),
            Tuple(block(0, 0, two=9 if mode == WRITE_ADD else 8, three=9 if mode == WRITE_BOTH else 0, mode=mode)),
        ],
        header(),
    )
    return load(0, 4, 4, 0) + compute + store(1, 2, 3, 8)
