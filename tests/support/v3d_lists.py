# SPDX-License-Identifier: BSD-2-Clause
"""Render lists as V3DV writes them to copy and fill buffers (Mesa 22.3.6, v3dvx_meta_common.c)."""

from __future__ import annotations

import struct
from dataclasses import dataclass

FORMATS = {4: 34, 2: 35, 1: 36}  # bytes an item -> RGBA8UI, RG8UI, R8UI
TILE = 64
NO_STORE = bytes([29, 8, *[0] * 11])
STORE, LOAD = 29, 30


def frame_size(items: int) -> tuple[int, int]:
    """The frame that V3DV chooses for so many items."""
    width, height = items, 1
    while width > 4096 or (width % 2 == 0 and width > 2 * height):
        width, height = width // 2, height * 2
    return width, height


def move(opcode: int, va: int, stride: int, item: int, **changes: int) -> bytes:
    """A load or store of render target 0; `changes` adds bits, by their position: `at12=1`."""
    fields = FORMATS[item] << 12 | stride << 28
    for name, value in changes.items():
        fields |= value << int(name.removeprefix("at"))
    return struct.pack("<BQI", opcode, fields, va)


@dataclass
class Lists:
    """A render list and its generic tile list, which may be changed before they are taken.

    Attributes:
        width, height: of the frame, in items.
        steps: loads and stores of the generic tile list; loads come first.
        color: what the tile buffer is cleared to; None: it is not.
    """

    width: int
    height: int
    steps: list[bytes]
    color: int | None = None
    common: int = 0  # bits added to these packets
    target: int = 1 << 6  # internal type 8ui
    supertiles: int = 0
    wide: int = 1  # supertile's width in tiles
    version: int = 42

    @classmethod
    def copy(cls, source: int, target: int, items: int, item: int, version: int = 42) -> Lists:
        width, height = frame_size(items)
        steps = [move(LOAD, source, width * item, item), move(STORE, target, width * item, item)]
        return cls(width, height, steps, version=version)

    @classmethod
    def fill(cls, target: int, items: int, color: int, version: int = 42) -> Lists:
        width, height = frame_size(items)
        return cls(width, height, [move(STORE, target, width * 4, 4)], color, version=version)

    def tile_list(self) -> bytes:
        loads = [step for step in self.steps if step[0] == LOAD]
        stores = [step for step in self.steps if step[0] == STORE]
        return b"".join([b"\x7d", *loads, bytes([26, 21, 0]), *stores, bytes([27, 18])])

    def configuration(self) -> list[bytes]:
        """Packets that configure the frame: common, clear colour, target, depth."""
        return [
            struct.pack("<BQ", 121, self.width << 8 | self.height << 24 | 1 << 46 | self.common),
            b"" if self.color is None else struct.pack("<BQ", 121, 3 | self.color << 8),
            struct.pack("<BQ", 121, 1 | self.target),
            struct.pack("<BQ", 121, 2),
        ]

    def configuration71(self) -> list[bytes]:
        """The same of a V3D 7.1 (Mesa 25.0.7, v3dvx_meta_common.c): tiles of 64 x 64, stride 16, clamped 8ui."""
        size = 3 << 52 | 3 << 55
        target = 2 | 15 << 18 | 20 << 27 | (self.color or 0) << 32
        return [
            struct.pack("<BQ", 121, (self.width << 8 | self.height << 24 | 1 << 46 | size) ^ self.common),
            struct.pack("<BQ", 121, target ^ (self.target ^ 1 << 6)),
            struct.pack("<BQ", 121, 1),
        ]

    def render_list(self, tile_list_va: int) -> bytes:
        columns, rows = -(-self.width // TILE), -(-self.height // TILE)
        across = -(-columns // self.wide)
        config = self.wide - 1 | across << 16 | rows << 24 | columns << 32 | rows << 44 | self.supertiles
        clear = b"" if self.color is None else bytes([25, 3] if self.version == 42 else [25])
        first = bytes([124, 0, 0, 0, 26]) + NO_STORE
        parts = [
            *(self.configuration() if self.version == 42 else self.configuration71()),
            bytes([126, 4, 123, 0, 0, 0, 0]),
            struct.pack("<BQ", 122, config),
            first + clear + bytes([27]) + first + bytes([27, 19]),
            struct.pack("<BII", 20, tile_list_va, tile_list_va + len(self.tile_list())),
            *(bytes([23, x, y]) for y in range(rows) for x in range(across)),
            bytes([13]),
        ]
        return b"".join(parts)
