# SPDX-License-Identifier: BSD-2-Clause
"""What GPU-visible memory is made of: pages with initial content, mappings, the CPU's writes between jobs."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from host_tools.support.pages import pages_of
from trace_format.schema import PAGE_BYTES

Bytes = NDArray[np.uint8]
Mask = NDArray[np.bool_]
Span = tuple[int, int]  # start, end
Fills = tuple[list[Span], list[Span]]  # uploads, clears
MERGE_GAP = 256  # an UPLOAD action costs 16 bytes and hundreds of instructions: closer runs become one
CLEAR_GAP = 1024  # so does a CLEAR, whose bytes cost nothing in the file
_BLANK_CONTENT: Bytes = np.zeros(PAGE_BYTES, np.uint8)
_BLANK_MASK: Mask = np.zeros(PAGE_BYTES, np.bool_)
_ALL: Mask = np.ones(PAGE_BYTES, np.bool_)
_WHOLE = slice(0, PAGE_BYTES)
_UPLOADED: Fills = ([(0, PAGE_BYTES)], [])  # fills of most pages are one of these two, which nobody changes
_CLEARED: Fills = ([], [(0, PAGE_BYTES)])
_DENSE_PAGES = 1024  # pages that are judged at a time
_BLANK_CONTENT.flags.writeable = _BLANK_MASK.flags.writeable = _ALL.flags.writeable = False


@dataclass(slots=True)
class Page:
    """One physical page of GPU-visible memory.

    Attributes:
        frame: page number in the carve-out.
        content: what it holds when a replay starts, PAGE_BYTES bytes; zero where it is not live.
        live: bytes whose initial value must be there; the rest may be anything. Copies of a page share the arrays.
        in_image: the page is mapped where the image has it, so it costs no copy (relocation decides).
        state: bytes that are filled in the prologue only, so that they keep what a replay leaves there.
    """

    frame: int
    content: Bytes
    live: Mask
    in_image: bool = False
    state: Mask = field(default_factory=lambda: _BLANK_MASK)
    _fills: Fills | None = field(default=None, repr=False, compare=False)

    @classmethod
    def blank(cls, frame: int) -> Page:
        """A page of which nothing is known. Blank pages share their arrays: there may be very many."""
        return cls(frame, _BLANK_CONTENT, _BLANK_MASK)

    def own(self) -> None:
        """Before the page's arrays are changed in place."""
        if not self.live.flags.writeable:
            self.live = self.live.copy()
        if not self.content.flags.writeable:
            self.content = self.content.copy()
        self._fills = None

    def put(self, part: slice, content: Bytes | Literal[0]) -> None:
        """Give some of the page's bytes a content, which must be there when a replay starts.

        Args:
            content: the bytes, which the page shares if they are all of its and read-only; 0: zeros.
        """
        if part == _WHOLE and not (isinstance(content, np.ndarray) and content.flags.writeable):
            self.content = _BLANK_CONTENT if isinstance(content, int) else content
            self.live, self._fills = _ALL, None
            return
        self.own()
        self.content[part] = content
        self.live[part] = True

    def put_whole(self, content: Bytes | None, dense: bool) -> None:
        """Give all of the page's bytes a content, which must be there when a replay starts; none are state.

        Args:
            content: the bytes, which the page shares if they are read-only; None: zeros.
            dense: `dense_pages` says so of them.
        """
        if content is not None and content.flags.writeable:
            content = content.copy()
        self.content, self.live, self.state = _BLANK_CONTENT if content is None else content, _ALL, _BLANK_MASK
        self._fills = _UPLOADED if dense else None

    def keep(self, part: slice, keeps: bool | Mask) -> None:
        """Say of some bytes, which have a content, whether they are state, all of them or each."""
        if np.any(keeps) or self.state is not _BLANK_MASK:
            self.state = self.state.copy()
            self.state[part] = keeps

    def drop(self, dead: Mask) -> None:
        """Let go of the initial value of some bytes; state keeps it."""
        if not dead.any():
            return
        live = self.live & (~dead | self.state)
        if np.array_equal(live, self.live):
            return
        self._fills = None
        if not live.any():
            self.content, self.live = _BLANK_CONTENT, _BLANK_MASK
            return
        self.live = live
        if self.content is not _BLANK_CONTENT:
            self.content = np.where(live, self.content, np.uint8(0))

    def lie_in_image(self, content: Bytes) -> None:
        """The page is one of the image: all its bytes are there from the beginning."""
        self.content, self.live, self.in_image, self.state = content, _ALL, True, _BLANK_MASK
        self._fills = None

    @property
    def is_blank(self) -> bool:
        """No byte of it matters when a replay starts."""
        return self.live is _BLANK_MASK

    @property
    def filled_whole(self) -> Fills | None:
        """Fills of a page that has one and no state: one of two objects, by which pages can be compared."""
        found = (self._fills or self.fills()) if self.state is _BLANK_MASK else None
        return found if found is _UPLOADED or found is _CLEARED else None

    @property
    def has_state(self) -> bool:
        """Whether any byte is state."""
        return self.state is not _BLANK_MASK and bool(self.state.any())

    @property
    def all_live(self) -> bool:
        """Whether it is known that all its bytes are live."""
        return self.live is _ALL

    def fills(self) -> Fills:
        """Runs of bytes to upload, and runs to clear before that: both may cover bytes that are not live."""
        if self._fills is None and self.content is _BLANK_CONTENT and self.live is _ALL:
            self._fills = _CLEARED
        if self._fills is None and self.live is _ALL and _is_dense(self.content):
            start, end = int(np.argmax(self.content != 0)), PAGE_BYTES - int(np.argmax(self.content[::-1] != 0))
            self._fills = [(start, end)], [span for span in ((0, start), (end, PAGE_BYTES)) if span[0] < span[1]]
        if self._fills is None:
            zeros = self.live.copy()
            uploads = runs(self.live & (self.content != 0), MERGE_GAP)
            for start, end in uploads:
                zeros[start:end] = False  # the upload brings its zeros along
            self._fills = uploads, runs(zeros, CLEAR_GAP)
            self._fills = next((known for known in (_UPLOADED, _CLEARED) if known == self._fills), self._fills)
        return self._fills

    def exact_fills(self) -> tuple[list[Span], list[Span]]:
        """The same of bytes that are not state, and of no others: what jobs of the prologue have made stays."""
        found: tuple[list[Span], list[Span]] = [], []
        for start, end in runs(self.live & ~self.state, 1):
            found[not self.content[start:end].any()].append((start, end))
        return found

    def state_fills(self) -> list[Span]:
        """Runs of state to fill, in order; those that are to be cleared apart."""
        if self.state is _BLANK_MASK:
            return []
        zeros = self.state.copy()
        found = []
        for begin, after in runs(self.state, 1):
            for start, end in runs(self.content[begin:after] != 0, MERGE_GAP):
                found.append((begin + start, begin + end))
                zeros[begin + start : begin + end] = False
        return sorted([*found, *runs(zeros, 1)])

    def digest(self) -> bytes:
        """Of what it holds when a replay starts, and which bytes of that matter, however it came to be."""
        if self.has_state:
            return hashlib.sha256(self.content.tobytes() + self.live.tobytes() + self.state.tobytes()).digest()
        if self.content is _BLANK_CONTENT and (self.is_blank or self.live is _ALL):
            return b"blank" if self.is_blank else b"zeros"
        if not self.content.any() and self.live.all():
            return b"zeros"  # of several parts
        return hashlib.sha256(self.content.tobytes() + self.live.tobytes()).digest()

    def settle(self, filled: list[Span]) -> None:
        """From now on what actions fill is live: it cannot be distinguished from what had to be filled."""
        if self._fills is not None and _bytes_in(filled) != sum(map(_bytes_in, self._fills)):
            self._fills = None  # an action that fills the page beside it has filled more of this one
        if self.in_image:
            if self.live is not _ALL:
                self.lie_in_image(self.content)
        elif not filled:
            self.content, self.live, self._fills = _BLANK_CONTENT, _BLANK_MASK, None
        elif filled == [(0, PAGE_BYTES)]:
            self.live = _ALL
        else:
            live = np.zeros(PAGE_BYTES, np.bool_)
            for start, end in filled:
                live[start:end] = True
            self.live = _ALL if live.all() else live


