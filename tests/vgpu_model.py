"""Helpers for tests of the virtual V3D: the device with a test double for its compute engine, and memory for it."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from host_tools.vgpu import build

ENGINE_DOUBLE = Path(__file__).parent / "vgpu" / "csd_double.c"

MAP_NORESERVE = 0x4000  # Linux; the mmap module lacks the name before Python 3.13
PTE_VALID, PTE_WRITEABLE = 1 << 28, 1 << 29

# The lists of V3DV's "no-op" job (Mesa src/broadcom/vulkan/v3dvx_queue.c, packets of cle/v3d_packet_v33.xml), with the
# generic tile list at 0x2000.
BIN_LIST = bytes([119, 0, 120, 0, 0, 0, 0, 0, 0, 0, 0, 19, 6, 4])
TILE_LIST = bytes([125, 26, 21, 0, 29, 8, *[0] * 11, 27, 18])
TILE_LIST_VA = 0x2000
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
