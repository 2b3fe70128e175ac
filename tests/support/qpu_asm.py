# SPDX-License-Identifier: BSD-2-Clause
"""Assembler of V3D 4.2 QPU code for the tests: the text form of the disassembler, to 64-bit words.

Written apart from the C decoder, so that the two check each other. Encoding facts: Mesa 22.3.6,
src/broadcom/qpu/qpu_pack.c.

    add rf1, r0, 3; fmul.ifa r1, rf2.l, r5; thrsw; ldunif
    bu.anya  -16, r:unif
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable

MAGIC = {"r0": 0, "r1": 1, "r2": 2, "r3": 3, "r4": 4, "r5": 5, "-": 6, "tlb": 7, "tlbu": 8, "unifa": 9, "tmul": 10}
MAGIC |= {"tmud": 11, "tmua": 12, "tmuau": 13, "vpm": 14, "vpmu": 15, "sync": 16, "syncu": 17, "syncb": 18}
MAGIC |= {"recip": 19, "rsqrt": 20, "exp": 21, "log": 22, "sin": 23, "rsqrt2": 24, "tmuc": 32, "r5rep": 55}
MAGIC |= {
    f"tmu{name}": 33 + i
    for i, name in enumerate(
        ["s", "t", "r", "i", "b", "dref", "off", "scm", "sf", "slod", "hs", "hscm", "hsf", "hslod"]
    )
}

# Two sources, opcode only.
ADD2 = {"add": 56, "sub": 60, "min": 120, "max": 121, "umin": 122, "umax": 123, "shl": 124, "shr": 125, "asr": 126}
ADD2 |= {"ror": 127, "and": 181, "or": 182, "xor": 183, "vadd": 184, "vsub": 185}
ADD_FLOAT = {"fadd": 0, "faddnf": 0, "fsub": 64, "fmin": 128, "fmax": 128, "fcmp": 192}
# Opcode, then what the b field holds.
ADD1 = {
    name: (186, b)
    for b, name in enumerate(["not", "neg", "flapush", "flbpush", "flpop", "recip", "setmsf", "setrevf"])
}
ADD1 |= {"rsqrt": (188, 3), "exp": (188, 4), "log": (188, 5), "sin": (188, 6), "rsqrt2": (188, 7)}
ADD1 |= {"itof": (252, 0), "clz": (252, 3), "utof": (252, 4)}
ADD_CONVERT = {
    "fround": (1, 0),
    "ftoin": (1, 3),
    "ftrunc": (1, 4),
    "ftoiz": (1, 7),
    "ffloor": (2, 0),
    "ftouz": (2, 3),
}
ADD_CONVERT |= {"fceil": (2, 4), "ftoc": (2, 7), "fdx": (3, 0), "fdy": (3, 4)}
# What the b and a fields hold, opcode 187.
ADD0 = {name: (0, a) for a, name in enumerate(["nop", "tidx", "eidx", "lr", "vfla", "vflna", "vflb", "vflnb"])}
ADD0 |= {
    name: (2, a)
    for a, name in enumerate(["msf", "revf", "iid", "sampid", "barrierid", "tmuwt", "vpmwt", "flafirst"])
}
ADD0 |= {"fxcd": (1, 0), "xcd": (1, 3), "fycd": (1, 4), "ycd": (1, 7), "flnafirst": (3, 0)}
MUL2 = {"add": 1, "sub": 2, "umul24": 3, "smul24": 9, "multop": 10}

UNPACK = {"abs": 0, "": 1, "l": 2, "h": 3}
UNPACK_HALF = {"": 0, "ff": 1, "ll": 2, "hh": 3, "swp": 4}
PACK = {"": 0, "l": 1, "h": 2}
CONDS = ["ifa", "ifb", "ifna", "ifnb"]
PUSHES = ["", "pushz", "pushn", "pushc"]
UPDATES = ["andz", "andnz", "nornz", "norz", "andn", "andnn", "nornn", "norn", "andc", "andnc", "nornc", "norc"]
SIGNALS: dict[frozenset[str], int] = {
    frozenset(names.split()): code
    for code, names in {
        0: "",
        1: "thrsw",
        2: "ldunif",
        3: "thrsw ldunif",
        4: "ldtmu",
        5: "thrsw ldtmu",
        6: "ldtmu ldunif",
        7: "thrsw ldtmu ldunif",
        8: "ldvary",
        9: "thrsw ldvary",
        10: "ldvary ldunif",
        11: "thrsw ldvary ldunif",
        12: "ldunifrf",
        13: "thrsw ldunifrf",
        14: "imm ldvary",
        15: "imm",
        16: "ldtlb",
        17: "ldtlbu",
        18: "wrtmuc",
        19: "thrsw wrtmuc",
        20: "ldvary wrtmuc",
        21: "thrsw ldvary wrtmuc",
        22: "ucb",
        23: "rot",
        24: "ldunifa",
        25: "ldunifarf",
        31: "imm ldtmu",
    }.items()
}
IMMEDIATES = [*range(16), *range(-16, 0)]
IMMEDIATES += [struct.unpack("<I", struct.pack("<f", 2.0**e))[0] for e in range(-8, 8)]


class AsmError(ValueError):
    """The text is no instruction."""


class _Sources:
    """Allocates raddr_a and raddr_b to the registers and the immediate that an instruction reads."""

    def __init__(self) -> None:
        self.a: int | None = None
        self.b: int | None = None
        self.immediate = False

    def mux(self, name: str) -> int:
        if re.fullmatch(r"r[0-5]", name):
            return int(name[1])
        if name.startswith("rf"):
            number = int(name[2:])
            if self.a in (None, number):
                self.a = number
                return 6
            if self.immediate or self.b not in (None, number):
                raise AsmError(f"{name}: more registers than read ports")
            self.b = number
            return 7
        code = IMMEDIATES.index(int(name, 0))
        if self.b not in (None, code) or (self.b is not None and not self.immediate):
            raise AsmError(f"{name}: no port for an immediate")
        self.b, self.immediate = code, True
        return 7


def split_operand(operand: str) -> tuple[str, str]:
    """Its name and its modifier."""
    name, _, suffix = operand.partition(".")
    return name, suffix


def write_address(name: str) -> tuple[int, int]:
    """Address, and 1 where it is no register of the register file."""
    return (int(name[2:]), 0) if name.startswith("rf") else (MAGIC[name], 1)


def condition_and_flags(suffixes: list[str]) -> tuple[str, str]:
    """Of a mnemonic's modifiers."""
    cond = next((s for s in suffixes if s in CONDS), "")
    flag = next((s for s in suffixes if s in PUSHES or s in UPDATES), "")
    return cond, flag


