# SPDX-License-Identifier: BSD-2-Clause
"""Instructions of Valhall (v9, v10) that the virtual GPU executes: the one table of their encodings.

The listing (valhall_text.py) and the engine's table (vgpu/valhall/mali_valhall_table.h, by emit.py) are made of
it. An instruction is 64 bits: sources 7:0, 15:8, 23:16, 31:24, destination 47:40, opcode 56:48, page of uniforms
and special values 58:57, flow 62:59. What no field of a row names is fixed.

Source: Mesa 25.0.7 src/panfrost/compiler/valhall (ISA.xml, va_pack.c).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

INSTRUCTION = 8  # bytes
OPCODE_AT, PAGE_AT, FLOW_AT = 48, 57, 59
_SIZE_AT = 27  # of what a message moves
NOWHERE = 0xC0 << 40  # what stands for a destination where there is none


@dataclass(frozen=True)
class Field:
    """Bits of an instruction.

    Attributes:
        name: of VALUES, or of a flag of one bit, or of a number.
        low, width: the bits.
        signed: of a number.
    """

    name: str
    low: int
    width: int
    signed: bool = False

    @property
    def mask(self) -> int:
        """Its bits in place."""
        return (1 << self.width) - 1 << self.low

    def of(self, word: int) -> int:
        """Its value in an instruction."""
        value = word >> self.low & (1 << self.width) - 1
        return value - (1 << self.width) if self.signed and value >> self.width - 1 else value


# Modifiers by name; the rest are of one row or of a group of rows.
MODIFIERS = {
    one.name: one
    for one in (
        *(Field("round", 30, 2), Field("clamp", 32, 2), Field("result", 30, 2), Field("condition", 32, 3)),
        *(Field("slot", 30, 3), Field("access", 24, 2), Field("saturate", 30, 1), Field("not_result", 30, 1)),
        *(Field("rhadd", 30, 1), Field("signed", 34, 1), Field("sqrt", 24, 1), Field("log", 25, 1)),
        *(Field("mux", 32, 2), Field("subgroup", 36, 4), Field("lane_op", 32, 2), Field("inactive", 22, 4)),
        *(Field("atomic", 22, 4), Field("atomic1", 22, 4), Field("compare", 26, 1), Field("unsigned", 39, 1)),
        *(Field("lane8", 36, 3), Field("lane16", 36, 3), Field("lane32", 36, 3), Field("eq", 36, 1)),
        Field("conservative", 35, 1),
    )
}
NUMBERS = {
    "#constant": Field("#", 8, 32),
    "#offset": Field("offset:", 8, 16, signed=True),
    "#near": Field("offset:", 8, 8),
    "#branch": Field("offset:", 8, 27, signed=True),
    "#shift": Field("shift:", 20, 3),
}
COUNT, WRITE_COUNT = Field("count", 33, 3), Field("write count", 36, 3)


@dataclass(frozen=True)
class Source:
    """A source of an instruction.

    Attributes:
        number: of its byte.
        kind: how it is read: a name of SOURCE_KINDS.
        part: which part of a register it is, as a field of VALUES; None: all of it.
        negate, absolute: bits that say so; -1: there are none.
        invert: the bit that says that all its bits are inverted; -1: there is none.
    """

    number: int
    kind: str
    part: Field | None = None
    negate: int = -1
    absolute: int = -1
    invert: int = -1

    @property
    def mask(self) -> int:
        """All its bits, in place."""
        found = 0xFF << 8 * self.number | (self.part.mask if self.part else 0)
        return found | sum(1 << at for at in (self.negate, self.absolute, self.invert) if at >= 0)


# Kinds of sources in rows: a word as it is, a pair of words; floats that are widened and have signs, have signs,
# are widened; halves in the same way; words, halves, bytes and pairs of words of which a part may be taken; the
# byte that shifts; bytes that are widened to halves; of a branch; inverted; one byte, one half. What follows the
# kind in a row is the bit of a byte's number where that is another one.
SOURCE_KINDS = {
    **{"x": "WORD", "p": "PAIR", "f": "FLOAT", "fa": "FLOAT_SIGN", "fs": "FLOAT_PART", "h": "HALF"},
    **{"ha": "HALF_SIGN", "hs": "HALF_PART", "w": "PART", "v": "PARTS_2", "b": "PARTS_4", "d": "PAIR_PART"},
    **{"l": "LANES", "q": "BYTES_2", "c": "COMBINE", "n": "INVERTED", "B": "BYTE", "H": "ONE_HALF"},
}


@dataclass(frozen=True)
class Instruction:
    """A row of the table.

    Attributes:
        name: Mesa's.
        exact, fields: an instruction is this one where its bits outside `fields` are those of `exact`.
        sources, modifiers, numbers: in the order in which Mesa's disassembly prints them.
        writes: it has a destination.
        staging: registers that a message moves: "w" written, "r" read, at bits 45:40; "W" written at 21:16.
    """

    name: str
    exact: int
    fields: int
    sources: tuple[Source, ...] = ()
    modifiers: tuple[Field, ...] = ()
    numbers: tuple[Field, ...] = ()
    writes: bool = False
    staging: str = ""


def _source(word: str, number: int) -> Source:
    kind, at = word.rstrip("0123456789"), word.lstrip("xpfashwvbdlqcnBH")
    wide = 26 if number == 1 else 36
    parts = {
        "f": Field("float", 28 - 2 * number, 2),
        "fs": Field("float", 28 - 2 * number, 2),
        "h": Field("halves", 28 - 2 * number, 2),
        "hs": Field("halves", 28 - 2 * number, 2),
        "w": Field("words", wide, 4),
        "v": Field("halfwords", wide, 4),
        "b": Field("bytes", wide, 4),
        "d": Field("doubles", wide, 4),
        "l": Field("lanes", wide, 4),
        "q": Field("pairs", wide, 4),
        "c": Field("combine", 37, 3),
        "B": Field("byte", int(at or 28), 2),
        "H": Field("half", 28, 1),
    }
    negate, absolute = (38 - 2 * number, 39 - 2 * number) if kind in ("f", "fa", "h", "ha", "H") else (-1, -1)
    return Source(number, kind, parts.get(kind), negate, absolute, 35 if kind == "n" else -1)


def _row(name: str, opcode: int, second: int, words: list[str]) -> Instruction:
    """`words`: > of a destination; @w, @r, @W of staging registers; sources; modifiers; numbers."""
    sources: list[Source] = []
    modifiers: list[Field] = []
    numbers: list[Field] = []
    staging, writes, place = "", False, 0
    for word in words:
        if word == ">":
            writes = True
        elif word.startswith("@"):
            staging += word[1:]
        elif word in NUMBERS:
            numbers.append(NUMBERS[word])
        elif word in MODIFIERS:
            modifiers.append(MODIFIERS[word])
        else:
            sources.append(_source(word, place))
            place += 1
    fields = 3 << PAGE_AT | 15 << FLOW_AT
    for mask in (*(one.mask for one in sources), *(one.mask for one in (*modifiers, *numbers))):
        fields |= mask
    exact = opcode << OPCODE_AT | second
    if writes:
        fields |= 0xFF << 40
    elif staging:
        fields |= 0x3F << 40 | COUNT.mask
        if "W" in staging:
            fields |= 0x3F << 16 | WRITE_COUNT.mask
        exact |= {"w": 0x80, "r": 0x40, "Wr": 0xC0}[staging] << 40
    else:
        exact |= NOWHERE
    if name == "ATOM1_RETURN.i32":  # without a result it reads nothing, and says so or not
        fields |= 0x40 << 40
    return Instruction(name, exact, fields, tuple(sources), tuple(modifiers), tuple(numbers), writes, staging)


_TABLE = """
000 NOP
01f BRANCHZ c conservative eq #branch
154 CSEL.f32 > x x x x condition
155 CSEL.v2f16 > x x x x condition
150 CSEL.u32 > x x x x condition
151 CSEL.v2u16 > x x x x condition
158 CSEL.s32 > x x x x condition
159 CSEL.v2s16 > x x x x condition
06b LEA_BUFFER @w x x slot
090/7 V2S16_TO_V2F16 > v round
090/9 S32_TO_F32 > w round
090/17 V2U16_TO_V2F16 > v round
090/19 U32_TO_F32 > w round
090/4 S16_TO_S32 > hs
090/5 S16_TO_F32 > hs
090/14 U16_TO_U32 > hs
090/15 U16_TO_F32 > hs
090/c F32_TO_S32 > fa round
090/1c F32_TO_U32 > fa round
090/e V2F16_TO_V2S16 > h round
090/1e V2F16_TO_V2U16 > h round
090/a F16_TO_S32 > h round
090/1a F16_TO_U32 > h round
090/b F16_TO_F32 > H
090/0 S8_TO_S32 > B
090/1 S8_TO_F32 > B
090/10 U8_TO_U32 > B
090/11 U8_TO_F32 > B
090/2 V2S8_TO_V2S16 > q
090/3 V2S8_TO_V2F16 > q
090/12 V2U8_TO_V2U16 > q
090/13 V2U8_TO_V2F16 > q
090/d FROUND.f32 > f round
090/f FROUND.v2f16 > h round
091/0 MOV.i32 > x
091/4 CLZ.u32 > x
091/5 CLZ.v2u16 > hs
091/6 CLZ.v4u8 > x
091/8 IABS.s32 > w
091/9 IABS.v2s16 > v
091/a IABS.v4s8 > x
091/c POPCOUNT.i32 > x
091/d BITREV.i32 > x
095 WMASK > x subgroup
099/0 FREXPM.f32 > fs sqrt log
099/2 FREXPE.f32 > fs sqrt log
09c/0 FRCP.f32 > f
09c/1 FRCP.f16 > h
09c/2 FRSQ.f32 > f
09c/3 FRSQ.f16 > h
09c/8 FLOGD.f32 > f
09c/4 FSIN_TABLE.u6 > x
09c/5 FCOS_TABLE.u6 > x
0a4/0 FADD.f32 > f f clamp
0a5/0 FADD.v2f16 > h h clamp
0a4/2 FMIN.f32 > f f clamp
0a5/2 FMIN.v2f16 > h h clamp
0a4/3 FMAX.f32 > f f clamp
0a5/3 FMAX.v2f16 > h h clamp
0a5/4 V2F32_TO_V2F16 > fa fa clamp round
0a4/6 LDEXP.f32 > fa x round
0a5/6 LDEXP.v2f16 > ha x round
0a4/8 FEXP.f32 > x fa clamp
0a4/9 FADD_LSCALE.f32 > fa fa clamp
1a3/0 IADD.u64 > p d saturate
1ab/0 IADD.s64 > p d saturate
1a3/1 ISUB.u64 > p d saturate
1ab/1 ISUB.s64 > p d saturate
0a1/5 MKVEC.v2i16 > hs hs
1a3/7 SHADDX.u64 > p d #shift
1ab/7 SHADDX.s64 > p d #shift
0a0/f CLPER.i32 > x l subgroup lane_op inactive
0b2 FMA.f32 > f f f clamp
0b3 FMA.v2f16 > h h h clamp
0b8 MUX.i32 > x x x mux
0b9 MUX.v2i16 > hs hs hs mux
0ba MUX.v4i8 > x x x mux
0bd MKVEC.v2i8 > B38 B36 x
0f4/0 FCMP_OR.f32 > f f x condition result
0f5/0 FCMP_OR.v2f16 > h h x condition result
0f4/1 FCMP_AND.f32 > f f x condition result
0f5/1 FCMP_AND.v2f16 > h h x condition result
0f0/2 ICMP_MULTI.u32 > w w x condition result
0f8/2 ICMP_MULTI.s32 > w w x condition result
110 IADD_IMM.i32 > x #constant
111 IADD_IMM.v2i16 > x #constant
112 IADD_IMM.v4i8 > x #constant
114 FADD_IMM.f32 > x #constant
115 FADD_IMM.v2f16 > x #constant
160 FMA_RSCALE.f32 > fa fa fa x clamp
161 FMA_RSCALE_N.f32 > fa fa fa x clamp
162 FMA_RSCALE_LEFT.f32 > fa fa fa x clamp
"""


def _second(second: int, sources: int) -> int:
    """The second opcode in place: behind the sources; of one source where that of two is."""
    return second << max(16, 8 * sources)


def _rows() -> Iterator[Instruction]:
    for line in _TABLE.strip().splitlines():
        numbers, name, *words = line.split()
        opcode, _, second = numbers.partition("/")
        row = _row(name, int(opcode, 16), 0, words)
        yield replace(row, exact=row.exact | _second(int(second or "0", 16), len(row.sources)))
    yield from _integers()
    yield from _shifts()
    yield from _messages()


def _integers() -> Iterator[Instruction]:
    """Sums, products and comparisons of words, halves and bytes."""
    for sign, base in (("u", 0xA0), ("s", 0xA8)):
        for lanes, (kind, of) in enumerate((("w", f"{sign}32"), ("v", f"v2{sign}16"), ("b", f"v4{sign}8"))):
            multiplied = ("i32", "v2i16", "v4i8")[lanes] if sign == "u" else of
            for name, second, more in (
                (f"IADD.{of}", 0, "saturate"),
                (f"ISUB.{of}", 1, "saturate"),
                (f"IMUL.{multiplied}", 10, "saturate"),
                (f"HADD.{of}", 11, "rhadd"),
            ):
                yield _row(name, base + lanes, _second(second, 2), [">", kind, kind, more])
            for second, name in enumerate((f"ICMP_OR.{of}", f"ICMP_AND.{of}")):
                words = [">", kind, kind, "x", "condition", "result"]
                yield _row(name, base + lanes + 0x50, _second(second, 3), words)


def _shifts() -> Iterator[Instruction]:
    for lanes, (kind, of) in enumerate((("w", "i32"), ("v", "v2i16"), ("b", "v4i8"))):
        for number, how in enumerate(("AND", "OR", "XOR")):
            second, words = _second(number, 3), [">", kind, "l", "n"]
            yield _row(f"LSHIFT_{how}.{of}", 0xB4 + lanes, second | 1 << 32, [*words, "not_result"])
            yield _row(f"RSHIFT_{how}.{of}", 0xB4 + lanes, second, [*words, "signed", "not_result"])


def _messages() -> Iterator[Instruction]:
    """What accesses memory, and barriers."""
    for size, bits in enumerate((8, 16, 24, 32, 48, 64, 96, 128)):
        lane = {8: ["lane8"], 16: ["lane16"], 32: ["lane32"]}.get(bits, [])
        # Other sizes have one way to lie in registers.
        only = 0 if lane else {24: 0, 48: 4, 64: 7, 96: 6, 128: 7}[bits] << 36
        at = size << _SIZE_AT
        loads = [*lane, "unsigned", "slot"]
        yield _row(f"LOAD.i{bits}", 0x60, at | only, ["@w", "p", "access", *loads, "#offset"])
        yield _row(f"LD_BUFFER.i{bits}", 0x6A, at | only, ["@w", "x", "x", *loads])
        yield _row(f"STORE.i{bits}", 0x61, at, ["@r", "p", "access", "slot", "#offset"])
    word = 3 << _SIZE_AT
    yield _row("ATOM.i32", 0x68, word, ["@r", "p", "slot", "atomic", "#near"])
    yield _row("ATOM1_RETURN.i32", 0x69, word, ["@w", "p", "slot", "atomic1", "#near"])
    yield _row("ATOM_RETURN.i32", 0x120, word, ["@W", "@r", "p", "slot", "compare", "atomic", "#near"])
    yield _row("BARRIER", 0x45, 0, ["slot"])


TABLE: tuple[Instruction, ...] = tuple(_rows())


def instruction(word: int) -> Instruction | None:
    """What an instruction is; None: nothing that the virtual GPU executes."""
    for row in TABLE:
        if word & ~row.fields == row.exact:
            return row
    return None
