# SPDX-License-Identifier: BSD-2-Clause
"""DESIGN's walk from the mailbox to the first register write names functions that are there, with their lines."""

from __future__ import annotations

import re

import pytest

from tests.support.places import CHECKOUT

ROW = re.compile(r"^\| `(\w+)` \| `([\w/.]+\.c)` \| (\d+) \|", re.MULTILINE)
ROWS = ROW.findall((CHECKOUT / "docs" / "DESIGN.md").read_text(encoding="utf-8"))
PAGE = 60  # lines


def lines_of(function: str, source: str) -> int:
    """Lines from a function's head to its closing brace; 0 where it is not defined."""
    found = re.search(
        rf"^(?!static const)\w[\w *()]*\b{function}\([^;{{]*\)\n\{{\n.*?^\}}", source, re.MULTILINE | re.DOTALL
    )
    return found[0].count("\n") + 1 if found else 0


def test_the_walk_is_one_page() -> None:
    assert 20 <= len(ROWS) <= PAGE
    assert (ROWS[0][0], ROWS[-1][0]) == ("gr_main", "gr_driver_reset")


@pytest.mark.parametrize(("function", "path", "lines"), ROWS, ids=[row[0] for row in ROWS])
def test_a_step_has_its_lines(function: str, path: str, lines: str) -> None:
    assert lines_of(function, (CHECKOUT / path).read_text(encoding="utf-8")) == int(lines)


def test_a_function_that_is_gone_has_none() -> None:
    assert lines_of("gr_gone", "int gr_here(void)\n{\n}\n") == 0
    assert lines_of("gr_here", "int gr_here(void)\n{\n}\n") == 3
