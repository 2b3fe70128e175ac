# SPDX-License-Identifier: BSD-2-Clause
"""Interrupts of a GPU's lines as one number."""

from __future__ import annotations

import pytest

from tee_replayer.generator.interrupts import LISTED, interrupt_of, packed


@pytest.mark.parametrize(
    "interrupts", [[0], [987], [40, 41, 42], [40, 41, 39], [41, 40], [40, 0, 987], [0, 987, 1]]
)
def test_each_line_has_its_interrupt(interrupts: list[int]) -> None:
    number = packed(interrupts)
    assert number < 1 << 64
    assert [interrupt_of(number, line) for line in range(len(interrupts))] == interrupts


def test_lines_that_follow_one_another_need_no_list() -> None:
    assert packed([40, 41, 42]) == 40
    assert packed([40, 41, 39]) == LISTED | 39 << 32 | 41 << 16 | 40
