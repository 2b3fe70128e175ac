# SPDX-License-Identifier: BSD-2-Clause
"""What a firmware's own translation tables make of memory: which of it is cacheable, and which can be written."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from host_tools.runners.replay import RunnerError
from tee_replayer.generator.translation import BLOCK, ENTRIES, OUTPUT, READ_ONLY, SHIFTS, TABLE
from trace_format.schema import PAGE_BYTES as PAGE

_DEVICE, _UNCACHED = 0x0, 0x44  # of MAIR's bytes; others are cacheable, in an inner or outer cache
_LAST = max(SHIFTS)


@dataclass(frozen=True)
class Span:
    """Memory that one descriptor maps."""

    address: int
    bytes: int
    is_cached: bool
    is_writable: bool


def spans(read: Callable[[int, int], bytes], base: int, control: int, attributes: int) -> Iterator[Span]:
    """What the tables map.

    Args:
        read: of memory, by address and size.
        base: TTBR0_EL3.
        control: TCR_EL3.
        attributes: MAIR_EL3.

    Raises:
        RunnerError: walks begin at another level than the first, or with other pages than of 4 KiB.
    """
    bits = 64 - (control & 63)
    if not SHIFTS[1] < bits <= SHIFTS[1] + 9 or control >> 14 & 3:
        raise RunnerError(f"TCR_EL3: expected walks from level 1 with pages of 4 KiB, found {control:#x}")
    yield from _table(read, base, 1, min(ENTRIES, 1 << bits - SHIFTS[1]), attributes)


def _table(
    read: Callable[[int, int], bytes], base: int, level: int, count: int, attributes: int
) -> Iterator[Span]:
    for entry in struct.unpack(f"<{count}Q", read(base & OUTPUT, count * 8)):
        kind = entry & 3
        if kind == TABLE and level < _LAST:
            yield from _table(read, entry & OUTPUT, level + 1, ENTRIES, attributes)
        elif kind == (TABLE if level == _LAST else BLOCK):
            attribute = attributes >> 8 * (entry >> 2 & 7) & 0xFF
            is_cached = attribute & 0xF0 != _DEVICE and attribute != _UNCACHED
            yield Span(entry & OUTPUT & -PAGE, 1 << SHIFTS[level], is_cached, not entry & READ_ONLY)
