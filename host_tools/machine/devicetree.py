"""The device tree of the recording machine: QEMU's own for its virt machine, plus one GPU."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import libfdt

from host_tools.machine.placements import PLACEMENTS

SPI, LEVEL_HIGH = 0, 4  # interrupt specifier of the Arm GIC binding: kind, number, trigger


class Tree:
    """A device tree that nodes are added to."""

    def __init__(self, blob: bytes) -> None:
        self._fdt = libfdt.Fdt(bytearray(blob))
        self._fdt.resize(len(blob) + 0x4000)

    def add(self, name: str, properties: Mapping[str, str | list[int]]) -> None:
        """Add a node under the root. Values: text (inner NULs separate a list of strings), or 32-bit cells."""
        self._set(self._fdt.add_subnode(0, name), properties)

    def set(self, path: str, properties: Mapping[str, str | list[int]]) -> None:
        """Set properties of a node that is there; values as in `add`."""
        self._set(self._fdt.path_offset(path), properties)

    def _set(self, node: int, properties: Mapping[str, str | list[int]]) -> None:
        for key, value in properties.items():
            data = value.encode() + b"\0" if isinstance(value, str) else struct.pack(f">{len(value)}I", *value)
            self._fdt.setprop(node, key, data)

    def new_phandle(self) -> int:
        """A phandle that no node has yet."""
        return int(libfdt.fdt_get_max_phandle(self._fdt._fdt)) + 1  # the wrapper lacks it

    def to_bytes(self) -> bytes:
        """The tree as a flattened blob."""
        self._fdt.pack()
        return bytes(self._fdt.as_bytearray()[: self._fdt.totalsize()])


def _regs(ranges: list[list[int]]) -> list[int]:
    """Address and size as two cells each: the virt machine's root has 2 address and 2 size cells."""
    return [cell for base, size in ranges for cell in (base >> 32, base & 0xFFFF_FFFF, 0, size)]


def _value(key: str, value: Any, phandles: Mapping[str, int]) -> str | list[int]:
    """A property of a placement's node (placements.py) as `Tree.add` takes it."""
    if key == "reg":
        return _regs(value)
    if key == "interrupts":
        return [cell for irq in value for cell in (SPI, irq, LEVEL_HIGH)]
    if isinstance(value, str):
        return value
    if any(isinstance(cell, int) or cell.startswith("&") for cell in value):
        return [cell if isinstance(cell, int) else phandles[cell.removeprefix("&")] for cell in value]
    return "\0".join(value)


def with_gpu(blob: bytes, gpu: str) -> bytes:
    """The device tree `blob` of QEMU's virt machine with the nodes of `gpu` (a key of PLACEMENTS) added."""
    tree = Tree(blob)
    phandles: dict[str, int] = {}
    for node in PLACEMENTS[gpu].nodes:
        name = node["name"]
        if node.get("phandle"):
            phandles[name] = tree.new_phandle()
        values = {**node, "phandle": [phandles[name]]} if name in phandles else node
        place = f"@{node['reg'][0][0]:x}" if "reg" in node else ""
        properties = {key: _value(key, value, phandles) for key, value in values.items() if key != "name"}
        tree.add(f"{name}{place}", properties)
    return tree.to_bytes()
