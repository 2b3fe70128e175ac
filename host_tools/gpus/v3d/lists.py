# SPDX-License-Identifier: BSD-2-Clause
"""Render lists of a V3D that copy or fill buffers by way of the tile buffer, as V3DV writes them.

Sources: as v3d_list.c and v3d_tile.c of vgpu/device, which execute them. Here one is read without being executed;
what is read as a transfer is one on the virtual GPU, too, or is refused there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from host_tools.families.listing import Read
from host_tools.families.transfers import Transfer, UnknownListError
from host_tools.gpus.v3d.versions import VERSIONS
from trace_format.profile import Profile

# Opcode -> bytes of the packet, for those that may stand in these lists, with _CLEAR.
_SIZES = {1: 1, 13: 1, 18: 1, 19: 1, 20: 9, 21: 2, 23: 3, 26: 1, 27: 1, 29: 13, 30: 13}
_SIZES |= {121: 9, 122: 9, 123: 5, 124: 4, 125: 1, 126: 2}
_TILE_LIST, _SUPERTILE, _CLEAR, _STORE, _LOAD, _CONFIG, _SUPERTILES = 20, 23, 25, 29, 30, 121, 122
_COMMON, _CLEAR_COLOR, _TARGET = 0, 3, 2  # sub-ids of _CONFIG
_NO_BUFFER = 8
_ITEMS = {34: 4, 35: 2, 36: 1}  # output image formats RGBA8UI, RG8UI, R8UI -> bytes a pixel


def _bits(payload: int, low: int, count: int) -> int:
    return payload >> low & (1 << count) - 1


def _packets(gpu: Profile, read: Read, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Opcode and payload, the first byte the lowest, of each packet of a list."""
    data = read(0, start, end - start) if start < end else b""
    if data is None:
        raise UnknownListError(f"list at {start:#010x} is not mapped")
    at = 0
    sizes = {**_SIZES, _CLEAR: VERSIONS[gpu.name].clear_bytes}
    while at < len(data):
        size = sizes.get(data[at], 0)
        if not size or at + size > len(data):
            raise UnknownListError(f"list at {start:#010x}: packet {data[at]} at {start + at:#010x}")
        yield data[at], int.from_bytes(data[at + 1 : at + size], "little")
        at += size


def _clear_color(gpu: Profile, payload: int) -> int | None:
    """What render target 0 is cleared to, if a configuration says so."""
    if VERSIONS[gpu.name].has_target_packet:
        return _bits(payload, 32, 32) if _bits(payload, 0, 6) == _TARGET else None
    return _bits(payload, 8, 32) if _bits(payload, 0, 8) == _CLEAR_COLOR else None


def transfer(gpu: Profile, kind: str, register: Callable[[str], int], read: Read) -> Transfer | None:
    """The transfer of a list that is started now; None: it stores nothing.

    Raises:
        UnknownListError: it stores, and not as V3DV copies and fills buffers.
    """
    if kind != "render":
        return None
    color = width = height = supertiles = 0
    steps: list[tuple[int, int]] = []
    cleared = stores = False
    covered: set[int] = set()
    for opcode, payload in _packets(gpu, read, register("core0.CLE_CT1QBA"), register("core0.CLE_CT1QEA")):
        if opcode == _CONFIG and _bits(payload, 0, 4) == _COMMON:
            width, height = _bits(payload, 8, 16), _bits(payload, 24, 16)
        elif opcode == _CONFIG and (found := _clear_color(gpu, payload)) is not None:
            color = found
        elif opcode == _SUPERTILES:
            supertiles = payload
        elif opcode == _CLEAR:
            cleared |= VERSIONS[gpu.name].clear_bytes == 1 or bool(payload & 1)
        elif opcode == _TILE_LIST:
            steps += [
                step
                for step in _packets(gpu, read, payload & 0xFFFFFFFF, payload >> 32)
                if step[0] in (_STORE, _LOAD) and _bits(step[1], 0, 4) != _NO_BUFFER
            ]
            stores = any(opcode == _STORE for opcode, _ in steps)
        elif opcode == _SUPERTILE:
            covered.add(payload)
        elif opcode == _STORE and _bits(payload, 0, 4) != _NO_BUFFER:
            raise UnknownListError("a store outside of the generic tile list")
    if not stores:
        return None
    columns, rows = _bits(supertiles, 16, 8), _bits(supertiles, 24, 8)
    if covered != {row << 8 | column for row in range(rows) for column in range(columns)}:
        raise UnknownListError("it does not cover the frame")
    return _of_steps(steps, width, height, color if cleared else None)


def _of_steps(steps: list[tuple[int, int]], width: int, height: int, color: int | None) -> Transfer:
    """One load and one store, or, with a colour, one store: of rows without gaps."""
    opcodes = [opcode for opcode, _ in steps]
    item = _ITEMS.get(_bits(steps[-1][1], 12, 6), 0)
    for _, payload in steps:
        if _ITEMS.get(_bits(payload, 12, 6)) != item or (height > 1 and _bits(payload, 28, 20) != width * item):
            raise UnknownListError("rows of a buffer with gaps, or several formats")
    places = [_bits(payload, 64, 32) for _, payload in steps]
    size = width * height * item
    if opcodes == [_LOAD, _STORE]:
        return Transfer(places[1], size, item, source=places[0])
    if opcodes == [_STORE] and color is not None and item == 4:
        return Transfer(places[0], size, item, color=color)
    raise UnknownListError("not one load and one store, or one store of a colour")
