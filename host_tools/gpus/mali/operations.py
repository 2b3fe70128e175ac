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


FMA = _table(
    _comparisons()
    + """
000000 600000 FMA.f32 3
200000 7e0000 FMAX.f32 2
220000 7e0000 FMIN.f32 2
240000 7c0000 FCMP.f32 2
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
"""
)
ADD = _table("""
00000 f0600 FMAX.f32 2
10000 f0600 FMIN.f32 2
20000 f0000 FADD.f32 2
30000 f0000 FCMP.f32 2
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
68000 f8000 BRANCH 3
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
bec00 bfc00 IADD.i32.half 2
be000 bf000 IADD.i32.byte 2
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
""")


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
