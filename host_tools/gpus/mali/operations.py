# SPDX-License-Identifier: BSD-2-Clause
"""Operations of Bifrost v6 and v7 by their encoding: names, sources and modifiers.

Sources: Mesa 22.3.6 src/panfrost/bifrost/ISA.xml, which has v7's; v6's own were found in recordings.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from host_tools.gpus.mali.modifiers import Field, field


@dataclass(frozen=True)
class Operation:
    """What encodings under a mask are.

    Attributes:
        name: without modifiers.
        sources: those that it has of the sources at bits 0, 3, 6 and 9.
        fields: its modifiers, in the order in which they are written.
    """

    name: str
    sources: tuple[int, ...]
    fields: tuple[Field, ...]

    def told(self, word: int, sources: list[str]) -> tuple[str, list[str]]:
        """Name and operands with what an encoding's modifiers say.

        Args:
            sources: what the sources are, in the order of `sources`; [] where that is not known.
        """
        said = {where: "".join(f.text(word) for f in self.fields if f.where == where) for where in ("", *"0123")}
        operands = [text + said[str(place)] for place, text in zip(self.sources, sources, strict=bool(sources))]
        operands += [f.text(word) for f in self.fields if f.where == "+"]
        return self.name + said[""], operands


def _table(text: str) -> tuple[tuple[int, int, Operation], ...]:
    """Rows of: exact bits, their mask, name, places of sources, modifiers as `modifiers.field` reads them."""
    found = []
    for line in text.split("\n"):
        if line.strip():
            exact, mask, name, sources, *fields = line.split()
            places = tuple(int(place) for place in sources.strip("-"))
            operation = Operation(name, places, tuple(field(text) for text in fields))
            found.append((int(exact, 16), int(mask, 16), operation))
    return tuple(found)


def _comparisons() -> str:
    """The FMA's comparisons of integers; bit 10 says what true is, except of ICMPI, which an ADD completes."""
    rows = []
    for k, (sign, condition) in enumerate(zip("ssuuii", ("gt", "ge", "gt", "ge", "eq", "ne"), strict=True)):
        rows.append(f"{0x2EF000 + 0x40 * k:x} 7ffbc0 ICMP.v4{sign}8 01 true@10 .{condition}")
        rows.append(f"{0x2EF200 + 0x40 * k:x} 7ffbc0 ICMP.{sign}32 01 true@10 .{condition}")
        rows.append(f"{0x2EF800 + 0x40 * k:x} 7fffc0 ICMPI.{sign}32.{condition} 01")
    return "\n".join(rows)


