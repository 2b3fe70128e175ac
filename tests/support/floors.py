# SPDX-License-Identifier: BSD-2-Clause
"""Which folders and rooms may import which, and the picture of it, which `make generated` writes.

`tests/unit/project/test_imports.py` holds the sources to these lists, and docs/floors.svg to what is drawn from
them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence, Set
from xml.sax.saxutils import escape

from tests.support.places import CHECKOUT

PICTURE = CHECKOUT / "docs/floors.svg"

# Top-level folders, and which others each may import from.
FOLDERS: Mapping[str, Set[str]] = {
    "trace_format": set(),
    "signing": {"trace_format"},
    "tee_replayer": {"trace_format", "signing"},
    "baremetal": set(),
    "host_tools": {"trace_format", "signing", "tee_replayer", "baremetal"},
    "docs": {"trace_format", "signing", "tee_replayer", "baremetal", "host_tools"},  # docs/examples
}
# Rooms of host_tools from the top down; a room imports only from floors below its own. Rooms of one floor do not
# know each other.
FLOORS: Sequence[Sequence[str]] = (
    ("__main__",),
    ("cli",),
    ("extras",),
    ("commands",),
    ("api",),
    ("demo", "flash", "device", "audit_firmware", "text"),
    ("audit",),
    ("runners",),
    ("record",),
    ("gpus",),
    ("passes",),
    ("accesses",),
    ("model",),
    ("families",),
    ("machine",),
    ("vgpu",),
    ("support",),
)
# What the picture says of each.
WORDS = {
    "__main__": "where Python begins",
    "cli": "the command gramophone",
    "extras": "what the core can do without, each with its commands",
    "commands": "one module a command",
    "api": "what commands do, as functions: import gramophone",
    "demo": "digits",
    "flash": "images",
    "device": "gramophone-tee",
    "audit_firmware": "compiled firmware",
    "text": "a trace as text",
    "audit": "lint, reports, differences between traces",
    "runners": "what a replay runs on: this machine, Unicorn, QEMU, OP-TEE, Linux",
    "record": "networks and programs, from captures to raw traces",
    "gpus": "one folder a family: v3d, mali",
    "passes": "Trace to Trace, in the order of build",
    "accesses": "what jobs access, and whether that holds for all data",
    "model": "what a trace means: memory, interpreter, equivalence",
    "families": "the interface of a GPU family",
    "machine": "the guest that records",
    "vgpu": "what virtual GPUs share: recorder, binding, plugin",
    "support": "files, caches, programs, tensors",
    "tee_replayer": "the core in C, and its generator",
    "signing": "keys, envelopes, logs",
    "trace_format": "schema, opcodes, registers",
    "baremetal": "boards, start-up code",
}
WIDTH, MARGIN, GAP, BOX, HEAD = 960, 16, 6, 38, 30
ROOM, GROUND, PAPER, INK, SOFT = "#dbe9f6", "#e9e2d0", "#ffffff", "#16202a", "#44515e"


def ground() -> list[list[str]]:
    """The folders below host_tools from the top down: each above those that it imports from."""
    left = {folder: may for folder, may in FOLDERS.items() if folder in FOLDERS["host_tools"]}
    rows: list[list[str]] = []
    while left:
        lowest = [folder for folder, may in left.items() if not may & left.keys()]
        rows.insert(0, lowest)
        left = {folder: may for folder, may in left.items() if folder not in lowest}
    return rows


def svg() -> str:
    """The picture: a row of boxes for each floor, on paper of its own, to be read on dark pages too."""
    shapes: list[str] = []
    y = MARGIN + HEAD
    for rows, colour in ((FLOORS, ROOM), (ground(), GROUND)):
        if colour == GROUND:
            y += HEAD
            shapes.append(_text(MARGIN, y - 10, "below host_tools/: folders of their own", SOFT, 13))
        for row in rows:
            width = (WIDTH - 2 * MARGIN - GAP * (len(row) - 1)) / len(row)
            for number, room in enumerate(row):
                x = MARGIN + number * (width + GAP)
                shapes.append(f'<rect x="{x:g}" y="{y}" width="{width:g}" height="{BOX}" rx="5" fill="{colour}"/>')
                shapes += _label(x, y, width, room)
            y += BOX + GAP
    height = y - GAP + MARGIN
    title = "The rooms of host_tools/ on their floors. Imports go down only: never up, never sideways."
    return "\n".join(
        [
            "<!-- SPDX-License-Identifier: BSD-2-Clause; written by tests/support/floors.py -->",
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
            f'height="{height}" font-family="system-ui, sans-serif" role="img">',
            f"<title>{title}</title>",
            f'<rect width="{WIDTH}" height="{height}" rx="8" fill="{PAPER}" stroke="{SOFT}"/>',
            _text(MARGIN, MARGIN + 14, title, SOFT, 13),
            *shapes,
            "</svg>\n",
        ]
    )


def _label(x: float, y: int, width: float, room: str) -> list[str]:
    """A room's name and what it is for: beside each other where there is room, otherwise one above the other."""
    if width > WIDTH / 4:
        return [
            _text(x + 12, y + 24, room, INK, 15, bold=True),
            _text(x + 160, y + 24, WORDS[room], INK, 13),
        ]
    return [
        _text(x + 8, y + 16, room, INK, 14, bold=True),
        _text(x + 8, y + 31, WORDS[room], INK, 12),
    ]


def _text(x: float, y: int, text: str, colour: str, size: int, *, bold: bool = False) -> str:
    """A line of text."""
    weight = ' font-weight="600"' if bold else ""
    return f'<text x="{x:g}" y="{y}" font-size="{size}"{weight} fill="{colour}">{escape(text)}</text>'


if __name__ == "__main__":
    PICTURE.write_text(svg(), encoding="utf-8")
    sys.exit(0)
