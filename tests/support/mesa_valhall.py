# SPDX-License-Identifier: BSD-2-Clause
"""Mesa's own description of Valhall and the cases of its assembler, from Debian's source package of Mesa."""

from __future__ import annotations

import functools
from pathlib import Path
from xml.etree import ElementTree

from host_tools.machine.sources import source


@functools.cache
def _folder() -> Path:
    tree = source("mesa", "trixie", "whose cases of Valhall instructions ours are compared with")
    return tree / "src/panfrost/compiler/valhall"


def cases() -> list[tuple[int, str]]:
    """Instructions and what Mesa's disassembler prints of them."""
    found = []
    for text in (_folder() / "test/assembler-cases.txt").read_text(encoding="utf-8").splitlines():
        if text.strip():
            found.append((int.from_bytes(bytes.fromhex(text[:23]), "little"), text[23:].strip()))
    return found


@functools.cache
def _isa() -> ElementTree.Element:
    return ElementTree.parse(_folder() / "ISA.xml").getroot()


def values(name: str) -> list[str]:
    """The values of one of its enumerations."""
    enum = next(one for one in _isa().iter("enum") if one.get("name") == name)
    return [
        one.text or "" if one.tag == "value" else "reserved" for one in enum if one.tag in ("value", "reserved")
    ]


def constants() -> list[int]:
    """The numbers that sources can be."""
    return [int(one.text or "", 16) for one in _isa().iter("constant")]
