# SPDX-License-Identifier: BSD-2-Clause
"""Memory that is mapped at two GPU addresses at a time.

PanVK maps its rings twice in a row: what is written at a ring's end goes on at its start. Neither dispatches nor
straight streams read them, so a trace can do without.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set

from host_tools.support.pages import pieces
from trace_format.actions import Action, Op
from trace_format.schema import PAGE_BYTES

Frames = Set[int]


def mapped_twice(rows: Iterable[Action]) -> set[int]:
    """Frames of the carve-out that are mapped at two addresses at some time."""
    mapped: dict[tuple[int, int], int] = {}
    uses: dict[int, int] = {}
    found = set()
    for row in rows:
        if row.op not in (Op.MAP_GPU_MEM, Op.UNMAP_GPU_MEM):
            continue
        for at in range(row.pages):
            page = row.address_space, row.va_page + at
            if (before := mapped.pop(page, None)) is not None:
                uses[before] -= 1
            if row.op == Op.MAP_GPU_MEM:
                frame = mapped[page] = row.frame + at
                uses[frame] = uses.get(frame, 0) + 1
                if uses[frame] > 1:
                    found.add(frame)
    return found


def without(rows: Iterable[Action], frames: Frames) -> Iterator[Action]:
    """Actions without frames: they are neither mapped nor filled. Unmappings stay; they do nothing then."""
    for row in rows:
        match row.op:
            case Op.MAP_GPU_MEM:
                yield from _maps(row, frames)
            case Op.UPLOAD | Op.CLEAR:
                yield from _fills(row, frames)
            case _:
                yield row


def _maps(row: Action, frames: Frames) -> Iterator[Action]:
    first = 0
    for at in range(row.pages + 1):
        if at < row.pages and row.frame + at not in frames:
            continue
        if at > first:
            yield row.with_(va_page=row.va_page + first, frame=row.frame + first, pages=at - first)
        first = at + 1


def _fills(row: Action, frames: Frames) -> Iterator[Action]:
    touched = range(row.target // PAGE_BYTES, -(-(row.target + row.bytes) // PAGE_BYTES))
    if frames.isdisjoint(touched):
        yield row
        return
    for frame, inside, part in pieces(row.target, row.bytes):
        if frame not in frames:
            size = inside.stop - inside.start
            source = {"source": row.source + part.start} if row.op == Op.UPLOAD else {}
            yield row.with_(target=frame * PAGE_BYTES + inside.start, bytes=size, **source)
