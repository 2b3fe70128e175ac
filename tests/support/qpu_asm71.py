# SPDX-License-Identifier: BSD-2-Clause
"""Assembler of V3D 7.1 QPU code for the tests: the text form of the disassembler, to 64-bit words.

Written apart from the C decoder, as qpu_asm.py, which has what is the same in both encodings. Encoding facts: Mesa
25.0.7, src/broadcom/qpu/qpu_pack.c.

    add rf1, rf2, 3; fmul.ifa rf5, rf2.l, rf4; thrsw; ldunif
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable

from tests.support.qpu_asm import (
    ADD0,
    ADD2,
    ADD_FLOAT,
    IMMEDIATES,
    MAGIC,
    MUL2,
    PACK,
    SIGNALS,
    UNPACK,
    AsmError,
    branch_word,
    condition_and_flags,
    conditions,
    split_operand,
)

Source = tuple[int, bool]  # address, and whether it is a small immediate
ADD2_71 = ADD2 | {"vpack": 247, "v8pack": 248, "v10pack": 250, "v11fpack": 251}
ADD2_71 |= {"rotq": 252, "rot": 253, "shuffle": 254}
# Opcode, then what raddr_b holds.
ADD1 = {
    name: (186, b)
    for b, name in enumerate(["not", "neg", "flapush", "flbpush", "flpop", "clz", "setmsf", "setrevf"])
}
ADD1 |= {
    name: (188, 32 + i)
    for i, name in enumerate(
        ["recip", "rsqrt", "exp", "log", "sin", "rsqrt2", "ballot", "bcastf", "alleq", "allfeq"]
    )
}
ADD1 |= {"itof": (246, 32), "utof": (246, 36)}
# Opcode, and raddr_b but for packing and unpacking.
CONVERT = {"fround": (245, 0), "ftoin": (245, 3), "ftrunc": (245, 16), "ftoiz": (245, 19), "ffloor": (245, 32)}
CONVERT |= {"ftouz": (245, 35), "fceil": (245, 48), "ftoc": (245, 51), "fdx": (246, 0), "fdy": (246, 16)}
NO_SOURCE = [name for name in ADD0 if name not in ("fxcd", "fycd")]
NULLARY = {name: b for b, name in enumerate([*NO_SOURCE[:8], "xcd", "ycd"])}
NULLARY |= {
    name: 10 + i
    for i, name in enumerate(
        ["msf", "revf", "iid", "sampid", "barrierid", "tmuwt", "vpmwt", "flafirst", "flnafirst"]
    )
}
NULLARY |= {"fxcd": 32, "fycd": 36}
NORMALIZE = {"ftounorm16": 32, "ftosnorm16": 33, "vftounorm8": 34, "vftosnorm8": 35}
NORMALIZE |= {"vftounorm10lo": 48, "vftounorm10hi": 49}
UNPACK_MOVE = {"": 0, "ul": 1, "uh": 2, "il": 3, "ih": 4}
UNPACK_FMOV = UNPACK | {"sat": 4, "nsat": 5, "max0": 6}
NAMES = {name: at for name, at in MAGIC.items() if not 19 <= at <= 24 and not at < 6 and at != 55}
NAMES |= {"quad": 5, "rep": 55}
PORT_SIGNALS = {"a": 14, "b": 15, "c": 30, "d": 31}
WITH_TEXTURE = {frozenset({"ldtmu", "wrtmuc"}): 26, frozenset({"thrsw", "ldtmu", "wrtmuc"}): 27}


def _source(name: str) -> Source:
    if name.startswith("rf"):
        return int(name[2:]), False
    return IMMEDIATES.index(int(name, 0)), True


def _address(name: str) -> tuple[int, int]:
    return (int(name[2:]), 0) if name.startswith("rf") else (NAMES[name], 1)


def _move(op: str, pack: str, unpack: str) -> int:
    """What the second address holds."""
    return UNPACK_MOVE[unpack] << 2 | 3 if op == "mov" else UNPACK_FMOV[unpack] << 2 | PACK[pack]


def _add(op: str, pack: str, sources: list[Source], unpacks: list[str]) -> tuple[int, list[Source]]:
    """Opcode and both sources, a and b."""
    a, b = [*sources, (0, False), (0, False)][:2]
    if op in ADD_FLOAT:
        ua, ub = (UNPACK[unpack] for unpack in unpacks)
        later = a[1] * 256 + ua * 64 + a[0] > b[1] * 256 + ub * 64 + b[0]
        if later if op in ("fadd", "fmin") else not later and op in ("faddnf", "fmax"):
            a, b, ua, ub = b, a, ub, ua
        return ADD_FLOAT[op] + PACK[pack] * 16 + ua * 4 + ub, [a, b]
    if op == "vfpack":
        return 48 + UNPACK[unpacks[0]] * 4 + UNPACK[unpacks[1]], [a, b]
    if op in ADD2_71:
        return ADD2_71[op], [a, b]
    if op in ("mov", "fmov"):
        return 249, [a, (_move(op, pack, unpacks[0]), False)]
    if op in CONVERT:
        code, rest = CONVERT[op]
        return code, [a, (rest | UNPACK[unpacks[0]] << 2 | PACK[pack], False)]
    if op in NULLARY:
        return 187, [a, (NULLARY[op], False)]
    if op not in ADD1:
        raise AsmError(f"{op}: unknown add operation")
    code, rest = ADD1[op]
    return code, [a, (rest, False)]


def _mul(op: str, pack: str, sources: list[Source], unpacks: list[str]) -> tuple[int, list[Source]]:
    """Opcode and both sources, c and d."""
    c, d = [*sources, (0, False), (0, False)][:2]
    if op == "nop":
        return 14, [c, (63, False)]
    if op == "fmul":
        return 16 + PACK[pack] * 16 + UNPACK[unpacks[0]] * 4 + UNPACK[unpacks[1]], [c, d]
    if op in ("mov", "fmov"):
        return 14, [c, (_move(op, pack, unpacks[0]), False)]
    if op in NORMALIZE:
        return 14, [c, (NORMALIZE[op], False)]
    return MUL2[op], [c, d]


def assemble_line(text: str) -> int:
    """One instruction.

    Raises:
        AsmError: the text is no instruction, or does not fit into one.
    """
    text = text.strip()
    if re.match(r"bu?[.pq ]", text):
        return branch_word(text)
    parts = [part.strip() for part in text.split(";")]
    word, flags, immediates = 0, [], set[str]()
    units = ((_add, 24, 32, 44, {"a": 6, "b": 0}), (_mul, 58, 38, 45, {"c": 18, "d": 12}))
    for (unit, at, waddr_at, magic_at, ports), part in zip(units, [*parts, "nop"][:2], strict=True):
        mnemonic, _, rest = part.partition(" ")
        op, *suffixes = mnemonic.split(".")
        operands = [operand.strip() for operand in rest.split(",")] if rest else []
        dest, pack = split_operand(operands.pop(0)) if operands else ("rf0", "")
        split = [split_operand(operand) for operand in operands]
        code, sources = unit(op, pack, [_source(name) for name, _ in split], [unpack for _, unpack in split])
        waddr, magic = _address(dest)
        word |= code << at | waddr << waddr_at | magic << magic_at
        for (port, low), (raddr, is_immediate) in zip(ports.items(), sources, strict=True):
            word |= raddr << low
            immediates |= {port} if is_immediate else set()
        flags.append(condition_and_flags(suffixes))
    names = [part.partition(".") for part in parts[2:]]
    signals = frozenset(name for name, _, _ in names)
    address = next((dest for _, _, dest in names if dest), None)
    if address is None:
        word |= conditions(flags[0], flags[1]) << 46
    else:
        waddr, magic = _address(address)
        word |= waddr << 46 | magic << 52
    if immediates and (signals or len(immediates) > 1):
        raise AsmError(f"{text}: an immediate takes the place of signals")
    code = PORT_SIGNALS[immediates.pop()] if immediates else WITH_TEXTURE.get(signals, SIGNALS.get(signals, 23))
    if code == SIGNALS[frozenset({"rot"})]:
        raise AsmError(f"{text}: no such signals")
    return word | code << 53


def assemble(lines: str | Iterable[str]) -> bytes:
    """A program, one instruction a line; empty lines and what follows # do not count."""
    if isinstance(lines, str):
        lines = lines.splitlines()
    code = (line.partition("#")[0].strip() for line in lines)
    return b"".join(struct.pack("<Q", assemble_line(line)) for line in code if line)
