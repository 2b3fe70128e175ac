# SPDX-License-Identifier: BSD-2-Clause
"""The interrupts of a GPU's lines as one number, which a port takes: `gpu_spi` of a board's description.

Of lines that follow one another it is the first one's interrupt. Of others it has the highest bit, and each line's
interrupt in 16 bits, the first line's in the lowest.
"""

from __future__ import annotations

from collections.abc import Sequence

LINE_BITS = 16
LISTED = 1 << 63
MOST_LINES = 3  # what fits below LISTED


def packed(interrupts: Sequence[int]) -> int:
    """The number for the interrupts of all lines, of which there are at most MOST_LINES."""
    first = interrupts[0]
    if list(interrupts) == list(range(first, first + len(interrupts))):
        return first
    return LISTED | sum(number << LINE_BITS * line for line, number in enumerate(interrupts))


def interrupt_of(number: int, line: int) -> int:
    """The interrupt of a line."""
    if number < LISTED:
        return number + line
    return number >> LINE_BITS * line & (1 << LINE_BITS) - 1
