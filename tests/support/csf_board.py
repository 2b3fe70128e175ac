# SPDX-License-Identifier: BSD-2-Clause
"""A virtual Mali-G610 with memory, driven as panthor does: firmware's sections, a group, rings, interrupts.

Layout of the shared section: Linux 6.12 drivers/gpu/drm/panthor/panthor_fw.h, and the firmware's control block.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from host_tools.vgpu import VirtualGpu
from tests.support.mali_model import LEAF, PAGE, RW, Tables
from tests.support.vgpu_model import Ram

JOB, MMU, GPU = range(3)  # interrupt lines
SHARED, SHARED_PA, SHARED_PAGES = 0x04000000, 0x42000000, 12
DATA_VA, DATA, DATA_PAGES = 0x7F00_0000_0000, 0x41000000, 16  # of the group's address space
RING, RING_BYTES, STREAM = DATA_VA, PAGE, DATA_VA + PAGE
INTERFACE = 0x04005000  # ring's input page in the microcontroller's space; its output page follows
TRANSCFG, MEMATTR = 0x420001C6, 0x9F9F9F9F9C4C9F4C
GROUPS, STREAMS = 8, 8
GROUP_IRQ, GLOBAL_IRQ = 1, 1 << 31  # of group 0
SYNC_EVENT, IDLE_EVENT = 1 << 28, 1 << 29
MCU_CONTROL, MCU_STATUS, DOORBELL = 0x700, 0x704, 0x80000


class CsfTables(Tables):
    """Tables at another place, so that two address spaces can have some."""

    def __init__(self, ram: Ram, root: int) -> None:
        super().__init__(ram)
        self.root, self.next = root, root + PAGE

    def map(self, va: int, pa: int, pages: int) -> None:
        for page in range(pages):
            self._leaf(va + page * PAGE, pa + page * PAGE | LEAF | RW)

    def _leaf(self, va: int, entry: int) -> None:
        table = self.root
        for upper in range(3):
            index = va >> (39 - 9 * upper) & 511
            below = self.entry(table, index)
            if not below:
                below = self.next | 3
                self.next += PAGE
                self.ram.put(table + 8 * index, struct.pack("<Q", below))
            table = below & ~0xFFF
        self.ram.put(table + 8 * (va >> 12 & 511), struct.pack("<Q", entry))


class CsfBoard:
    """The GPU with address space 0, the microcontroller's, and 1, a group's.

    Args:
        boot: the microcontroller is on.
    """

    def __init__(self, *, boot: bool = True, **options: Any) -> None:
        self.ram = Ram()
        self.gpu = VirtualGpu("mali_g610", {self.ram.base: self.ram.bytes}, **options)
        self.read, self.write = self.gpu.read32, self.gpu.write32
        self.now = 0
        for space, root in ((0, 0x40400000), (1, 0x40800000)):
            tables = CsfTables(self.ram, root)
            tables.map(*((SHARED, SHARED_PA, SHARED_PAGES) if space == 0 else (DATA_VA, DATA, DATA_PAGES)))
            at = 0x2400 + 0x40 * space
            for offset, value in ((0, root), (8, MEMATTR), (0x30, TRANSCFG)):
                self.write(at + offset, value & 0xFFFFFFFF)
                self.write(at + offset + 4, value >> 32)
            self.write(at + 0x18, 1)
        self._control_block()
        self.write(0x1008, 0xFFFFFFFF)
        if boot:
            self.write(MCU_CONTROL, 2)
            assert self.read(MCU_STATUS) == 1
            self.write(0x1004, GLOBAL_IRQ)

    def _control_block(self) -> None:
        """What the firmware file has at these places."""
        self.set(SHARED + 8, 0x04002000, 0x04006000, GROUPS, 0xA0)
        for g in range(GROUPS):
            control = SHARED + 0x1000 + 0xA0 * g
            self.set(control + 4, 0x04003000 + 0x80 * g, 0x04007000 + 0x40 * g)
            self.set(control + 0x14, STREAMS, 0xC)
            for s in range(STREAMS):
                place = 0x400 * g + 0x80 * s, 0x800 * g + 0x100 * s
                self.set(control + 0x40 + 0xC * s + 4, 0x04003400 + place[0], 0x04007200 + place[1])

    def set(self, va: int, *words: int) -> None:
        """Words in the shared section."""
        self.ram.put(SHARED_PA + va - SHARED, struct.pack(f"<{len(words)}I", *words))

    def word(self, va: int) -> int:
        """A word of the shared section."""
        return self.ram.word(SHARED_PA + va - SHARED)

    def put(self, va: int, data: bytes) -> None:
        """Bytes in the group's space."""
        self.ram.put(DATA + va - DATA_VA, data)

    def data(self, va: int) -> int:
        """A word of the group's space."""
        return self.ram.word(DATA + va - DATA_VA)

    def ring_global(self, *, groups: int = 0, **request: int) -> None:
        """Ring doorbell 0; groups: those whose doorbell is turned; request: `toggle`, bits of the request."""
        self.set(0x04002000, self.word(0x04002000) ^ request.get("toggle", 0))
        self.set(0x04002008, self.word(0x04002008) ^ groups)
        self.write(DOORBELL, 1)

    def start(self, *, streams: int = 1, state: int = 1) -> None:
        """Start group 0 in address space 1, with `streams` streams, each with a ring of its own page."""
        for s in range(streams):
            at = 0x04003400 + 0x80 * s
            self.set(at, 1, (1 + s) << 8)
            self.set(at + 0x10, *(RING + s * 0x4000 & 0xFFFFFFFF, RING >> 32), RING_BYTES, 0)
            self.set(at + 0x30, INTERFACE + 0x100 * s, 0, INTERFACE + 0x100 * s + 0x80, 0)
            self.set(INTERFACE + 0x100 * s, 0, 0, 0, 0)
        self.set(0x04003000, state, 0xFFFFFFFF)
        self.set(0x04003040, 0xABC000, 0)
        self.set(0x04003050, 1)
        self.ring_global(groups=1)

    def run(self, ring: Sequence[int], *, stream: int = 0) -> None:
        """Put instructions into a stream's ring behind those that are there, and ring its doorbell."""
        insert = INTERFACE + 0x100 * stream
        at = self.word(insert)
        for word in ring:
            self.put(RING + 0x4000 * stream + at % RING_BYTES, struct.pack("<Q", word))
            at += 8
        self.set(insert, at, 0)
        self.write(DOORBELL + 0x10000 * (1 + stream), 1)

    def extracted(self, stream: int = 0) -> int:
        """Bytes of a ring that were taken."""
        return self.word(INTERFACE + 0x100 * stream + 0x80)


def move(register: int, value: int) -> int:
    return 1 << 56 | register << 48 | value


def move32(register: int, value: int) -> int:
    return 2 << 56 | register << 48 | value & 0xFFFFFFFF


def two(opcode: int, *, to: int = 0, a: int = 0, b: int = 0, low: int = 0) -> int:
    """Any instruction by its fields."""
    return opcode << 56 | to << 48 | a << 40 | b << 32 | low
