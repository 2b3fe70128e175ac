# SPDX-License-Identifier: BSD-2-Clause
"""The device tree of the recording machine: QEMU's own for its virt machine, plus one GPU."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from host_tools.machine.errors import RecordError
from host_tools.machine.placements import PLACEMENTS
from trace_format.files import read_file

SPI, LEVEL_HIGH = 0, 4  # interrupt specifier of the Arm GIC binding: kind, number, trigger
PHANDLE = re.compile(r"^\s*phandle = <(0x[0-9a-f]+)>;", re.MULTILINE)

Properties = Mapping[str, str | list[int]]


class Tree:
    """A device tree that nodes are added to.

    Raises:
        RecordError: device-tree-compiler is missing, or the blob is no device tree.
    """

    def __init__(self, blob: bytes) -> None:
        self._blob = blob

    def add(self, name: str, properties: Properties) -> None:
        """Add a node under the root. Values: text (inner NULs separate a list of strings), or 32-bit cells."""
        self._edit(["-c"], [f"/{name}"])
        self.set(f"/{name}", properties)

    def set(self, path: str, properties: Properties) -> None:
        """Set properties of a node that is there; values as in `add`."""
        for name, value in properties.items():
            kind, words = ("s", value.split("\0")) if isinstance(value, str) else ("x", [f"{n:x}" for n in value])
            self._edit(["-t", kind], [path, name, *words])

    def _edit(self, options: list[str], words: Iterable[str] = ()) -> None:
        with tempfile.NamedTemporaryFile(suffix=".dtb") as file:
            file.write(self._blob)
            file.flush()
            _run(["fdtput", *options, "--", file.name, *words])  # edits the file in place
            self._blob = read_file(Path(file.name))

    def new_phandle(self) -> int:
        """A phandle that no node has yet."""
        source = _run(["dtc", "-q", "-I", "dtb", "-O", "dts"], self._blob)
        return max((int(value, 16) for value in PHANDLE.findall(source)), default=0) + 1

    def to_bytes(self) -> bytes:
        """The tree as a flattened blob."""
        return self._blob


def _run(command: list[str], data: bytes = b"") -> str:
    """Run a program of device-tree-compiler; its output."""
    try:
        done = subprocess.run(command, input=data, capture_output=True, check=True)
    except FileNotFoundError:
        raise RecordError(f"{command[0]} is missing: apt-get install device-tree-compiler") from None
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip()
        raise RecordError(f"{command[0]} cannot edit the guest's device tree: {said}") from None
    return done.stdout.decode()


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


def with_overlay(blob: bytes, overlay: bytes) -> bytes:
    """The device tree `blob` with an overlay applied, both as blobs."""
    with tempfile.TemporaryDirectory() as name:
        base, added, result = (Path(name) / part for part in ("base", "overlay", "result"))
        base.write_bytes(blob)
        added.write_bytes(overlay)
        _run(["fdtoverlay", "-i", str(base), "-o", str(result), str(added)])
        return read_file(result)
