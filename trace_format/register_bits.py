# SPDX-License-Identifier: BSD-2-Clause
"""What bits of a GPU's registers are called: `[bits]` of a profile."""

from __future__ import annotations

import functools
from typing import Any

from trace_format.errors import ProfileError


def mask(where: int | list[int]) -> int:
    """Of one bit, or of bits from a highest to a lowest."""
    high, low = (where, where) if isinstance(where, int) else where
    return (2 << high) - (1 << low)


def bit_names(file: str, data: dict[str, Any]) -> dict[str, dict[str, int]]:
    """Names and masks by register `block.NAME`, a repeated block without its number.

    Raises:
        ProfileError: a bit has two names, or it is not among those that the register has.
    """
    found = {}
    for block, rows in data.get("bits", {}).items():
        for name, bits in rows.items():
            if isinstance(bits, str):
                continue
            full = f"{block}.{name}"
            found[full] = {bit: mask(where) for bit, where in bits.items()}
            named = functools.reduce(int.__or__, found[full].values())
            if named.bit_count() != sum(one.bit_count() for one in found[full].values()):
                raise ProfileError(f"{full}: a bit has two names", file=file)
            _check_named(file, full, data["registers"][block][name], named)
    return found


def bits_like(file: str, data: dict[str, Any]) -> dict[str, str]:
    """By register in the same way: the one whose names it has.

    Raises:
        ProfileError: that one has none, or the register lacks some of its bits.
    """
    found = {}
    for block, rows in data.get("bits", {}).items():
        for name, like in rows.items():
            if not isinstance(like, str):
                continue
            full = f"{block}.{name}"
            if not isinstance(rows.get(like), dict):
                raise ProfileError(f"{full}: its bits are those of {block}.{like}, which has none", file=file)
            named = functools.reduce(int.__or__, map(mask, rows[like].values()))
            _check_named(file, full, data["registers"][block][name], named)
            found[full] = f"{block}.{like}"
    return found


def _check_named(file: str, name: str, row: dict[str, Any], named: int) -> None:
    if "w" in row["access"] and named & ~(row["bits"] | row.get("busy", 0)):
        raise ProfileError(f"{name}: a bit that has a name is not among its bits", file=file)
