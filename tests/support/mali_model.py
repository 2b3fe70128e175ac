# SPDX-License-Identifier: BSD-2-Clause
"""Helpers for tests of the virtual Mali: the device with its memory, driven as a driver does."""

from __future__ import annotations

import struct
from typing import Any

from host_tools.vgpu import VirtualGpu
from tests.support.mali_samples import job_header
from tests.support.vgpu_model import Ram

JOB, MMU, GPU = range(3)  # interrupt lines
TABLE_ROOT, DATA = 0x40400000, 0x41000000
VA = 0xFFFFB8F5B000  # as high as Arm's driver maps
AARCH64, LEGACY = 0x42000006, 0
UPDATE, LOCK, FLUSH_PT, FLUSH_MEM = 1, 2, 4, 5
PAGE = 4096
RW, RO, NX = 1 << 6, 3 << 6, 1 << 54
LEAF = 0x703  # page, access flag, shareable
FLUSHES = (
    0x87300  # JS_CONFIG as Linux writes it: clean and invalidate at start and end, flush reduction, priority 8
)


class Tables:
    """Page tables of four levels, entry by entry, in memory at TABLE_ROOT."""

    def __init__(self, ram: Ram) -> None:
        self.ram = ram
        self.next = TABLE_ROOT + PAGE

    def entry(self, table: int, index: int) -> int:
        at = table + 8 * index
        return self.ram.word(at) | self.ram.word(at + 4) << 32

    def set(self, va: int, entry: int, level: int = 3) -> None:
        """Put an entry at a level; tables above it are made."""
        table = TABLE_ROOT
        for upper in range(level):
            index = va >> (39 - 9 * upper) & 511
            below = self.entry(table, index)
            if not below:
                below = self.next | 3
                self.next += PAGE
                self.ram.put(table + 8 * index, struct.pack("<Q", below))
            table = below & ~0xFFF
        self.ram.put(table + 8 * (va >> (39 - 9 * level) & 511), struct.pack("<Q", entry))


class MaliBoard:
    """A virtual Mali with memory. The pages at VA are those at DATA, five of them; page 4 is read-only."""

    def __init__(
        self, *, power: bool = True, mmu: bool = True, gpu: str = "mali_g71-noshaders", **options: Any
    ) -> None:
        self.levels: list[tuple[int, bool]] = []
        self.now = 0
        self.ram = Ram()
        self.tables = Tables(self.ram)
        for i in range(5):
            self.tables.set(VA + i * PAGE, DATA + i * PAGE | LEAF | (RO if i == 4 else RW))
        self.gpu = VirtualGpu(
            gpu,
            {self.ram.base: self.ram.bytes},
            on_interrupt=lambda line, level: self.levels.append((line, level)),
            **options,
        )
        self.read, self.write = self.gpu.read32, self.gpu.write32
        for mask in (0x1008, 0x2008):
            self.write(mask, 0xFFFFFFFF)
        if power:
            self.write(0x1A0, 1)
            self.write(0x180, 0xFF)
            self.wait()
            self.write(0x24, 0x600)
        if mmu:
            self.table(AARCH64, TABLE_ROOT)

    def wait(self, ns: int = 1_000_000) -> None:
        self.now += ns
        self.gpu.advance(self.now)

    def pair(self, offset: int, value: int) -> None:
        self.write(offset, value & 0xFFFFFFFF)
        self.write(offset + 4, value >> 32)

    def pair_read(self, offset: int) -> int:
        return self.read(offset) | self.read(offset + 4) << 32

    def table(self, config: int, table: int, space: int = 0) -> None:
        at = 0x2400 + 0x40 * space
        self.pair(at + 0x30, config)
        self.pair(at, table)
        self.pair(at + 8, 0x4C8D888D8F88)
        self.write(at + 0x18, UPDATE)

    def put_job(self, va: int = VA, payload: bytes = b"", **fields: int) -> None:
        """Put a job header (mali_samples.job_header) at a GPU address of the first pages."""
        header = job_header(**fields)[:32] + payload
        self.ram.put(DATA + va - VA, header)

    def submit(
        self,
        head: int = VA,
        *,
        slot: int = 1,
        config: int = FLUSHES,
        affinity: int = 0xFF,
        flush: int | None = None,
    ) -> None:
        at = 0x1800 + 0x80 * slot
        self.pair(at + 0x40, head)
        self.pair(at + 0x50, affinity)
        self.write(at + 0x58, config)
        self.write(at + 0x70, self.read(0x38) if flush is None else flush)
        self.write(at + 0x60, 1)

    def status(self, va: int = VA) -> int:
        """The status in a job header."""
        return self.ram.word(DATA + va - VA)

    def slot(self, offset: int, slot: int = 1) -> int:
        """A register of a job slot."""
        return self.read(0x1800 + 0x80 * slot + offset)
