# SPDX-License-Identifier: BSD-2-Clause
"""Operations of Bifrost v6 by their encoding: names, and how many sources they have; modifiers are not told apart.

Sources: Mesa 22.3.6 src/panfrost/bifrost/ISA.xml, which has v7's; v6's own were found in recordings.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass


@dataclass(frozen=True)
class Operation:
    """What encodings under a mask are: the name, and how many of the sources at bits 0, 3, 6 and 9 it has."""

    name: str
    sources: int


def _table(text: str) -> tuple[tuple[int, int, Operation], ...]:
    found = []
    for line in text.split("\n"):
        if line.strip():
            exact, mask, name, sources = line.split()
            found.append((int(exact, 16), int(mask, 16), Operation(name, int(sources))))
    return tuple(found)


def _comparisons() -> str:
    """The FMA's comparisons of integers; bit 10 says what true is, except of ICMPI, which an ADD completes."""
    rows = []
    for k, (sign, condition) in enumerate(zip("ssuuii", ("gt", "ge", "gt", "ge", "eq", "ne"), strict=True)):
        rows.append(f"{0x2EF000 + 0x40 * k:x} 7ffbc0 ICMP.v4{sign}8.{condition} 2")
        rows.append(f"{0x2EF200 + 0x40 * k:x} 7ffbc0 ICMP.{sign}32.{condition} 2")
        rows.append(f"{0x2EF800 + 0x40 * k:x} 7fffc0 ICMPI.{sign}32.{condition} 2")
    return "\n".join(rows)


def _narrow_shifts() -> str:
    """The FMA's shifts of integers of 16 and 8 bits."""
    rows = []
    for name, exact, mask in (
        ("RSHIFT_AND", 0x300000, 0x7F3800),
        ("LSHIFT_AND", 0x310000, 0x7F3800),
        ("RSHIFT_OR", 0x302000, 0x7F3800),
        ("LSHIFT_OR", 0x312000, 0x7F3800),
        ("RSHIFT_XOR", 0x320000, 0x7FD800),
        ("LSHIFT_XOR", 0x324000, 0x7FD800),
        ("ARSHIFT", 0x334018, 0x7FF838),
    ):
        rows.append(f"{exact:x} {mask:x} {name}.v4i8 3")
        rows.append(f"{exact | 0x800:x} {mask:x} {name}.v2i16 3")
        rows.append(f"{exact | 0x1800:x} {mask:x} {name}.v2i16 3")
        rows.append(f"{exact | 0x1800:x} {mask | 0x600:x} {name}.v4i8 3")
    return "\n".join(rows)


def _narrow_sums() -> str:
    """The ADD's sums and means of integers of 16 and 8 bits, and of words with them."""
    rows = []
    for sign, unsigned in (("s", 0), ("u", 0x80)):
        for name, minus in (("IADD", 0), ("ISUB", 0x1000)):
            more = minus | unsigned
            rows.append(f"{0xBC400 | more:x} ffec0 {name}.v4{sign}8 2")
            rows.append(f"{0xBC800 | more:x} ff8c0 {name}.v2{sign}16 2")
            rows.append(f"{0xBE000 | more:x} ff9c0 {name}.{sign}32.byte 2")
            rows.append(f"{0xBE040 | more:x} ff8c0 {name}.v4{sign}8 2")
            rows.append(f"{0xBEC00 | more:x} ffdc0 {name}.{sign}32.half 2")
            rows.append(f"{0xBEC40 | more:x} ffcc0 {name}.v2{sign}16 2")
        rows.append(f"{0xBC640 | unsigned:x} fefc0 HADD.{sign}32 2")
        rows.append(f"{0xBC840 | unsigned:x} fe9c0 HADD.v2{sign}16 2")
        rows.append(f"{0xBC440 | unsigned:x} fefc0 HADD.v4{sign}8 2")
    return "\n".join(rows)


