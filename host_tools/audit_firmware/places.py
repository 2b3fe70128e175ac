# SPDX-License-Identifier: BSD-2-Clause
"""Which device or memory an address lies in."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tee_replayer.generator.board_checks import Range

SMALL = 0x1000  # smaller constants are offsets in structures


class Places:
    """Devices and memory by name; an address belongs to the first that it lies in."""

    def __init__(self, regions: Mapping[str, Range]) -> None:
        self._regions = regions

    def of(self, address: int) -> str:
        """Name of what lies at an address; "" for nothing that the board's description names."""
        return next((name for name, r in self._regions.items() if r.base <= address < r.base + r.bytes), "")

    def of_sum(self, low: int, roots: Collection[tuple[str, int]]) -> str:
        """Where an address lies that is computed from a constant; "" where no constant tells.

        Args:
            low: the lowest that it can be.
            roots: what it was computed from, as `values.Value` has them.
        """
        if any(kind == "stack" for kind, _ in roots):
            return ""
        constants = [number for kind, number in sorted(roots) if kind == "const"]
        return next((name for n in (*constants, low) if n >= SMALL and (name := self.of(n))), "")

    def told_by(self, low: int, roots: Collection[tuple[str, int]]) -> str | None:
        """Whose word it is what lies at such an address: "mailbox", "carveout"; None: nobody's of interest.

        What a pointer out of the mailbox leads to is the mailbox's word, too.
        """
        place = self.of_sum(low, roots)
        if place in ("mailbox", "carveout"):
            return place
        return "mailbox" if roots and {kind for kind, _ in roots} <= {"mailbox", "const"} else None
