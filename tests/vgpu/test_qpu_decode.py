# SPDX-License-Identifier: BSD-2-Clause
"""The QPU decoder and disassembler, against Mesa's disassembler and against an assembler of our own.

qpu_golden.txt holds instruction words (of real compute shaders, chosen and random) with what Mesa's disassembler
makes of them; make_qpu_golden.py remakes it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.qpu_asm import assemble_line
from tests.support.qpu_bench import V3D, disassemble

GOLDEN = [
    (int(word, 16), text)
    for word, text in (
        line.split(" ", 1) for line in (Path(__file__).with_name("qpu_golden.txt")).read_text().splitlines()
    )
]
# Where we differ from Mesa 22.3.6 on purpose: it accepts V3D 3.3's vdwwt and vpmsetup on 4.2, prints one
# texture register under another's name, and has a branch condition 1 that it never makes.
MESA_ONLY = re.compile(r"^(vdwwt|vpmsetup)")
UNPACKED_BY_71 = (".sat", ".nsat", ".max0", ".ul", ".uh", ".il", ".ih")
OUR_SIGNALS = re.compile(r"; (rot(\.\d+)?|ucb|link)$")  # Mesa does not print these


def ours(word: int) -> str:
    text = OUR_SIGNALS.sub("", disassemble(word)).replace("tmuhscm", "tmuscm")
    return re.sub(r"reserved(\d+)", r"UNKNOWN \1", re.sub(r"\s+", " ", text)).strip()


def normal(text: str) -> str:
    return re.sub(r"waddr UNKNOWN |\.UNKNOWN(?=\d)", lambda m: ".UNKNOWN " if m[0][0] == "." else "UNKNOWN ", text)


def unordered(text: str) -> str:
    """Sources of commutative operations in one order: there the encoding, not the operation, differs."""
    return re.sub(
        r"(\b(?:fadd|faddnf|fmin|fmax)[.a-z]* [^,;]+, )([^,;]+), ([^,;]+)",
        lambda m: m[1] + ", ".join(sorted((m[2], m[3]))),
        text,
    )


def test_golden_has_valid_and_reserved_words() -> None:
    valid = [text for _, text in GOLDEN if text != "-"]
    assert len(valid) > 1000
    assert len(GOLDEN) - len(valid) > 30


def test_golden_has_every_form() -> None:
    """Each operation, modifier, signal, write address and branch that the decoder's header names."""
    header = (V3D / "v3d_qpu_decode.h").read_text()
    source = (V3D / "v3d_qpu_disasm.c").read_text()
    add, mul = (
        set(re.findall(r'X\(\w+, "(\w+)"', part))
        for part in header.partition("#define QPU_ADD_OPS")[2].partition("V3D 7.1")[0].split("QPU_MUL_OPS")
    )
    valid = [ours(word) for word, text in GOLDEN if text != "-"]
    alus = [text.split("; ") for text in valid if not text.startswith(("!", "b ", "b.", "bu", "bp", "bq"))]
    assert add - {re.match(r"\w+", parts[0])[0] for parts in alus} == set()  # type: ignore[index]
    assert mul - {re.match(r"\w+", parts[1])[0] for parts in alus} == set()  # type: ignore[index]
    words = set(re.findall(r"\.\w+", " ".join(valid)))
    tables = re.findall(r"\*const (\w+)\[\] = \{(.*?)\};", source, re.S)
    assert {name for name, _ in tables} >= {"unpack_names", "conds", "flag_ops", "packs", "lanes", "uniforms"}
    branches = " ".join(text for text in valid if re.match(r"b[u.pq ]", text))
    for name, table in tables:
        for word in set(re.findall(r'"([^"]*)"', table)) - {"", *UNPACKED_BY_71}:
            if name == "lanes":
                assert re.search(rf"\bbu?(\.\w+)?{word} ", branches), word
            else:
                assert word in words or re.search(rf"{re.escape(word)}[pq\d]*\b", branches), (name, word)
    signals = set(re.findall(r'\{QPU_SIG_\w+, "(\w+)"\}', source)) - {"ucb", "rot"}  # Mesa does not print these
    assert signals - {part.partition(".")[0] for parts in alus for part in parts[2:]} == set()


def test_text_equals_mesa() -> None:
    differences = []
    for word, text in GOLDEN:
        mine = ours(word)
        if text == "-":
            if not mine.startswith("!") and "UNKNOWN" not in mine:
                differences.append((hex(word), mine, "refused by Mesa"))
        elif mine.startswith("!"):
            branch = (word >> 58) == 0 and ("known meaning" in mine or "branch condition" in mine)
            if not (branch or "uniform destination" in mine or MESA_ONLY.match(text)):
                differences.append((hex(word), mine, text))
        elif mine != normal(text) and not MESA_ONLY.match(text):
            differences.append((hex(word), mine, text))
    assert differences == []


def test_assembler_and_disassembler_agree() -> None:
    for word, _ in GOLDEN:
        text = disassemble(word)
        if text.startswith(("!", "ldvpm", "stvpm")) or "reserved" in text:
            continue
        if (rotated := re.search(r"; rot\.(\d+)", text)) and f"rf{rotated[1]}" in text:
            continue  # one port cannot bring both, and the model refuses such words
        assert unordered(disassemble(assemble_line(text))) == unordered(text), hex(word)


@given(st.integers(0, 2**64 - 1))
def test_any_word_is_text_or_a_reason(word: int) -> None:
    text = disassemble(word)
    assert text
    if text.startswith("!"):
        assert re.search(r"bits \d+:\d+ = 0x[0-9a-f]+", text)


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        (0, "neither an ALU instruction nor a branch"),
        (0x3C003186BB800000 & ~(31 << 53) | 26 << 53, "reserved signal"),
        (0x3C003186BB800000 | 15 << 53 | 48, "reserved small immediate"),
        (0x3C003186BB800000 & ~(127 << 46) | 16 << 46, "reserved condition"),
        (0x3C00318600800000 | 52 << 24, "reserved add operation"),
        (0x3C003186BB800000 & ~(63 << 58) | 11 << 58, "reserved mul operation"),
        (16 << 53 | 1 << 32, "reserved branch condition"),
        (16 << 53 | 3 << 21, "reserved branch lane selection"),
        (16 << 53 | 1 << 18, "branch bits with no known meaning"),
        (16 << 53 | 1 << 14 | 5 << 15, "reserved uniform destination"),
    ],
)
def test_reserved_encodings_are_named(word: int, reason: str) -> None:
    assert disassemble(word).startswith("!" + reason)
