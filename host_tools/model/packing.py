# SPDX-License-Identifier: BSD-2-Clause
"""How a memory model becomes an image and actions: which bytes are uploaded and cleared, and from where.

The image has whole pages first, at the frames that they keep, then pieces for UPLOAD actions; equal ones once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter, itemgetter

import numpy as np

from host_tools.model.alike import Alike
from host_tools.model.frames import CLEAR_GAP, CpuWrite, Page, Span
from host_tools.model.mappings import MapRun
from host_tools.support.sheet import NoSheetError, Sheet
from trace_format.actions import Action, Op, action
from trace_format.codec import Buffer
from trace_format.schema import PAGE_BYTES


class Packing:
    """What must be done about memory before and between jobs.

    Args:
        pages: by frame.
        cpu_writes: what the CPU writes between jobs.
        exact: a replay must fill nothing but what it needs: jobs of the prologue have made the rest.
        aligned: what is uploaded lies in its pages of the image as in those of memory, so that they can be shared.

    Attributes:
        clears, uploads: runs of the carve-out that are filled when a replay starts, uploads after clears.
        state: runs that the prologue fills, and no replay.
        image_bytes: size of the image.
    """

    def __init__(
        self,
        pages: Mapping[int, Page],
        cpu_writes: Iterable[CpuWrite],
        *,
        exact: bool = False,
        aligned: bool = False,
    ) -> None:
        self.whole = sorted((p for p in pages.values() if p.in_image), key=attrgetter("frame"))
        if len({page.frame for page in self.whole}) != len(self.whole):
            raise ValueError("two pages of the image at one frame")
        self.image_bytes = (self.whole[-1].frame + 1) * PAGE_BYTES if self.whole else 0
        self.clears: list[Span] = []
        self.uploads: list[Span] = []
        self.state: list[Span] = []
        self._alike = Alike()
        self._pieces: list[Buffer] = []  # what the image has after its pages
        others = sorted((p for p in pages.values() if not p.in_image and not p.is_blank), key=attrgetter("frame"))
        self._frames = [page.frame for page in others]
        self._contents = [page.content for page in others]
        for page, count in _alike(others, self._frames, exact):
            base = page.frame * PAGE_BYTES
            uploads, clears = page.exact_fills() if exact else page.fills()
            if count > 1:
                uploads, clears = ([(0, count * PAGE_BYTES)] if spans else [] for spans in (uploads, clears))
            for start, end in uploads:
                _extend(self.uploads, base + start, base + end, 1)
            for start, end in clears:  # too much does no harm: what is not zero is uploaded afterwards
                _extend(self.clears, base + start, base + end, 1 if exact else CLEAR_GAP)
            self.state += [(base + start, base + end) for start, end in page.state_fills()]
        self.uploads, self.clears = (list(without(spans, self.state)) for spans in (self.uploads, self.clears))
        self._sources: list[int] = []  # of uploads
        self._state = [(span, self._source(self._content(*span))) for span in self.state]
        for start, end in self.uploads:
            if aligned and end - start >= PAGE_BYTES:
                self._pad(-(self.image_bytes - start) % PAGE_BYTES)
            self._sources.append(self._add(self._content(start, end)))
        self._cpu_writes = [(item, self._source([item.data])) for item in cpu_writes]

    def _pad(self, count: int) -> None:
        self._pieces.append(bytes(count))
        self.image_bytes += count

    def _source(self, data: list[Buffer]) -> int | None:
        """Where the image has these bytes; None: they are zeros, and it has none."""
        return self._add(data) if any(np.frombuffer(part, np.uint8).any() for part in data) else None

    def _add(self, data: list[Buffer]) -> int:
        """Where the image has these bytes."""
        at = self._alike.first(data, self.image_bytes)
        if at == self.image_bytes:
            self._pieces += data
            self.image_bytes += sum(map(len, data))
        return at

    def _content(self, start: int, end: int) -> list[Buffer]:
        """Bytes of pages that follow one another, all of which have a content."""
        first = bisect_left(self._frames, start // PAGE_BYTES)
        last = first + (end - 1) // PAGE_BYTES - start // PAGE_BYTES
        found: list[Buffer] = [content.data for content in self._contents[first : last + 1]]
        found[-1] = found[-1][: (end - 1) % PAGE_BYTES + 1]
        found[0] = found[0][start % PAGE_BYTES :]
        return found

    @property
    def image_pages(self) -> int:
        """Size of the image, in pages."""
        return -(-self.image_bytes // PAGE_BYTES)

    def image(self) -> bytes:
        """The image itself, of what the pages hold now."""
        return b"".join([*self._whole_pages(), *self._pieces])

    def sheet(self) -> Buffer:
        """The image as a sheet, which a replay's memory can share."""
        try:
            sheet = Sheet.of(chain(self._whole_pages(), self._pieces))
        except NoSheetError:
            return self.image()
        return b"" if sheet is None else memoryview(sheet)

    def _whole_pages(self) -> Iterator[Buffer]:
        """Content of the pages of the image, zeros where it has none."""
        frame = 0
        for page in self.whole:
            yield bytes((page.frame - frame) * PAGE_BYTES)
            yield page.content.data
            frame = page.frame + 1

    def fills(self) -> list[Action]:
        """Actions that bring the pages outside the image to their initial content."""
        found = [action(Op.CLEAR, bytes=end - start, target=start) for start, end in self.clears]
        for (start, end), source in zip(self.uploads, self._sources, strict=True):
            found.append(action(Op.UPLOAD, bytes=end - start, target=start, source=source))
        return found

    def state_fills(self) -> list[Action]:
        """Actions that give state the value with which it begins."""
        return [_fill(start, end - start, source) for (start, end), source in self._state]

    def cpu_writes(self) -> list[tuple[int, Action]]:
        """What the CPU writes between jobs: before which action of the stream, and the action that does it."""
        return [(item.before, _fill(item.to, len(item.data), source)) for item, source in self._cpu_writes]

    def filled(self, frame: int) -> list[Span]:
        """Runs of a page that are filled when a replay starts."""
        base = frame * PAGE_BYTES
        found = []
        for spans in (self.clears, self.uploads, self.state):
            at = bisect_right(spans, base, key=itemgetter(1))
            while at < len(spans) and spans[at][0] < base + PAGE_BYTES:
                found.append((max(spans[at][0] - base, 0), min(spans[at][1] - base, PAGE_BYTES)))
                at += 1
        return found


