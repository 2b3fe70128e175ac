# SPDX-License-Identifier: BSD-2-Clause
"""Clauses of a Bifrost program in words: `*FMA.f32 [0x000291] r5, r0, r1, u3.w0`, `+` for the ADD operation.

Names, registers, uniforms and constants are as in Mesa's disassembly (src/panfrost/bifrost/disassemble.c);
modifiers are not told apart, so the encoding stands beside the name. Operands of clauses of 64 bits are not named.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from host_tools.families.listing import Instruction
from host_tools.gpus.mali.clauses import MAX_CLAUSES, QUADWORD, Clause, ClauseError, bits, clause_at
from host_tools.gpus.mali.operations import add, fma

_MESSAGES = {0: "none", 5: "load", 6: "store", 7: "atomic", 8: "barrier", 15: "64 bit"}
_CONSTANT_OF = {4: 0, 5: 1, 6: 2, 7: 3, 2: 4, 3: 5}  # bits 6:4 of a constant's FAU index
FIXED_OPERANDS = {0: "#0", 1: "lane_id", 2: "warp_id", 3: "core_id"}
_PARTS = ("h0", "h1", "")  # low half, high half, whole
_BOTH = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2))  # of FMA, ADD: modes 7 to 15


@dataclass(frozen=True)
class Block:
    """A register block of 32 bits, read: ports and where results of the tuple before it go.

    Attributes:
        ports: registers of ports 0 to 2, "" where one is off.
        fma, add: destinations; "": none.
    """

    ports: tuple[str, str, str]
    fma: str
    add: str


def read_block(block: int, is_first: bool) -> Block:
    """What a register block says; `is_first`: it is that of the clause's first tuple."""
    r3, r2, r0, r1, control = (bits(block, *place) for place in ((8, 6), (14, 6), (20, 5), (25, 6), (31, 4)))
    if control:
        one, two = (r0, r1) if r0 <= r1 else (63 - r0, 63 - r1)
        ports = f"r{one}", f"r{two}"
    else:
        control = r1 >> 2
        ports = ("" if r1 & 2 else f"r{r0 | (r1 & 1) << 5}"), ""
    mode = control & 7 | (control & 8) << 1 if is_first else control + 16 * (r2 == r3)
    reads_two = mode in (*range(1, 7), 20)
    to_fma = to_add = ""
    if mode in (1, 2, 3):
        to_fma = _register(r3, mode - 1)
    elif mode in (4, 5, 6):
        to_add = _register(r3, mode - 4)
    elif 7 <= mode <= 15:
        first, second = _BOTH[mode - 7]
        to_fma, to_add = _register(r2, first), _register(r3, second)
    elif mode in (17, 18, 19):
        to_fma = _register(r3, (2, 0, 1)[mode - 17])
    elif mode in (21, 22, 23):
        to_add = _register(r3, (2, 0, 1)[mode - 21])
    elif mode in (24, 26):
        to_fma, to_add = _register(r3, mode == 26), _register(r3, mode == 24)
    return Block((*ports, f"r{r2}" if reads_two else ""), to_fma, to_add)


def _register(number: int, part: int) -> str:
    return ".".join(filter(None, (f"r{number}", _PARTS[part])))


def _fau(index: int, clause: Clause) -> str:
    """What the FAU port brings."""
    if index & 0x80:
        return f"u{index & 0x7F}"
    place = _CONSTANT_OF.get(index >> 4)
    if place is None:
        return FIXED_OPERANDS.get(index, f"fau{index}")
    return f"#{clause.constants.get(place, 0) << 4 | index & 0xF:#x}"


def _sources(word: int, count: int, block: Block, fau: str, unit: str) -> list[str]:
    low, high = (fau, fau) if fau == "#0" else (f"{fau}.w0", f"{fau}.w1")
    words = [*(port or "off" for port in block.ports), "#0" if unit == "*" else "t", low, high, "t0", "t1"]
    return [words[bits(word, 3 * place, 3)] for place in range(count)]


def clause_lines(clause: Clause) -> list[str]:
    """A clause in lines: its header, then an operation a line."""
    message = _MESSAGES.get(bits(clause.header, 35, 5), "other")
    text = f"clause of {len(clause.tuples)}, message {message}, staging register r{bits(clause.header, 18, 6)}"
    lines = [text + (", ends the thread" if clause.ends_thread else "")]
    count = len(clause.tuples)
    for number, item in enumerate(clause.tuples):
        block = read_block(item.block, number == 0)
        after = read_block(clause.tuples[(number + 1) % count].block, number == count - 1)
        fau = _fau(bits(item.block, 0, 8), clause)
        for unit, operation_of, word, to in (("*", fma, item.fma, after.fma), ("+", add, item.add, after.add)):
            operation = operation_of(word)
            if operation is None:
                lines.append(f"  {unit}unknown [{word:#08x}]")
                continue
            words = [] if clause.is_wide else _sources(word, operation.sources, block, fau, unit)
            if not clause.is_wide and operation.name != "NOP":
                words.insert(0, to or "-")
            lines.append(f"  {unit}{operation.name} [{word:#08x}] {', '.join(words)}".rstrip())
    return lines


def program(read: Callable[[int, int], bytes | None], va: int) -> tuple[list[Instruction], str]:
    """The clauses of a program, which ends before a quadword of zeros, and why it ends elsewhere, or "".

    Args:
        read: bytes at an address, None where they are not known.
    """
    found: list[Instruction] = []
    start = va
    while len(found) < MAX_CLAUSES:
        first = read(va, QUADWORD)
        if first is None:
            return found, "it runs on into memory that is not mapped"
        if not any(first):
            return found, ""
        try:
            clause = clause_at(lambda number, at=va: read(at + QUADWORD * number, QUADWORD))  # type: ignore[misc]
        except ClauseError as error:
            return found, f"clause {len(found)}, {va - start} bytes after the first: {error}"
        found.append(Instruction(va, clause.size, "\n".join(clause_lines(clause))))
        va += clause.size
    return found, "it has no end"
