# SPDX-License-Identifier: BSD-2-Clause
"""Small device trees, made and read back with device-tree-compiler's other programs."""

from __future__ import annotations

import struct
import subprocess

# Root with two-cell addresses, as QEMU's virt machine has it, and one node with a phandle.
SMALL_TREE = "/dts-v1/; / { #address-cells = <2>; #size-cells = <2>; intc { phandle = <0x8002>; }; };"


def small_tree() -> bytes:
    command = ["dtc", "-q", "-I", "dts", "-O", "dtb"]
    return subprocess.run(command, input=SMALL_TREE.encode(), capture_output=True, check=True).stdout


def node(blob: bytes, path: str) -> dict[str, bytes]:
    """Properties of a node, by name."""

    def fdtget(*arguments: str) -> list[str]:
        command = ["fdtget", *arguments]
        return subprocess.run(command, input=blob, capture_output=True, check=True).stdout.decode().split()

    names = fdtget("-p", "-", path)
    return {name: bytes(int(byte, 16) for byte in fdtget("-t", "bx", "-", path, name)) for name in names}


def cells(*values: int) -> bytes:
    return struct.pack(f">{len(values)}I", *values)
