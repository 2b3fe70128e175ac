# SPDX-License-Identifier: BSD-2-Clause
"""How workgroups share a product, and what a vector's maker stores for it. The kernels: test_plan.py."""

from __future__ import annotations

import numpy as np
import pytest

from host_tools.extras.gguf.blocks import COLUMNS, FORMS
from host_tools.extras.gguf.multiply import (
    GROUP,
    MOST_LANES,
    SMALL,
    UNFOLDED,
    tile_of,
    vector,
)
from host_tools.extras.gguf.products import LANES, Matrix, place

SHAPES = [
    (64, 64),
    (576, 576),
    (960, 576),
    (576, 1536),
    (1536, 576),
    (896, 4864),
    (4864, 896),
    (2048, 8192),
    (16, 32),
]


def matrix(rows: int, columns: int, bits: int = 4) -> Matrix:
    """One without words."""
    return Matrix(FORMS["Q4_1"], bits, rows, columns, {})


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("bits", [4, 5, 6, 8, 16, 32])
@pytest.mark.parametrize("matrices", [1, 2])
@pytest.mark.parametrize("most", [3, 6])
def test_workgroups_have_each_row_and_column_once(
    shape: tuple[int, int], bits: int, matrices: int, most: int
) -> None:
    rows, columns = shape
    tile = tile_of(matrix(matrices * rows, columns, bits), most, 8, matrices=matrices)
    assert rows % tile.count == 0
    assert columns // 32 % tile.splits == 0
    assert tile.lanes <= MOST_LANES
    assert tile.rows * matrices <= max(most, matrices)
    assert tile.rows * matrices * bits <= max(8 * most, bits * matrices)


@pytest.mark.parametrize("head", [16, 32, 64, 128, 256])
@pytest.mark.parametrize("groups", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("most", [3, 6])
def test_a_workgroup_has_whole_heads_of_one_kind(head: int, groups: int, most: int) -> None:
    """What it has divides the keys' rows, so that none has queries and keys."""
    tile = tile_of(matrix(head * groups * 5, 576), most, 8, whole=head, within=head * groups)
    assert tile.count % head == 0
    assert head * groups % tile.count == 0


def test_columns_are_split_so_that_no_unit_waits() -> None:
    """With three rows a lane, 576 rows make 12 subgroups: while the last four run, half of 8 units would wait."""
    tile = tile_of(matrix(576, 1536), 3, 8)
    groups = 576 // tile.count * tile.tiles * tile.splits
    assert groups % 8 == 0


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_halves_of_a_masked_word_are_its_numbers(bits: int) -> None:
    """Exactly, times SMALL and the factor of the field: columns lie where `place` says."""
    word, column = 0x9A5C37E1, 0
    for field, mask, factor in UNFOLDED[bits]:
        halves = np.array([eval(field, {"u": word}) & mask], np.uint32).view(np.float16).astype(float)
        for half in halves:
            assert half == (word >> place(column, bits) & (1 << bits) - 1) * factor * SMALL
            column += 1
    assert column == 32 // bits


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_fields_of_a_word_do_not_overlap(bits: int) -> None:
    every = [((1 << bits) - 1) << place(column, bits) for column in range(32 // bits)]
    assert sum(every) == 0xFFFFFFFF


def test_a_vector_s_buffer_is_loaded_by_four() -> None:
    for elements in (64, 576, 1536):
        assert vector(elements) % 4 == 0
        assert vector(elements) - elements == 4 * (elements // COLUMNS) == 2 * (elements // GROUP)
    assert LANES == GROUP  # a group's sums are made of rows that lie side by side