FMA = _table(
    _comparisons()
    + """
000000 600000 FMA.f32 012 round@13 clamp@15 0first@9 0abs@12 1second@9 1neg@17 1abs@19 2neg@18 2abs@20
200000 7e0000 FMAX.f32 01 clamp@15 nan@13 0neg@7 0abs@12 0first@9 1abs@6 1neg@8 1second@9
220000 7e0000 FMIN.f32 01 clamp@15 nan@13 0neg@7 0abs@12 0first@9 1abs@6 1neg@8 1second@9
240000 7c0000 FCMP.f32 01 compare@13 float_true@16 0first@9 0neg@7 0abs@12 1second@9 1abs@6 1neg@8
27fc00 7ffe00 IADDC.i32 012
27fe00 7ffe00 ISUBB.i32 012
280000 7c0000 FMA_RSCALE.f32 0123 scale@12 0abs@15 1neg@16 2neg@17
2c0000 7e0000 FADD.f32 01 round@13 clamp@15 0neg@7 0abs@12 0first@9 1abs@6 1neg@8 1second@9
2e3000 7ff000 CSEL.i32 0123 .eq
2e4000 7fe000 CSEL.s32 0123 above@12
2e6000 7fe000 CSEL.u32 0123 above@12
2ec000 7fe800 ICMP.v2s16 01 true@10 above@12 0halves@6 1halves@8
2ec800 7fe800 ICMP.v2u16 01 true@10 above@12 0halves@6 1halves@8
2ee000 7ff000 ICMP.v2i16 01 true@10 equal@11 0halves@6 1halves@8
301000 7f3800 RSHIFT_AND.i32 012 unless_not@15 1not@14 2byte@9
303000 7f3800 RSHIFT_OR.i32 012 not@15 1unless_not@14 2byte@9
311000 7f3800 LSHIFT_AND.i32 012 unless_not@15 1not@14 2byte@9
313000 7f3800 LSHIFT_OR.i32 012 not@15 1unless_not@14 2byte@9
325000 7fd800 LSHIFT_XOR.i32 012 not@13 2byte@9
329000 7ffe00 LSHIFT_ADD.i32 012
32b000 7ffe00 LSHIFT_SUB.i32 012
32d000 7ffe00 LSHIFT_RSUB.i32 012
32f000 7ffe00 RSHIFT_ADD.i32 012
331000 7ffe00 RSHIFT_SUB.i32 012
333000 7ffe00 RSHIFT_RSUB.i32 012
335000 7ffe00 ARSHIFT_ADD.i32 012
337000 7ffe00 ARSHIFT_SUB.i32 012
339000 7ffe00 ARSHIFT_RSUB.i32 012
33c000 7ff000 LSHIFT_DOUBLE.i32 012 word@11 2two_bytes@9 2third@10
33d000 7ff000 RSHIFT_DOUBLE.i32 012 word@11 2two_bytes@9 2third@10
7009b0 7ffff8 F32_TO_S32 0 .rtz
7009b8 7ffff8 F32_TO_U32 0 .rtz
700bc0 7ffff8 S32_TO_F32 0
700bc8 7ffff8 U32_TO_F32 0
701ea0 7ffff8 IABS.s32 0
700b40 7fffc8 S8_TO_S32 0 0byte@4
700b48 7fffc8 U8_TO_U32 0 0byte@4
700cc8 7fffe8 U16_TO_U32 0 0half@4
701500 7fff40 SEG_ADD 0 segment@3 keep@7
701963 7fffff NOP -
701968 7ffff8 MOV.i32 0
701b20 7fff20 FREXPM.f32 0 sqrt@7 0abs@6 0float@3
701a20 7fff20 FREXPM.f32.log 0 0abs@6 0float@3 0neg@7
701c20 7ffea0 FREXPE.f32 0 sqrt@8 0neg@6 0float@3
701e20 7fffe0 FREXPE.f32.log 0 0float@3
705c00 7ffe00 IMAX3.s32 012
705e00 7ffe00 IMAX3.u32 012
706000 7ffe00 IMIN3.s32 012
706200 7ffe00 IMIN3.u32 012
706400 7ffe00 IMED3.s32 012
706600 7ffe00 IMED3.u32 012
707620 7ffe60 FROUND.f32.rtna 0 0abs@7 0neg@8 0float@3
70c020 7ff860 FROUND.f32 0 round@9 0abs@7 0neg@8 0float@3
707800 7ffe00 MUX.i32.neg 012
707a00 7ffe00 MUX.i32 012
707c00 7ffe00 MUX.i32.fp_zero 012
707e00 7ffe00 MUX.i32.bit 012
70e000 7ff800 SHADDXL.u32 01 1part@9 +shift@6
70e600 7ffe00 SHADDXL.i64 01 +shift@6
70e800 7ff800 SHADDXL.s32 01 1part@9 +shift@6
70f000 7fff00 MKVEC.v2i16 01 0half@6 1half@7
710000 7f0000 MKVEC.v4i8 0123 0third@12 1third@13 2third@14 3third@15
720000 7ffe00 IMAD.i64 012
73c000 7ffe00 IMAD.i32 012
73c200 7ffe00 IMSUB.i32 012
73c400 7ffe00 IMRSUB.i32 012
"""
)
ADD = _table("""
00000 f0600 FMAX.f32 01 clamp@11 nan@13 0neg@7 0abs@15 1abs@6 1neg@8
10000 f0600 FMIN.f32 01 clamp@11 nan@13 0neg@7 0abs@15 1abs@6 1neg@8
20000 f0000 FADD.f32 01 round@13 clamp@11 0neg@7 0abs@15 0one@9 1abs@6 1neg@8 1other@9
30000 f0000 FCMP.f32 01 compare@6 float_true@14 0one@9 1other@9 0neg@13 0abs@11 1abs@12
88000 e8000 FADD_RSCALE.f32 012 sum_scale@9 0neg@13 0abs@16 1abs@12 1neg@14
3c980 fffc8 F32_TO_S32 0 round@4
3c988 fffc8 F32_TO_U32 0 round@4
3cbc0 fffc8 S32_TO_F32 0 round@4
3cbc8 fffc8 U32_TO_F32 0 round@4
3cb48 fffc8 U8_TO_U32 0 0byte@4
3ccc8 fffe8 U16_TO_U32 0 0half@4
3d500 fff40 SEG_ADD 0 segment@3 keep@7
3d960 ffff8 NOP -
3d968 ffff8 MOV.i32 0
3dea0 ffff8 IABS.s32 0
3db20 fff20 FREXPM.f32 0 sqrt@7 0abs@6 0float@3
3da20 fff20 FREXPM.f32.log 0 0abs@6 0float@3 0neg@7
3dc20 ffea0 FREXPE.f32 0 sqrt@8 0neg@6 0float@3
3de20 fffe0 FREXPE.f32.log 0 0float@3
3e820 ff860 FROUND.f32 0 round@9 0abs@7 0neg@8 0float@3
3f8c0 fffc0 SHADDXH.i32 01
60c00 ffe00 LOAD.i32 01 load@6
60e00 ffe00 LOAD.i64 01 load@6
65400 ffe00 LOAD.i96 01 load@6
61000 ffe00 LOAD.i128 01 load@6
62c00 ffe00 STORE.i32 01 store@6
62e00 ffe00 STORE.i64 01 store@6
65c00 ffe00 STORE.i96 01 store@6
61200 ffe00 STORE.i128 01 store@6
67000 fffc0 FRCP_APPROX.f32 0 divzero@5 0neg@3 0abs@4
67100 fffc0 FRSQ_APPROX.f32 0 divzero@5 0neg@3 0abs@4
67300 fffc0 FLOG_TABLE.f32.red 0 divzero@5 0neg@3 0abs@4
67b00 fffc0 FLOG_TABLE.f32 0 base@5 0neg@3 0abs@4
67ae0 fffe0 FLOG_TABLE.f32 0 other_base@3 precision@4
67640 ffe40 FPOW_SC_DET.f32 01 power@7
75080 fffc0 FPOW_SC_APPLY 01
67ac0 fffe0 FEXP_TABLE.u4 0 exponent@3
6fe34 ffe3f JUMP 2
6f800 ffe00 BRANCHZ 02 zero@3 0zero_half@4
6f008 ff838 BRANCHZ.s32 02 sign@9
68000 f8000 BRANCH 012
d7874 fffff BARRIER -
74000 ff800 MUX.i32 012 mux@9
75300 fff00 MKVEC.v2i16 01 0half@6 1half@7
7b000 ffb80 ICMP.v4s8 01 true@10 above@6
7b080 ffb80 ICMP.v4u8 01 true@10 above@6
7b200 ffb80 ICMP.s32 01 true@10 above@6
7b280 ffb80 ICMP.u32 01 true@10 above@6
7b100 ffb80 ICMP.v4i8 01 true@10 equal@6
7b300 ffb80 ICMP.i32 01 true@10 equal@6
78800 fe800 ICMP.v2u16 01 true@10 above@12 0halves@6 1halves@8
7be00 ffe00 ICMPF.i32 012
bc600 ffec0 IADD.s32 01 sat@8
bd600 ffec0 ISUB.s32 01 sat@8
bec00 ffdc0 IADD.s32 01 1half_lane@9
be000 ff9c0 IADD.s32 01 1byte_lane@9
e0000 fe600 RSHIFT_NAND.i32 012 0not@11 1not@12
e2000 fe600 RSHIFT_AND.i32 012 0not@11 1not@12
e4000 fe600 LSHIFT_NAND.i32 012 0not@11 1not@12
e6000 fe600 LSHIFT_AND.i32 012 0not@11 1not@12
ea000 ffe00 LSHIFT_ADD.i32 012
ea800 ffe00 LSHIFT_SUB.i32 012
eb000 ffe00 LSHIFT_RSUB.i32 012
eb800 ffe00 RSHIFT_ADD.i32 012
ec000 ffe00 RSHIFT_SUB.i32 012
ec800 ffe00 RSHIFT_RSUB.i32 012
ed000 ffe00 ARSHIFT_ADD.i32 012
ed800 ffe00 ARSHIFT_SUB.i32 012
ee000 ffe00 ARSHIFT_RSUB.i32 012
ee8c0 fffc0 OR.i32 01
ee900 fffc0 AND.i32 01
eea80 fffc0 XOR.i32 01
eeb00 fffc0 LSHIFT.i32 01
eec00 fffc0 RSHIFT.i32 01
eed00 fffc0 ARSHIFT.i32 01
efe00 ffe00 SHIFT_DOUBLE.i32 012
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
