# SPDX-License-Identifier: BSD-2-Clause
"""Each Bifrost operation with its modifiers against NumPy, on numbers where roundings, signs and limits matter."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import numpy as np
import pytest

from host_tools.gpus import mali
from tests.support.bifrost_asm import ADD_NOP, FMA_NOP
from tests.support.bifrost_board import ShaderBoard, Words
from tests.support.bifrost_conversions import conversion_and_table_rows
from tests.support.bifrost_halves import half_pair_rows
from tests.support.bifrost_integers import integer_rows
from tests.support.bifrost_meaning import Row, float_rows, scale_rows
from tests.support.bifrost_narrow import narrow_rows

# Rounding down is rounding to zero where results are positive, as unsigned, clamped and absolute ones are, and up
# where they are negative; FADD_RSCALE has no product; two forms of FMA_RSCALE differ in what is not modelled.
MEANT_ALIKE = 71
SOURCES = Path(mali.__file__).with_name("vgpu") / "bifrost"
EDGES = (
    0, 0x80000000, 1, 0x80000001, 0x7FFFFF, 0x800000, 0x3F800000, 0xBF800000, 0x3F7FFFFF, 0x3F800001, 0x3F000000,
    0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001, 0x4B000001, 0x4F000000, 0xCF000000,
    0x4EFFFFFF, 0x40200000, 0xC0200000, 0x3FC00000, 0x3F400000, 0x7FFFFFFF, 0xFFFFFFFF, 31, 32, 63, 0x00010000,
    0x3C00BC01,
    0xFFFFFFF0, 0x00008000, 0x7FFF8000, 0x80FF7F01, 0x3800B800, 0x41003E00, 0xC1004100, 0x7C00FC00, 0x7BFF0001,
)  # fmt: skip


@functools.cache
def inputs() -> Words:
    """uint32 (256, 4): pairs of edges, then floats of like exponents, small integers and random bits."""
    generator = np.random.default_rng(11)
    edges = np.array(EDGES, np.uint32)
    rows = [edges[generator.integers(0, len(edges), (128, 4))]]
    like = generator.standard_normal((64, 4)).astype(np.float32) * np.exp2(generator.integers(-4, 5, (64, 4)))
    rows.append(like.astype(np.float32).view(np.uint32))
    rows.append(generator.integers(-40, 41, (32, 4)).astype(np.int32).view(np.uint32))
    rows.append(generator.integers(0, 2**32, (32, 4), np.uint32))
    found = np.concatenate(rows)
    found[::23, :3] = 0, 0x7F800000, 0x3F800000  # zero times infinity
    found[::17, 1] = found[::17, 0]  # equal ones, for comparisons
    found[::19, 2] = found[::19, 1]
    return found


@functools.cache
def rows() -> dict[str, Row]:
    words = (*float_rows(), *scale_rows(), *integer_rows(), *conversion_and_table_rows())
    return {row.name: row for row in (*words, *half_pair_rows(), *narrow_rows())}


@functools.cache
def expected(row: Row) -> Words:
    """uint32 (n, 2): zero where there is no operation."""
    columns = inputs().T.copy()
    with np.errstate(all="ignore"):
        both = [np.zeros(len(inputs()), np.uint32) if f is None else f(*columns) for f in (row.fma, row.add)]
    return np.stack(both, 1)


@pytest.fixture
def board() -> ShaderBoard:
    return ShaderBoard()


GROUPS = sorted({name.split()[0] for name in rows()})


@pytest.mark.parametrize("group", GROUPS)
def test_an_operation(board: ShaderBoard, group: str) -> None:
    for name, row in rows().items():
        if name.split()[0] != group:
            continue
        found, wanted = board.compute(row.fma_word, row.add_word, inputs()), expected(row)
        wrong = np.flatnonzero((found != wanted).any(1))
        if len(wrong):
            at = wrong[0]
            pytest.fail(
                f"{name}: {len(wrong)} of {len(found)} differ; of {[hex(x) for x in inputs()[at]]}: expected "
                f"{[hex(x) for x in wanted[at]]}, found {[hex(x) for x in found[at]]}"
            )


def table(unit: str) -> list[tuple[int, int]]:
    """Encodings under their masks, of the interpreter's tables."""
    text = (SOURCES / f"mali_bifrost_{unit}.c").read_text(encoding="utf-8")
    for packed in ("half", "narrow"):
        more = (SOURCES / f"mali_bifrost_{packed}_table.c").read_text(encoding="utf-8")
        text += re.search(rf"{unit}_rows\[\] = .*?\n}};", more, re.DOTALL)[0]  # type: ignore[index]
    found = re.findall(r"\{0x([0-9a-f]+), 0x([0-9a-f]+), \d, BIFROST_(\w+)", text)
    other = {"NOP", "BRANCH", "JUMP", "MULTIPLY_64", "SEGMENT_LOW", "SEGMENT_HIGH", "ATOMIC_LOW"}
    return [(int(exact, 16), int(mask, 16)) for exact, mask, kind in found if kind not in other]


@pytest.mark.parametrize("unit", ["fma", "add"])
def test_every_operation_has_a_vector(unit: str) -> None:
    words = {row.fma_word if unit == "fma" else row.add_word for row in rows().values()} - {FMA_NOP, ADD_NOP}
    encodings = table(unit)
    assert len(encodings) > 30
    missing = [hex(exact) for exact, mask in encodings if not any(word & mask == exact for word in words)]
    assert not missing


# Encodings that mean the same, or the same for every vector, and why.
ALIKE = (
    {"+MOV", "+FPOW_SC_APPLY"},  # no special cases are modelled
    {"+FCMP", "+FPOW_SC_DET"},  # -|a| > |b| never holds
    {"+FRSQ", "+FRSQ.f32", "+FLOG"},  # -|a| has no root and no logarithm
    {"+MUX", "+MUX.v2"},  # bit by bit
)


def test_the_vectors_tell_operations_apart() -> None:
    """So that one in place of another would be noticed, and one with other modifiers."""
    same: dict[bytes, list[Row]] = {}
    for row in rows().values():
        same.setdefault(row.name[0].encode() + expected(row).tobytes(), []).append(row)
    for alike in same.values():
        families = {row.name.split()[0] for row in alike}
        assert families in [{"*FMAX", "*FMAX/FMIN"}, {"+FMIN", "+FMAX/FMIN"}, *ALIKE] or len(families) == 1, (
            families
        )
    counts = {len(rows()) - len(same)}
    assert counts == {MEANT_ALIKE}, "encodings with the same results as another one"


@pytest.mark.parametrize("row", list(rows())[::29])
def test_it_does_not_matter_where_a_thread_is(board: ShaderBoard, row: str) -> None:
    turned = board.compute(rows()[row].fma_word, rows()[row].add_word, inputs()[::-1])[::-1]
    assert np.array_equal(turned, expected(rows()[row]))
