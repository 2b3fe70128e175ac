# SPDX-License-Identifier: BSD-2-Clause
"""Figures of the documents, read from the pages, so that the tests which they are about can hold them."""

from __future__ import annotations

import re

from tests.support.places import CHECKOUT

NEAR = 0.1  # of a figure: sizes depend on the version of the compiler


def documented(page: str, pattern: str) -> int:
    """The one number, such as 19,808, that the group of a pattern matches on a page; lines are joined by spaces.

    Raises:
        ValueError: the page does not say it, or says several.
    """
    text = re.sub(r"\s+", " ", (CHECKOUT / page).read_text(encoding="utf-8"))
    found = {int(number.replace(",", "")) for number in re.findall(pattern, text)}
    if len(found) != 1:
        raise ValueError(f"{page}: expected one figure for {pattern!r}, found {sorted(found) or 'none'}")
    return found.pop()


def is_near(figure: int, measured: float) -> bool:
    """Whether what was measured is what a page says, but for another compiler."""
    return abs(measured - figure) <= NEAR * figure