def map_actions(found: Iterable[MapRun]) -> list[Action]:
    """MAP actions for mappings."""
    return [
        action(Op.MAP_GPU_MEM, flags=flags, address_space=space, va_page=va, pages=pages, frame=frame)
        for space, va, frame, flags, pages in found
    ]


def _fill(target: int, size: int, source: int | None) -> Action:
    where = {"bytes": size, "target": target}
    return action(Op.CLEAR, **where) if source is None else action(Op.UPLOAD, source=source, **where)


def without(spans: Iterable[Span], holes: Sequence[Span]) -> Iterator[Span]:
    """Runs less others; each in ascending order, none over another. State can have thousands."""
    ends = [after for _, after in holes]
    for start, end in spans:
        for at in range(bisect_right(ends, start), len(holes)):
            hole, after = holes[at]
            if hole >= end:
                break
            if start < hole:
                yield start, hole
            start = after
        if start < end:
            yield start, end


def _alike(pages: list[Page], frames: list[int], exact: bool) -> Iterator[tuple[Page, int]]:
    """Pages, and of those that follow one another and are filled whole in the same way the first and how many."""
    kinds = [None if exact else page.filled_whole for page in pages]
    begin = 0
    for end in range(1, len(pages) + 1):
        if (
            end == len(pages)
            or kinds[end] is None
            or kinds[end] is not kinds[begin]
            or frames[end] != frames[end - 1] + 1
        ):
            yield pages[begin], end - begin
            begin = end


def _extend(found: list[Span], start: int, end: int, gap: int) -> None:
    """Append a run, joining it to the last one where less than `gap` bytes are between."""
    if found and start - found[-1][1] < gap:
        found[-1] = (found[-1][0], end)
    else:
        found.append((start, end))
