# SPDX-License-Identifier: BSD-2-Clause
"""What Mesa's disassembler leaves out of V3D 7.1 code."""

from __future__ import annotations

import re

# Mesa 25.0.7 has no names for how the mul ALU's fmov unpacks its source beyond two bits, and does not look at how
# roundings unpack theirs (qpu_pack.c: v3d71_qpu_mul_unpack, v3d71_qpu_add_unpack), although it encodes both.
CLAMPED = re.compile(r"(; fmov\S* [^;]*)\.(sat|nsat|max0)")
TWO_BITS = {"sat": ".abs", "nsat": "", "max0": ".l"}
ROUNDED = re.compile(r"^((?:fround|ftrunc|ffloor|fceil|fdx|fdy)\S* [^;]*)\.[lh];")


def as_mesa(text: str) -> str:
    """With what Mesa leaves out."""
    return ROUNDED.sub(r"\1;", CLAMPED.sub(lambda m: m[1] + TWO_BITS[m[2]], text))
