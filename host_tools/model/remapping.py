# SPDX-License-Identifier: BSD-2-Clause
"""Traces whose mappings change between jobs, as others in which each GPU page has one frame for all of its time.

A program that frees and allocates buffers finds other memory at a GPU address. Our recorder writes the whole
content of a page that is mapped anew (host_tools/vgpu/recorder.h), so any frame will do for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby

import numpy as np

from host_tools.support.pages import pieces
from trace_format.actions import Action, Columns, Op, action, array_of
from trace_format.operands import Type
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Trace

Page = tuple[int, int]  # address space and virtual page
_KNOWN = (Op.MAP_GPU_MEM, Op.UNMAP_GPU_MEM, Op.UPLOAD, Op.CLEAR)


class _Unclear(Exception):
    """What a job finds in memory does not follow from what the trace says."""


def one_frame_each(trace: Trace) -> Trace | None:
    """The trace with a frame for each GPU page, in the order of GPU addresses, after the image; pages that are
    mapped where the image has them stay there.

    None where that would not be the same: pages are mapped at two addresses at a time, what is mapped anew is not
    filled anew, or actions other than uploads fill memory.
    """
    columns = Columns(trace.actions)
    if ((columns.of(Type.FRAME, Type.TARGET) >= 0) & ~columns.is_op(*_KNOWN)).any():
        return None
    flags: dict[Page, int] = {}
    first = -(-len(trace.image) // PAGE_BYTES)
    home: dict[Page, int] = {}  # of pages in the image
    for row in map(Action.of, trace.actions[columns.is_op(Op.MAP_GPU_MEM)]):
        for frame, page in enumerate(_pages(row), row.frame):
            if frame < first and page not in flags:
                home[page] = frame
            elif home.get(page, frame) != frame:
                return None
            flags[page] = flags.get(page, 0) | row.flags
    others = sorted(flags.keys() - home.keys())
    follower = _Follower(home | {page: first + at for at, page in enumerate(others)}, flags)
    parts = []
    begin = 0
    try:
        for at in np.flatnonzero(columns.is_op(*_KNOWN, Op.JOB)).tolist():
            rows = follower.take(Action.of(trace.actions[at]))
            parts += [trace.actions[begin:at], array_of(rows)]
            begin = at + 1
    except _Unclear:
        return None
    actions = np.concatenate([*parts, trace.actions[begin:]])
    return trace.with_(actions=actions, carveout_bytes=max(first + len(others), 1) * PAGE_BYTES)


def _pages(row: Action) -> list[Page]:
    return [(row.address_space, row.va_page + i) for i in range(row.pages)]


@dataclass
class _Follower:
    """Follows what is mapped where; `home`: the new frame of each GPU page, `flags`: all that it ever has."""

    home: dict[Page, int]
    flags: dict[Page, int]
    mapped: dict[Page, int] = field(default_factory=dict)
    owner: dict[int, Page] = field(default_factory=dict)  # frame -> where it was mapped last
    used: set[Page] = field(default_factory=set)  # pages that were mapped at some time
    unfilled: set[Page] = field(default_factory=set)  # mapped anew, with content that is yet to come

    def take(self, row: Action) -> list[Action]:
        """What an action on memory, or a job, becomes."""
        match row.op:
            case Op.MAP_GPU_MEM:
                return self._map(row)
            case Op.UNMAP_GPU_MEM:
                for page in _pages(row):
                    self.mapped.pop(page, None)
                    self.unfilled.discard(page)
                return [row]
            case Op.JOB:
                if self.unfilled or len(set(self.mapped.values())) != len(self.mapped):
                    raise _Unclear
                return [row]
        return self._fill(row)

    def _map(self, row: Action) -> list[Action]:
        pages = _pages(row)
        for frame, page in enumerate(pages, row.frame):
            if page in self.used or frame in self.owner:
                self.unfilled.add(page)
            self.used.add(page)
            self.mapped[page] = frame
            self.owner[frame] = page
        rows = []
        for flags, group in groupby(pages, self.flags.__getitem__):
            run = list(group)
            space, first = run[0]
            where = {"address_space": space, "va_page": first, "pages": len(run), "frame": self.home[run[0]]}
            rows.append(action(Op.MAP_GPU_MEM, flags=flags, **where))
        return rows

    def _fill(self, row: Action) -> list[Action]:
        rows = []
        for frame, inside, part in pieces(row.target, row.bytes):
            page = self.owner.get(frame)
            if page is None:
                raise _Unclear
            size = inside.stop - inside.start
            if size == PAGE_BYTES:
                self.unfilled.discard(page)
            target = self.home[page] * PAGE_BYTES + inside.start
            source = {"source": row.source + part.start} if row.op == Op.UPLOAD else {}
            rows.append(action(Op(row.op), bytes=size, target=target, **source))
        return rows