def _bytes_in(spans: list[Span]) -> int:
    return sum(end - start for start, end in spans)


class Pages(dict[int, Page]):
    """Pages by frame. Those that are not in it are blank: of most working memory nothing is known."""

    def __missing__(self, frame: int) -> Page:
        self[frame] = page = Page.blank(frame)
        return page


class Mapping(NamedTuple):
    """A GPU virtual page: its frame and MAP_* permissions."""

    frame: int
    flags: int


@dataclass
class CpuWrite:
    """Bytes that the CPU writes between jobs: before action `before` of the register stream."""

    before: int
    to: int
    data: bytes

    @property
    def frames(self) -> range:
        """Where they lie."""
        return pages_of(self.to, len(self.data))


def _is_dense(content: Bytes) -> bool:
    """Whether no MERGE_GAP zeros follow one another, seen by halves of such a gap: so it is with most weights."""
    return bool(content.reshape(-1, MERGE_GAP // 2).any(axis=1).all())


def dense_pages(data: Bytes) -> list[bool]:
    """Which pages of data are uploaded whole, as far as that is seen fast; `Page.fills` says the same of them.

    Args:
        data: pages that follow one another.
    """
    found: list[bool] = []
    for at in range(0, len(data), _DENSE_PAGES * PAGE_BYTES):
        part = data[at : at + _DENSE_PAGES * PAGE_BYTES]
        words = part.view(np.uint64).reshape(-1, MERGE_GAP // 2 // 8)
        dense = np.bitwise_or.reduce(words, axis=1).reshape(-1, PAGE_BYTES // (MERGE_GAP // 2)).all(axis=1)
        pages = part.reshape(-1, PAGE_BYTES)
        found += (dense & (pages[:, 0] != 0) & (pages[:, -1] != 0)).tolist()
    return found


def runs(mask: Mask, gap: int) -> list[Span]:
    """Runs of True as (start, end); runs closer than `gap` become one."""
    where = np.flatnonzero(mask)
    if not len(where):
        return []
    breaks = np.flatnonzero(np.diff(where) > gap)
    starts = where[np.concatenate(([0], breaks + 1))]
    ends = where[np.concatenate((breaks, [len(where) - 1]))] + 1
    return list(zip(starts.tolist(), ends.tolist(), strict=True))
