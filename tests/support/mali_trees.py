# SPDX-License-Identifier: BSD-2-Clause
"""Page tables of four levels for tests: from mappings to gr_pgt, and to tables by physical address."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from trace_format.actions import MAP_EXECUTE, MAP_WRITE

ROOT = 0x100000000
PAGE = 4096
SIZES = {1: 1 << 30, 2: 1 << 21, 3: 1 << 12}  # bytes that an entry of a level maps


@dataclass(frozen=True)
class Mapped:
    """An entry that maps: address, level (3: a page), physical address, MAP_* flags."""

    va: int
    level: int
    pa: int
    flags: int


@dataclass
class Tree:
    """Page tables in AArch64's format."""

    tables: dict[int, dict[int, int]] = field(default_factory=lambda: {ROOT: {}})  # address -> index -> entry
    levels: dict[int, int] = field(default_factory=lambda: {ROOT: 0})

    def add(self, row: Mapped) -> None:
        """Put an entry in; tables above it are made."""
        table = ROOT
        for level in range(row.level):
            index = row.va >> 39 - 9 * level & 511
            if index not in self.tables[table]:
                below = ROOT + PAGE * len(self.tables)
                self.tables[below] = {}
                self.levels[below] = level + 1
                self.tables[table][index] = below | 3
            table = self.tables[table][index] & ~0xFFF
        self.tables[table][row.va >> 39 - 9 * row.level & 511] = row.pa | self.bits(row)

    def bits(self, row: Mapped) -> int:
        """Type, access, access flag, shareability, no-execute."""
        no_execute = 0 if row.flags & MAP_EXECUTE else 1 << 54
        access = 1 << 6 if row.flags & MAP_WRITE else 3 << 6
        return (0x703 if row.level == 3 else 0x701) | access | no_execute

    def page(self, address: int) -> bytes:
        """A table as it is in memory; what is not there has type 2."""
        return struct.pack("<512Q", *[self.tables[address].get(i, 2) for i in range(512)])

    def text(self, base: int, config: int) -> bytes:
        """gr_pgt."""
        parts: list[bytes] = []

        def visit(address: int) -> None:
            parts.append(struct.pack("<Q", address | self.levels[address]) + self.page(address))
            for _, entry in sorted(self.tables[address].items()):
                if entry & 3 == 3 and self.levels[address] < 3:
                    visit(entry & 0xFFFFFFFFF000)

        visit(ROOT)
        body = b"".join(parts) + struct.pack("<Q", 0xFFFFFFFFFF)
        return struct.pack("<4Q", 32 + len(body), base, 0x4C8D888D8F88, config) + body
