# SPDX-License-Identifier: BSD-2-Clause
"""Where a replayer looks for a GPU's faults, and what its report says of them: `[faults]` of a profile."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from trace_format.register_bits import mask


@dataclass(frozen=True)
class FaultBits:
    """Bits of a register that report a fault: names and masks, as they are in a replayer's report."""

    register: str
    names: dict[str, int]
    place_shift: int | None = None  # how many low bits of its GPU address are not reported; None: all

    def describe(self, seen: int, place: int = 0) -> str:
        """The register, the names of the bits that are set, and where; empty where others are, or none is."""
        found = {name: bits for name, bits in self.names.items() if seen & bits}
        is_all = seen and seen == sum(found.values())
        return f"{self.register} {' | '.join(found)}{self._where(place)}" if is_all else ""

    def _where(self, place: int) -> str:
        """The address, or from which to which where the report has not all bits of it."""
        if self.place_shift is None:
            return ""
        first, last = place << self.place_shift, ((place + 1) << self.place_shift) - 1
        return f" at GPU address {first:#x}" + (f" to {last:#x}" if last > first else "")


def fault_bits(
    data: dict[str, Any], registers: Collection[str], bit_names: Mapping[str, Mapping[str, int]]
) -> tuple[FaultBits, ...]:
    """Each register with names of its own, or `bits` that have names as bits of the register.

    Args:
        data: the profile.
        registers: those that there are.
        bit_names: as `trace_format.register_bits.bit_names`.

    Raises:
        KeyError: a register is not there.
    """
    found = []
    for name, row in data.get("faults", {}).items():
        if name not in registers:
            raise KeyError(name)
        if "bits" in row:
            names = {bit: bits for bit, bits in bit_names.get(name, {}).items() if bits & row["bits"]}
        else:
            names = {bit: mask(where) for bit, where in row["names"].items()}
        reported = {bit: bits << row.get("left", 0) >> row.get("right", 0) for bit, bits in names.items()}
        bits = row.get("place_bits", data["mmu"]["va_bits"])
        found.append(FaultBits(name, reported, bits - 32 if row.get("place") else None))
    return tuple(found)
