# SPDX-License-Identifier: BSD-2-Clause
"""The decoder of V3D 7.1 code, against Mesa's disassembler and against an assembler of our own.

qpu_golden71.txt holds instruction words (of real compute shaders, chosen and random) with what Mesa's disassembler
makes of them; make_qpu_golden.py remakes it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.qpu_asm71 import assemble_line
from tests.support.qpu_bench import V3D, disassemble
from tests.support.qpu_mesa import as_mesa
from tests.vgpu.test_qpu_decode import normal, unordered

GOLDEN = [
    (int(word, 16), text)
    for word, text in (
        line.split(" ", 1) for line in Path(__file__).with_name("qpu_golden71.txt").read_text().splitlines()
    )
]
# What we refuse beyond Mesa: encodings that it takes, but cannot make (v3d_qpu_decode71.c says which).
NOT_MADE = re.compile(r"^(itof|utof|fround|ftrunc|ffloor|fceil|fdx|fdy|ftoin|ftoiz|ftouz|ftoc)\b|; fmov\b")


# Mesa's names of write addresses that a V3D 7.1 has not.
RESERVED = {f"{at}": f"r{at}" for at in range(5)}
RESERVED |= {f"{19 + i}": name for i, name in enumerate(["recip", "rsqrt", "exp", "log", "sin", "rsqrt2"])}


def ours(word: int) -> str:
    text = re.sub(r"; (ucb|link)$", "", disassemble(word, 71)).replace("tmuhscm", "tmuscm")
    text = re.sub(r"reserved(\d+)", lambda m: RESERVED.get(m[1], f"UNKNOWN {m[1]}"), text)
    return re.sub(r"\s+", " ", text).strip()


def test_golden_has_valid_and_reserved_words() -> None:
    valid = [text for _, text in GOLDEN if text != "-"]
    assert len(valid) > 2000
    assert len(GOLDEN) - len(valid) > 300


def test_golden_has_every_operation() -> None:
    """Of those that the header lists, but what only a V3D 4.2 has, and what cannot be encoded."""
    header = (V3D / "v3d_qpu_decode.h").read_text()
    names = set(re.findall(r'X\(\w+, "(\w+)"', header)) - {"vfmin", "vfmax", "vfmul"}
    found = " ".join(ours(word) for word, _ in GOLDEN)
    assert {name for name in names if not re.search(rf"\b{name}\b", found)} == set()


def test_text_equals_mesa() -> None:
    differences = []
    for word, text in GOLDEN:
        mine = ours(word)
        if text == "-":
            if not mine.startswith("!") and "UNKNOWN" not in mine and not re.search(r"\.[ui][lh]\b", mine):
                differences.append((hex(word), mine, "refused by Mesa"))
        elif mine.startswith("!"):
            branch = (word >> 58) == 0 and ("known meaning" in mine or "branch condition" in mine)
            if not (branch or "uniform destination" in mine or NOT_MADE.search(text)):
                differences.append((hex(word), mine, text))
        elif as_mesa(mine) != normal(text):
            differences.append((hex(word), as_mesa(mine), normal(text)))
    assert differences == []


def test_assembler_and_disassembler_agree() -> None:
    for word, _ in GOLDEN:
        text = disassemble(word, 71)
        if text.startswith(("!", "ldvpm", "stvpm")) or "reserved" in text or "; ucb" in text:
            continue
        assert unordered(disassemble(assemble_line(text), 71)) == unordered(text), hex(word)


@given(st.integers(0, 2**64 - 1))
def test_any_word_is_text_or_a_reason(word: int) -> None:
    text = disassemble(word, 71)
    assert text
    if text.startswith("!"):
        assert re.search(r"bits \d+:\d+ = 0x[0-9a-f]+", text)


NOP = 14 << 58 | 63 << 12 | 187 << 24


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        (0, "neither an ALU instruction nor a branch"),
        (NOP | 23 << 53, "reserved signal"),
        (NOP | 28 << 53, "reserved signal"),
        (NOP & ~(0xFF << 24) | 56 << 24 | 14 << 53 | 48 << 6, "reserved small immediate (bits 11:6"),
        (NOP & ~(0xFF << 24) | 56 << 24 | 15 << 53 | 48, "reserved small immediate (bits 5:0"),
        (1 << 58 | 187 << 24 | 30 << 53 | 48 << 18, "reserved small immediate (bits 23:18"),
        (1 << 58 | 187 << 24 | 31 << 53 | 48 << 12, "reserved small immediate (bits 17:12"),
        (NOP | 16 << 46, "reserved condition"),
        (NOP | 19, "reserved or unknown add operation (bits 31:24 = 0xbb, raddr_b 5:0 = 19)"),
        (NOP & ~(0xFF << 24) | 176 << 24, "reserved or unknown add operation"),  # vfmin
        (NOP & ~(0xFF << 24) | 245 << 24 | 3, "reserved or unknown add operation"),  # ftoin of an absolute value
        (NOP & ~(0xFF << 24) | 249 << 24 | 28, "reserved or unknown add operation"),
        (NOP & ~(0xFF << 24) | 255 << 24, "reserved or unknown add operation"),
        (NOP & ~(63 << 12) | 28 << 12, "reserved or unknown mul operation (bits 63:58 = 0xe, raddr_d 17:12 = 28)"),
        (4 << 58 | 187 << 24, "reserved or unknown mul operation"),  # vfmul
    ],
)
def test_what_is_not_known_is_named(word: int, reason: str) -> None:
    assert disassemble(word, 71).startswith("!" + reason)