def conditions(add: tuple[str, str], mul: tuple[str, str]) -> int:
    """The condition field."""
    (ac, af), (mc, mf) = add, mul
    if mc and (ac or af in UPDATES):
        low = CONDS.index(ac) if ac else 4 + UPDATES.index(af)
        return 0x40 | CONDS.index(mc) << 4 | low
    if ac and mf not in UPDATES:
        return 0x20 | CONDS.index(ac) << 2 | PUSHES.index(mf)
    if mc:
        return 0x30 | CONDS.index(mc) << 2 | PUSHES.index(af)
    if mf:
        return 0x10 | (PUSHES.index(mf) if mf in PUSHES else 4 + UPDATES.index(mf))
    return PUSHES.index(af) if af in PUSHES else 4 + UPDATES.index(af)


def _add(op: str, dest: str, operands: list[str], ports: _Sources) -> int:
    word = 0
    if dest:
        name, pack = split_operand(dest)
        waddr, magic = write_address(name)
        word |= waddr << 32 | magic << 44
    else:
        pack = ""
    parts = [split_operand(operand) for operand in operands]
    muxes = [ports.mux(name) for name, _ in parts]
    unpacks = [unpack for _, unpack in parts]
    a, b = [*muxes, 0, 0][:2]
    if op in ADD_FLOAT:
        ua, ub = UNPACK[unpacks[0]], UNPACK[unpacks[1]]
        if (op in ("fadd", "fmin") and ua * 8 + a > ub * 8 + b) or (
            op in ("faddnf", "fmax") and ua * 8 + a <= ub * 8 + b
        ):
            a, b, ua, ub = b, a, ub, ua
        code = ADD_FLOAT[op] + PACK[pack] * 16 + ua * 4 + ub
    elif op == "vfpack":
        code = 48 + UNPACK[unpacks[0]] * 4 + UNPACK[unpacks[1]]
    elif op in ("vfmin", "vfmax"):
        code = (176 if op == "vfmin" else 240) + UNPACK_HALF[unpacks[0]]
    elif op in ADD2:
        code = ADD2[op]
    elif op in ADD1:
        code, b = ADD1[op]
    elif op in ADD_CONVERT:
        group, b = ADD_CONVERT[op]
        code, b = 240 + UNPACK[unpacks[0]] * 4 + group, b + PACK[pack]
    elif op in ADD0:
        code, (b, a) = 187, ADD0[op]
    else:
        raise AsmError(f"{op}: unknown add operation")
    return word | code << 24 | b << 15 | a << 12


