# SPDX-License-Identifier: BSD-2-Clause
"""Where the nodes and edges of the network's picture are: from top to bottom, as data flows.

Inputs, parts of the network and outputs are nodes. All that is no result of a job (weights, parameters, zeros) is
one node, whose edges are drawn apart from the others.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from host_tools.audit.report import facts
from host_tools.audit.report.facts import Node, Report
from host_tools.audit.report.network import PREPARATION, WEIGHTS, Layer, Part, edges

BOX, TALL, ACROSS, DOWN, MARGIN = 208, 44, 232, 76, 16
THICK = 5.0  # stroke of the edge with the most bytes
HEATS = (1.0, 3.0, 8.0, 20.0)  # per cent of the time from which on a box is darker


@dataclass(frozen=True)
class Box:
    """A node.

    Attributes:
        kind: node, slot-node or weights-node.
        layer: place of the first layer in it; None: it is none.
        heat: 0 to 4, how much of the time it has.
    """

    x: int
    y: int
    kind: str
    title: str
    text: str
    layer: int | None
    heat: int


@dataclass(frozen=True)
class Arrow:
    """An edge: its line, its stroke, whether it comes from the weights, and what it says."""

    path: str
    stroke: float
    constant: bool
    source: str
    target: str
    bytes: int


@dataclass(frozen=True)
class Picture:
    """All of it."""

    name: str
    width: int
    height: int
    boxes: list[Box]
    arrows: list[Arrow]


def picture(name: str, report: Report, found: Sequence[Layer], parts: Sequence[Part]) -> Picture:
    """The network with these parts as nodes.

    Args:
        name: of the picture, for identifiers.
        found: all layers.
        parts: that cover them, in order.
    """
    slots = {slot.name: slot for slot in report.slots}
    given = [name for name, slot in slots.items() if slot.kind == "input"]
    results = [name for name, slot in slots.items() if slot.kind in ("internal", "output")]
    part_of = {job: at for at, part in enumerate(parts) for layer in part.layers for job in found[layer].jobs}
    first, last = 1 + len(given), 1 + len(given) + len(parts)

    def place(node: Node) -> int | None:
        if node.kind in WEIGHTS or (node.slot in slots and slots[node.slot].kind == "parameter"):
            return 0
        if node.job is not None:
            return first + part_of[node.job] if node.job in part_of else None
        if node.slot in given:
            return 1 + given.index(node.slot)
        return last + results.index(node.slot) if node.slot in results else None

    between = edges(report, place)
    parameters = sum(slot.kind == "parameter" for slot in slots.values())
    boxes = [
        ("weights-node", "weights and constants", f"{parameters:,} parameters" if parameters else "", None, 0),
        *(("slot-node", name, _shape(slots[name]), None, 0) for name in given),
        *(_part(found, part) for part in parts),
        *(("slot-node", name, _shape(slots[name]), None, 0) for name in results),
    ]
    ranks = _ranks(len(boxes), between, range(first, last))
    constant = {at for at, box in enumerate(boxes) if box[0] == "weights-node"}
    places, width = _places(ranks, [edge for edge in between if edge[0] not in constant])
    drawn = [Box(x, y, *box) for box, (x, y) in zip(boxes, places, strict=True)]
    most = math.log2(1 + max((size for (source, _), size in between.items() if source), default=1))
    arrows = []
    for (source, target), size in sorted(between.items()):
        stroke = round(1 + (THICK - 1) * min(1.0, math.log2(1 + size) / most), 1)
        path = _path(places[source], places[target], ranks[target] - ranks[source])
        arrows.append(Arrow(path, stroke, source in constant, boxes[source][1], boxes[target][1], size))
    return Picture(name, width, MARGIN + DOWN * (1 + max(ranks)), drawn, arrows)


def _part(found: Sequence[Layer], part: Part) -> tuple[str, str, str, int, int]:
    layers = [found[number] for number in part.layers]
    shares = [layer.share for layer in layers if layer.share is not None]
    share = sum(shares)
    text = layers[0].kind if len(layers) == 1 else f"{len(layers)} layers"
    jobs = sum(len(layer.jobs) for layer in layers)
    text += f", {jobs} jobs" if jobs > 1 else ""
    text += f", {share:.1f} %" if shares else ""
    kind = "weights-node" if part.title == PREPARATION else "node"
    return kind, part.title, text, part.layers[0], sum(share >= heat for heat in HEATS)


def _shape(slot: facts.Slot) -> str:
    return f"{slot.kind}: {slot.dtype} [{', '.join(map(str, slot.shape))}]"


def _ranks(count: int, between: dict[tuple[int, int], int], parts: range) -> list[int]:
    """A row for each node: below all that it reads. Nodes are in an order in which data flows, but for state.

    A part that reads no result stands just above who reads it: hundreds may read weights only.
    """
    sources, targets = defaultdict(list), defaultdict(list)
    for source, target in between:
        if 0 < source < target:
            sources[target].append(source)
            targets[source].append(target)
    ranks = [0] * count
    for node in range(1, count):
        ranks[node] = max((ranks[source] + 1 for source in sources[node]), default=0)
    for node in reversed(parts):
        if not sources[node] and targets[node]:
            ranks[node] = max(0, min(ranks[target] for target in targets[node]) - 1)
    return ranks


def _places(ranks: Sequence[int], between: Iterable[tuple[int, int]]) -> tuple[list[tuple[int, int]], int]:
    """Upper left corners, and the width: nodes of a row stand in the order of what they read."""
    sources = defaultdict(list)
    for source, target in between:
        if source < target and ranks[source] < ranks[target]:
            sources[target].append(source)
    rows: dict[int, list[int]] = defaultdict(list)
    for node, rank in enumerate(ranks):
        rows[rank].append(node)
    wide = max(map(len, rows.values()))
    centre: dict[int, float] = {}
    for rank in sorted(rows):
        row = rows[rank]
        aims = {
            node: sum(centre[source] for source in sources[node]) / len(sources[node])
            for node in row
            if sources[node]
        }
        row.sort(key=lambda node: (aims.get(node, math.inf), not node, node))
        # Nodes stand below what they read; those that read nothing, to the right.
        begins = [aims[node] - at for at, node in enumerate(row) if node in aims]
        start = sum(begins) / len(begins) if begins else -(len(row) - 1) / 2
        start = min(max(start, -(wide - 1) / 2), (wide - 1) / 2 - len(row) + 1)
        centre |= {node: start + at for at, node in enumerate(row)}
    places = [
        (round(MARGIN + ACROSS * (centre[node] + (wide - 1) / 2)), MARGIN // 2 + DOWN * rank)
        for node, rank in enumerate(ranks)
    ]
    return places, 2 * MARGIN + ACROSS * wide + 120


def _path(source: tuple[int, int], target: tuple[int, int], rows: int) -> str:
    x1, y1, x2, y2 = source[0] + BOX // 2, source[1] + TALL, target[0] + BOX // 2, target[1]
    if rows == 1 or abs(x1 - x2) >= BOX:
        bend = max(DOWN - TALL, (y2 - y1) // 2)
        return f"M{x1} {y1}C{x1} {y1 + bend} {x2} {y2 - bend} {x2} {y2 - 3}"
    x1, x2, y1, y2 = source[0] + BOX, target[0] + BOX, source[1] + TALL // 2, target[1] + TALL // 2
    out = max(x1, x2) + min(110, 24 + 6 * abs(rows))  # past what lies between
    return f"M{x1} {y1}C{out} {y1} {out} {y2} {x2 + 3} {y2}"