FMA = _table(
    _comparisons()
    + "\n"
    + _narrow_shifts()
    + """
000000 600000 FMA.f32 3
200000 7e0000 FMAX.f32 2
220000 7e0000 FMIN.f32 2
240000 7e0000 FCMP.f32 2
260000 7f0000 FCMP.f32 2
27fc00 7ffe00 IADDC.i32 3
27fe00 7ffe00 ISUBB.i32 3
280000 7c0000 FMA_RSCALE.f32 4
2c0000 7e0000 FADD.f32 2
2e3000 7ff000 CSEL.i32 4
2e4000 7fe000 CSEL.s32 4
2e6000 7fe000 CSEL.u32 4
2ec000 7fe800 ICMP.v2s16 2
2ec800 7fe800 ICMP.v2u16 2
2ee000 7ff000 ICMP.v2i16 2
301000 7f3800 RSHIFT_AND.i32 3
303000 7f3800 RSHIFT_OR.i32 3
311000 7f3800 LSHIFT_AND.i32 3
313000 7f3800 LSHIFT_OR.i32 3
325000 7fd800 LSHIFT_XOR.i32 3
329000 7ffe00 LSHIFT_ADD.i32 3
32b000 7ffe00 LSHIFT_SUB.i32 3
32d000 7ffe00 LSHIFT_RSUB.i32 3
32f000 7ffe00 RSHIFT_ADD.i32 3
331000 7ffe00 RSHIFT_SUB.i32 3
333000 7ffe00 RSHIFT_RSUB.i32 3
335000 7ffe00 ARSHIFT_ADD.i32 3
337000 7ffe00 ARSHIFT_SUB.i32 3
339000 7ffe00 ARSHIFT_RSUB.i32 3
33c000 7ff000 LSHIFT_DOUBLE.i32 3
33d000 7ff000 RSHIFT_DOUBLE.i32 3
6e8000 7fe000 V2F32_TO_V2F16 2
7009b0 7ffff8 F32_TO_S32 1
7009b8 7ffff8 F32_TO_U32 1
700bc0 7ffff8 S32_TO_F32 1
700bc8 7ffff8 U32_TO_F32 1
701ea0 7ffff8 IABS.s32 1
700b40 7fffc8 S8_TO_S32 1
700b48 7fffc8 U8_TO_U32 1
700cc0 7fffe8 S16_TO_S32 1
700cc8 7fffe8 U16_TO_U32 1
700d10 7ffff0 F16_TO_F32 1
701500 7fff40 SEG_ADD 1
701963 7fffff NOP 0
701968 7ffff8 MOV.i32 1
701b20 7fff20 FREXPM.f32 1
701a20 7fff20 FREXPM.f32.log 1
701c20 7ffea0 FREXPE.f32 1
701e20 7fffe0 FREXPE.f32.log 1
701fc0 7ffff8 BITREV.i32 1
701fd0 7ffff0 CLZ.u32 1
705c00 7ffe00 IMAX3.s32 3
705e00 7ffe00 IMAX3.u32 3
706000 7ffe00 IMIN3.s32 3
706200 7ffe00 IMIN3.u32 3
706400 7ffe00 IMED3.s32 3
706600 7ffe00 IMED3.u32 3
707620 7ffe60 FROUND.f32.away 1
70c020 7ff860 FROUND.f32 1
707800 7ffe00 MUX.neg 3
707a00 7ffe00 MUX.int_zero 3
707c00 7ffe00 MUX.fp_zero 3
707e00 7ffe00 MUX.bit 3
70e000 7ff800 SHADDXL.u32 2
70e600 7ffe00 SHADDXL.i64 2
70e800 7ff800 SHADDXL.s32 2
70f000 7fff00 MKVEC.v2i16 2
70f400 7ffc00 FADD_LSCALE.f32 2
710000 7f0000 MKVEC.v4i8 4
720000 7ffe00 IMAD.i64 3
73c000 7ffe00 IMAD.i32 3
73c200 7ffe00 IMSUB.i32 3
73c400 7ffe00 IMRSUB.i32 3
73c6d8 7ffff8 POPCOUNT.i32 1
2e0000 7fc000 CSEL.f32 4
2f4000 7fe000 ATOM_C.i32 3
2f6000 7fe000 ATOM_C_RETURN.i32 3
2f5e00 7ffe00 ATOM_C1.i32 2
2f7e00 7ffe00 ATOM_C1_RETURN.i32 2
321000 7fd800 RSHIFT_XOR.i32 3
335018 7ffe38 ARSHIFT.i32 3
335218 7ffe38 ARSHIFT.i32 3
335418 7ffe38 ARSHIFT.i32 3
335618 7ffe38 ARSHIFT.i32 3
400000 600000 FMA.v2f16 3
640000 7e0000 FCMP.v2f16 2
660000 7f0000 FCMP.v2f16 2
6c0000 7e0000 FADD.v2f16 2
6e0000 7fc000 CSEL.v2f16 4
6e3000 7ff000 CSEL.v2i16 4
6e4000 7fe000 CSEL.v2s16 4
6e6000 7fe000 CSEL.v2u16 4
6ee400 7ffc00 ATOM_POST.i32 2
701ec0 7fffc0 CLZ.v2u16 1
701f90 7ffff0 CLZ.v4u8 1
707600 7ffe60 FROUND.v2f16.away 1
70c000 7ff860 FROUND.v2f16 1
7240c0 7fe1c0 IMUL.v2i16 2
7380c0 7ff9c0 IMUL.v4i8 2
73b0c0 7ff1c0 IMUL.i32.byte 2
73c8c0 7ff9c0 IMUL.i32.half 2
73e0c0 7fffc0 IMUL.v4i8 2
"""
)
ADD = _table(
    _narrow_sums()
    + """
00000 f0600 FMAX.f32 2
10000 f0600 FMIN.f32 2
20000 f0000 FADD.f32 2
30000 f8000 FCMP.f32 2
38000 fc000 FCMP.f32 2
88000 e8000 FADD_RSCALE.f32 3
3c980 fffc8 F32_TO_S32 1
3c988 fffc8 F32_TO_U32 1
3cbc0 fffc8 S32_TO_F32 1
3cbc8 fffc8 U32_TO_F32 1
3cb40 fffc8 S8_TO_S32 1
3cb48 fffc8 U8_TO_U32 1
3cb80 fffc8 S8_TO_F32 1
3cb88 fffc8 U8_TO_F32 1
3ccc0 fffe8 S16_TO_S32 1
3ccc8 fffe8 U16_TO_U32 1
3cce0 fffe8 S16_TO_F32 1
3cce8 fffe8 U16_TO_F32 1
3cd10 ffff0 F16_TO_F32 1
3d500 fff40 SEG_ADD 1
3d960 ffff8 NOP 0
3d968 ffff8 MOV.i32 1
3dea0 ffff8 IABS.s32 1
3db20 fff20 FREXPM.f32 1
3da20 fff20 FREXPM.f32.log 1
3dc20 ffea0 FREXPE.f32 1
3de20 fffe0 FREXPE.f32.log 1
3e820 ff860 FROUND.f32 1
3f8c0 fffc0 SHADDXH.i32 2
60c00 ffe00 LOAD.i32 2
60e00 ffe00 LOAD.i64 2
65400 ffe00 LOAD.i96 2
61000 ffe00 LOAD.i128 2
62c00 ffe00 STORE.i32 2
62e00 ffe00 STORE.i64 2
65c00 ffe00 STORE.i96 2
61200 ffe00 STORE.i128 2
66000 fffe0 FRCP.f32 1
66100 fffe0 FRSQ.f32 1
66340 ffff8 FLOGD.f32 1
66ac0 fffc0 FEXP.f32 2
67000 fffc0 FRCP_APPROX.f32 1
67100 fffc0 FRSQ_APPROX.f32 1
67300 fffc0 FLOG_TABLE.f32.red 1
67b00 fffc0 FLOG_TABLE.f32.base2 1
67ae0 fffe0 FLOG_TABLE.f32 1
67640 ffe40 FPOW_SC_DET.f32 2
75080 fffc0 FPOW_SC_APPLY 2
67a80 fffe8 FSIN_TABLE.u6 1
67a88 fffe8 FCOS_TABLE.u6 1
67ac0 fffe0 FEXP_TABLE.u4 1
6fe34 ffe3f JUMP 3
6f800 ffe00 BRANCHZ 3
6f008 ff838 BRANCHZ.signed 3
68000 fc000 BRANCH 3
6c000 ff000 BRANCH 3
d7874 fffff BARRIER 0
74000 ff800 MUX 3
74c00 ffe00 LDEXP.f32 2
75300 fff00 MKVEC.v2i16 2
76000 fe000 V2F32_TO_V2F16 2
7b000 ffb80 ICMP.v4s8 2
7b080 ffb80 ICMP.v4u8 2
7b200 ffb80 ICMP.s32 2
7b280 ffb80 ICMP.u32 2
7b100 ffb80 ICMP.v4i8 2
7b300 ffb80 ICMP.i32 2
78800 fe800 ICMP.v2u16 2
7be00 ffe00 ICMPF.i32 3
bc600 ffec0 IADD.s32 2
bc780 fffc0 IADD.u32 2
bd600 ffec0 ISUB.s32 2
bd780 fffc0 ISUB.u32 2
3c200 fff08 V2F16_TO_V2S16 1
3c208 fff08 V2F16_TO_V2U16 1
3c500 fff48 F16_TO_S32 1
3c508 fff48 F16_TO_U32 1
3c600 fff08 V2S16_TO_V2F16 1
3c608 fff08 V2U16_TO_V2F16 1
3c700 fff08 V2S8_TO_V2S16 1
3c708 fff08 V2U8_TO_V2U16 1
3c800 fff08 V2S8_TO_V2F16 1
3c808 fff08 V2U8_TO_V2F16 1
3d700 fffc0 WMASK 1
3d948 fffc8 SWZ.v2i16 1
3de88 fffc8 IABS.v2s16 1
3deb0 ffff8 IABS.v4s8 1
3df40 fffc0 SWZ.v4i8 1
3e800 ff860 FROUND.v2f16 1
3f0c0 fffc0 CLPER_OLD.i32 2
60000 ff800 LOAD.i8 2
60800 ffc00 LOAD.i16 2
61400 ffc00 LOAD.i8.two 2
61800 ffc00 LOAD.i16.two 2
61c00 ffc00 LOAD.i32.two 2
62000 ffe00 STORE.i8 2
62800 ffe00 STORE.i16 2
63000 ffc00 LOAD.i16.word 2
63400 ffc00 LOAD.i8.word 2
63800 ff800 LOAD.i8.half 2
640c0 ffdc0 AXCHG.i32 2
644c0 ffdc0 ACMPXCHG.i32 2
65000 ffe00 LOAD.i24 2
65200 ffe00 LOAD.i48 2
65800 ffe00 STORE.i24 2
65a00 ffe00 STORE.i48 2
67080 ffec0 FRCP.f16 1
67280 ffec0 FRSQ.f16 1
70000 fc000 MUX.v2i16 3
74800 ffc00 MUX.v4i8 3
74e00 ffe00 LDEXP.v2f16 2
78000 fe800 ICMP.v2s16 2
7a000 ff000 ICMP.v2i16 2
7c000 fc000 CLPER.i32 2
80000 f8000 FMAX.v2f16 2
90000 f8000 FMIN.v2f16 2
a0000 f0000 FADD.v2f16 2
b0000 f8000 FCMP.v2f16 2
b8000 fc000 FCMP.v2f16 2
d7400 ffe00 ATOM_CX 3
e0000 fe600 RSHIFT_NAND.i32 3
e2000 fe600 RSHIFT_AND.i32 3
e4000 fe600 LSHIFT_NAND.i32 3
e6000 fe600 LSHIFT_AND.i32 3
ea000 ffe00 LSHIFT_ADD.i32 3
ea800 ffe00 LSHIFT_SUB.i32 3
eb000 ffe00 LSHIFT_RSUB.i32 3
eb800 ffe00 RSHIFT_ADD.i32 3
ec000 ffe00 RSHIFT_SUB.i32 3
ec800 ffe00 RSHIFT_RSUB.i32 3
ed000 ffe00 ARSHIFT_ADD.i32 3
ed800 ffe00 ARSHIFT_SUB.i32 3
ee000 ffe00 ARSHIFT_RSUB.i32 3
ee8c0 fffc0 OR.i32 2
ee900 fffc0 AND.i32 2
eea80 fffc0 XOR.i32 2
eeb00 fffc0 LSHIFT.i32 2
eec00 fffc0 RSHIFT.i32 2
eed00 fffc0 ARSHIFT.i32 2
efe00 ffe00 SHIFT_DOUBLE.i32 3
"""
)


@functools.cache
def fma(word: int) -> Operation | None:
    """The operation of an FMA encoding, None where it is not known."""
    return _find(FMA, word)


@functools.cache
def add(word: int) -> Operation | None:
    """The operation of an ADD encoding, None where it is not known."""
    return _find(ADD, word)


def _find(table: tuple[tuple[int, int, Operation], ...], word: int) -> Operation | None:
    """Of several the one with the narrowest mask."""
    found = [(mask.bit_count(), operation) for exact, mask, operation in table if word & mask == exact]
    return max(found, key=lambda item: item[0])[1] if found else None