def _mul(op: str, dest: str, operands: list[str], ports: _Sources) -> int:
    if op == "nop":
        return 15 << 58 | 4 << 21
    name, pack = split_operand(dest)
    waddr, magic = write_address(name)
    parts = [split_operand(operand) for operand in operands]
    a, b = [*(ports.mux(name) for name, _ in parts), 0][:2]
    unpacks = [unpack for _, unpack in parts]
    if op == "fmul":
        code = 16 + PACK[pack] * 16 + UNPACK[unpacks[0]] * 4 + UNPACK[unpacks[1]]
    elif op == "vfmul":
        code = 4 + UNPACK_HALF[unpacks[0]]
    elif op == "fmov":
        code, b = 14 + PACK[pack] // 2, PACK[pack] % 2 * 4 + UNPACK[unpacks[0]]
    elif op == "mov":
        code, b = 15, 7
    else:
        code = MUL2[op]
    return code << 58 | b << 21 | a << 18 | waddr << 38 | magic << 45


def branch_word(text: str) -> int:
    """A branch; the same in all versions."""
    pattern = r"b(u?)(?:\.(a0|na0|alla|anyna|anya|allna))?([pq]?)\s+([^,;]+)(?:,\s*([^\s;]+))?(; link)?"
    match = re.fullmatch(pattern, text)
    if match is None:
        raise AsmError(f"{text}: no branch")
    uniforms, cond, lanes, target, stream, link = match.groups()
    word = 16 << 53 | (1 << 23 if link else 0) | ["", "p", "q"].index(lanes) << 21
    if cond:
        word |= (2 + ["a0", "na0", "alla", "anyna", "anya", "allna"].index(cond)) << 32
    if target.startswith("zero_addr+"):
        offset = int(target[10:], 0)
    elif target.startswith("rf"):
        word |= 3 << 12 | int(target[2:]) << 6
        offset = 0
    elif target == "lri":
        word |= 2 << 12
        offset = 0
    else:
        word |= 1 << 12
        offset = int(target, 0) & 0xFFFFFFFF
    word |= (offset >> 3 & 0x1FFFFF) << 35 | offset >> 24 << 24
    if uniforms:
        kinds = {"a:unif": 0, "r:unif": 1, "lri": 2}
        word |= 1 << 14 | kinds.get(stream, 3) << 15
        if stream not in kinds:
            word |= int(stream[2:]) << 6
    return word


def assemble_line(text: str) -> int:
    """One instruction.

    Raises:
        AsmError: the text is no instruction, or does not fit into one.
    """
    text = text.strip()
    if re.match(r"bu?[.pq ]", text):
        return branch_word(text)
    parts = [part.strip() for part in text.split(";")]
    ports = _Sources()
    word = 0
    flags = []
    for unit, part in zip((_add, _mul), [*parts, "nop"][:2], strict=True):
        mnemonic, _, rest = part.partition(" ")
        op, *suffixes = mnemonic.split(".")
        operands = [operand.strip() for operand in rest.split(",")] if rest else []
        dest = operands.pop(0) if operands else ""
        word |= unit(op, dest, operands, ports)
        flags.append(condition_and_flags(suffixes))
    names = [part.partition(".") for part in parts[2:]]
    signals = {name for name, _, _ in names} | ({"imm"} if ports.immediate else set())
    address = next((dest for name, _, dest in names if dest and name != "rot"), None)
    if address is None:
        word |= conditions(flags[0], flags[1]) << 46
    else:
        waddr, magic = write_address(address)
        word |= waddr << 46 | magic << 52
    word |= SIGNALS[frozenset(signals)] << 53
    for name, _, amount in names:
        if name == "rot" and amount:
            if ports.b not in (None, int(amount)):
                raise AsmError(f"{text}: no port for what says by how much")
            ports.b = int(amount)
    return word | (ports.a or 0) << 6 | (ports.b or 0)


def assemble(lines: str | Iterable[str]) -> bytes:
    """A program, one instruction a line; empty lines and what follows # do not count."""
    if isinstance(lines, str):
        lines = lines.splitlines()
    code = (line.partition("#")[0].strip() for line in lines)
    return b"".join(struct.pack("<Q", assemble_line(line)) for line in code if line)
