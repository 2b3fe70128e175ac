# SPDX-License-Identifier: BSD-2-Clause
"""What rooms (folders of Python modules) say of themselves, in the docstring of their `__init__.py`."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from tests.support.places import CHECKOUT

FOLDERS = ("baremetal", "docs", "host_tools", "signing", "tee_replayer", "tests", "trace_format")


@dataclass(frozen=True)
class Said:
    """The paragraphs of a room: what is in it, what is not, and the file to read first, relative to the room."""

    inside: str
    not_inside: str
    first: str


def read(source: str) -> Said:
    """What the source of an `__init__.py` says.

    Raises:
        ValueError: its docstring does not have these three paragraphs, in this order.
    """
    paragraphs = [" ".join(part.split()) for part in (ast.get_docstring(ast.parse(source)) or "").split("\n\n")]
    match paragraphs:
        case [inside, outside, first] if outside.startswith("Not in here: ") and first.startswith("Read first: "):
            return Said(inside, outside.removeprefix("Not in here: "), first.removeprefix("Read first: "))
    raise ValueError('expected what is in the room, "Not in here: ..." and "Read first: FILE"')


def rooms() -> list[str]:
    """All rooms, relative to the checkout; in tests/unit and tests/extras are those that they test."""
    found = {path.parent for folder in FOLDERS for path in (CHECKOUT / folder).rglob("*.py")}
    names = sorted(str(path.relative_to(CHECKOUT)) for path in found)
    return [name for name in names if not name.startswith(("tests/unit/", "tests/extras/"))]


def room_of(path: str) -> str:
    """The room that a file, also one in C, lies in: the nearest folder upwards that is one."""
    folder = (CHECKOUT / path).parent
    while not (folder / "__init__.py").exists():
        folder = folder.parent
    return str(folder.relative_to(CHECKOUT))
