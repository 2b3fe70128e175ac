# SPDX-License-Identifier: BSD-2-Clause
"""Helpers for tests of the virtual V3D: the device with a test double as its compute engine, and its memory."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from host_tools.vgpu import VirtualGpu, build

# Takes the place of the V3D's compute engine (v3d_qpu.h).
ENGINE_DOUBLE = build.Double(Path(__file__).parents[1] / "vgpu" / "csd_double.c", ("v3d_qpu", "v3d_csd"))

MAP_NORESERVE = 0x4000  # Linux; the mmap module lacks the name before Python 3.13
PTE_VALID, PTE_WRITEABLE = 1 << 28, 1 << 29

# The lists of V3DV's "no-op" job (Mesa src/broadcom/vulkan/v3dvx_queue.c, packets of cle/v3d_packet_v33.xml), with
# the generic tile list at TILE_LIST_VA.
BIN_LIST = bytes([119, 0, 120, 0, 0, 0, 0, 0, 0, 0, 0, 19, 6, 4])
TILE_LIST = bytes([125, 26, 21, 0, 29, 8, *[0] * 11, 27, 18])
TILE_LIST_VA = 0x13000
RENDER_LIST = b"".join(
    [
        bytes([121, *[0] * 8]) * 3,
        bytes([126, 4]),
        bytes([123, 0, 0, 0, 0]),
        bytes([122, *[0] * 8]),
        b"\x14" + struct.pack("<II", TILE_LIST_VA, TILE_LIST_VA + len(TILE_LIST)),
        bytes([23, 0, 0]),
        bytes([13]),
    ]
)


def library() -> Path:
    """The virtual GPU with the test double."""
    return build.library(ENGINE_DOUBLE)


class Ram:
    """Sparse zeroed physical memory, with access to words and bytes by physical address."""

    def __init__(self, base: int = 0x40000000, size: int = 64 << 20) -> None:
        self.base = base
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
        self.bytes: npt.NDArray[np.uint8] = np.frombuffer(mmap.mmap(-1, size, flags=flags), np.uint8)

    def put(self, pa: int, data: bytes) -> None:
        self.bytes[pa - self.base : pa - self.base + len(data)] = np.frombuffer(data, np.uint8)

    def word(self, pa: int) -> int:
        return int.from_bytes(self.bytes[pa - self.base : pa - self.base + 4].tobytes(), "little")

    def map(self, table: int, va: int, frames: Sequence[int], bits: int = PTE_VALID | PTE_WRITEABLE) -> None:
        """Enters pages at GPU address `va` into the page table at `table`."""
        entries = np.array([frame >> 12 | bits for frame in frames], "<u4")
        self.put(table + 4 * (va >> 12), entries.tobytes())


HUB, CORE, BRIDGE, PM, RPIVID = 0x0, 0x4000, 0x8000, 0xC000, 0x14000
MMU_ON = 0x060D0C01  # as the Linux driver writes it: enable, abort and interrupt on every violation
CSD_DONE, BIN_DONE, RENDER_DONE = 0x80, 0x2, 0x1
ACTION, READ, WRITE, ERROR = 0xD0B1E000, 1, 2, 4  # dispatches of csd_double.c
TABLE, DATA = 0x40400000, 0x41000000


class Board:
    """A virtual GPU with its memory, driven as the Linux driver does.

    GPU page 0x10 + i is at DATA + 4096 * i for i below 4; page 0x14 is read-only; nothing else is mapped.
    """

    def __init__(self, *, mmu: bool = True, **options: Any) -> None:
        self.levels: list[tuple[int, bool]] = []
        self.ram = Ram()
        self.ram.map(TABLE, 0x10000, [DATA + 0x1000 * i for i in range(4)])
        self.ram.map(TABLE, 0x14000, [DATA + 0x4000], PTE_VALID)
        self.gpu = VirtualGpu(
            memory={self.ram.base: self.ram.bytes},
            on_interrupt=lambda line, level: self.levels.append((line, level)),
            **{"gpu": "v3d42", "library": library(), **options},
        )
        if mmu:
            self.mmu_on()

    def hub(self, offset: int, value: int | None = None) -> int:
        """Reads a hub register, or writes it when a value is given."""
        return self._access(HUB + offset, value)

    def core(self, offset: int, value: int | None = None) -> int:
        return self._access(CORE + offset, value)

    def _access(self, offset: int, value: int | None) -> int:
        if value is None:
            return self.gpu.read32(offset)
        self.gpu.write32(offset, value)
        return value

    def mmu_on(self) -> None:
        self.hub(0x1204, TABLE >> 12)
        self.hub(0x1200, MMU_ON)
        self.hub(0x1000, 1)
        self.flush()
        self.core(0x64, 0xA7)
        self.hub(0x64, 0x3A)

    def flush(self) -> None:
        self.hub(0x1000, 3)
        self.hub(0x1200, self.hub(0x1200) | 4)

    def dispatch(self, action: int = 0, va: int = 0x10000) -> None:
        for offset, value in ((0x908, 0x10000), (0x90C, 0x10000), (0x910, 0x110), (0x914, 0)):
            self.core(offset, value)
        self.core(0x918, ACTION + action)
        self.core(0x91C, va)
        self.core(0x904, 0x10000)

    def lists(self, *lists: tuple[int, bytes]) -> None:
        """Puts byte strings at GPU addresses of the first four pages."""
        for va, data in lists:
            self.ram.put(DATA + va - 0x10000, data)

    def run_list(self, va: int, size: int, *, render: bool = False) -> None:
        self.core(0x164 if render else 0x160, va)
        self.core(0x16C if render else 0x168, va + size)
