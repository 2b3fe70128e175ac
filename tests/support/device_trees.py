"""Device trees for tests: a small one, and what a node says."""

from __future__ import annotations

import struct

import libfdt


def small_tree() -> bytes:
    """Root with two-cell addresses, as QEMU's virt machine has it, and one node with a phandle."""
    tree = libfdt.FdtSw()
    tree.INC_SIZE = 4096
    tree.finish_reservemap()
    with tree.add_node(""):
        tree.property_u32("#address-cells", 2)
        tree.property_u32("#size-cells", 2)
        with tree.add_node("intc"):
            tree.property_u32("phandle", 0x8002)
    return bytes(tree.as_fdt().as_bytearray())


def node(blob: bytes, path: str) -> dict[str, bytes]:
    tree = libfdt.Fdt(blob)
    offset = tree.path_offset(path)
    found = {}
    at = tree.first_property_offset(offset, libfdt.QUIET_NOTFOUND)
    while at >= 0:
        prop = tree.get_property_by_offset(at)
        found[prop.name] = bytes(prop)
        at = tree.next_property_offset(at, libfdt.QUIET_NOTFOUND)
    return found


def cells(*values: int) -> bytes:
    return struct.pack(f">{len(values)}I", *values)
