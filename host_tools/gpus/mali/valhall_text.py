# SPDX-License-Identifier: BSD-2-Clause
"""Valhall instructions in words, as Mesa's disassembly has them: `FADD.f32.wait0 r0, ^r1, u2.neg`.

`^` before a register says that nothing reads its value afterwards.
"""

from __future__ import annotations

from host_tools.gpus.mali.valhall import (
    COUNT,
    FLOW_AT,
    PAGE_AT,
    WRITE_COUNT,
    Field,
    Instruction,
    Source,
    instruction,
)
from host_tools.gpus.mali.valhall_values import CONSTANTS, SPECIALS, VALUES


def line(word: int) -> str:
    """An instruction, or "unknown" and its bits."""
    row = instruction(word)
    if row is None:
        return f"unknown 0x{word:016x}"
    suffixes = [_suffix(one, word) for one in (*row.modifiers, Field("flow", FLOW_AT, 4))]
    operands = [_register(word)] if row.writes else []
    operands += _staged(row, word)
    operands += [_source(one, word) for one in row.sources]
    operands += [_number(one, word) for one in row.numbers]
    return f"{row.name}{''.join(suffixes)} {', '.join(operands)}"


def _suffix(one: Field, word: int) -> str:
    value = one.of(word)
    text = VALUES[one.name][value] if one.name in VALUES else one.name if value else ""
    return f".{text}" if text else ""


def _register(word: int) -> str:
    return f"r{word >> 40 & 63}" + {1: ".h0", 2: ".h1"}.get(word >> 46 & 3, "")


def _staged(row: Instruction, word: int) -> list[str]:
    found = []
    for kind in row.staging:
        first = word >> (16 if kind == "W" else 40) & 63
        count = WRITE_COUNT.of(word) + 1 if kind == "W" else COUNT.of(word)
        found.append("@" + ":".join(f"r{first + i}" for i in range(count)))
    return found


def _source(source: Source, word: int) -> str:
    code, page = word >> 8 * source.number & 0xFF, word >> PAGE_AT & 3
    if code < 0x80:
        text = f"{'^' if code & 0x40 else ''}r{code & 63}"
    elif code < 0xC0:
        text = f"u{code & 63 | page << 6}"
    elif code < 0xE0:
        text = f"0x{CONSTANTS[code & 31]:X}"
    else:
        text = f"{SPECIALS.get((page, code >> 1 & 15), 'reserved')}.w{code & 1}"
    for at, name in ((source.negate, "neg"), (source.absolute, "abs"), (source.invert, "not")):
        if at >= 0 and word >> at & 1 and name != "not":
            text += f".{name}"
    if source.part:
        text += _suffix(source.part, word)
    return text + (".not" if source.invert >= 0 and word >> source.invert & 1 else "")


def _number(one: Field, word: int) -> str:
    value = one.of(word)
    return f"{one.name}{value}" if one.signed else f"{one.name}0x{value:X}"
