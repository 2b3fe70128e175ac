# SPDX-License-Identifier: BSD-2-Clause
"""Every form of a branch against NumPy: threads that do not take it store a word."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.bifrost_asm import FAU_HIGH, FMA_NOP, Tuple, block, clause, header, load, sources, store
from tests.support.bifrost_board import INPUT, OUTPUT, ShaderBoard
from tests.support.bifrost_meaning import COMPARE, Words, f32, half, s32
from tests.support.mali_samples import END_THREAD
from tests.vgpu.test_bifrost_operations import inputs

UNTOUCHED = 0x5A5A5A5A
INTEGERS = ("lt", "le", "ge", "gt", "eq")
# What conditions become when source codes are in descending order.
DESCENDING = {4: "ne", 5: "ne", 6: "ge", 7: "le"}
ASCENDING = {4: "eq", 5: "eq", 6: "gt", 7: "lt"}
HALVES = {1: (0, 0), 2: (1, 1), 3: (1, 0), 4: (1, 0)}


def taken(board: ShaderBoard, word: int) -> NDArray[np.bool_]:
    """Which threads take a branch on r0 and r1, the first two words of a row."""
    jump = clause(
        [Tuple(block(0, 1, fau=0x40, first=True), FMA_NOP, word | FAU_HIGH << 6)], header(), [48 << 28], (4, 0)
    )
    rows = inputs()
    board.put_words(OUTPUT, np.full(len(rows), UNTOUCHED))
    board.prepare(
        load(0, 4, 4, 0) + jump + store(1, 1, 2, 60, flow=1) + END_THREAD, groups=(len(rows) // 64, 1, 1)
    )
    board.put_words(INPUT, rows)
    assert board.go() == 1
    stored = board.words(OUTPUT, len(rows))
    assert set(stored[stored != UNTOUCHED]) <= set(range(len(rows)))
    result: NDArray[np.bool_] = stored == UNTOUCHED
    return result


def signed_half(x: Words, high: int) -> Any:
    return half(x, high).astype(np.uint16).view(np.int16)


@pytest.mark.parametrize(("operands", "descends"), list(itertools.product(range(5), (False, True))))
def test_a_branch_on_two_operands(operands: int, descends: bool) -> None:
    board = ShaderBoard()
    a, b = inputs()[:, 0].copy(), inputs()[:, 1].copy()
    codes = (1, 0) if descends else (0, 1)
    if descends:
        a, b = b, a
    for condition in range(8 if operands == 0 else 5):
        name = (DESCENDING if descends else ASCENDING).get(condition) or INTEGERS[condition]
        unsigned = operands == 3 or (operands < 3 and descends)
        x: Any
        y: Any
        if condition > 4:
            x, y = f32(a), f32(b)
        elif operands == 0:
            x, y = (a, b) if unsigned else (s32(a), s32(b))
        else:
            part = half if unsigned else signed_half
            x, y = part(a, HALVES[operands][0]), part(b, HALVES[operands][1])
        found = taken(board, 0x68000 | operands << 12 | condition << 9 | sources(*codes))
        assert np.array_equal(found, COMPARE[name](x, y)), (condition, name)


def test_a_branch_on_zero() -> None:
    board = ShaderBoard()
    a = inputs()[:, 0].copy()
    for part, equal in itertools.product(range(3), (0, 1)):
        x = a if part == 0 else half(a, part == 1)
        found = taken(board, 0x6F800 | part << 4 | equal << 3 | sources(0))
        assert np.array_equal(found, (x == 0) == bool(equal)), (part, equal)
    for condition, name in enumerate(("lt", "le", "ge", "gt")):
        found = taken(board, 0x6F008 | condition << 9 | sources(0))
        assert np.array_equal(found, COMPARE[name](s32(a), 0)), name


def test_a_jump() -> None:
    assert taken(ShaderBoard(), 0x6FE34).all()
