# SPDX-License-Identifier: BSD-2-Clause
"""What GPU virtual pages map to: columns, since a network maps hundreds of thousands of pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from host_tools.model.frames import Mapping, Mask

Numbers = NDArray[np.int64]
MapRun = tuple[int, int, int, int, int]  # address space, virtual page, frame, flags, pages
SPACE_SHIFT = 44  # above every virtual page number


@dataclass(frozen=True, eq=False)
class Mappings:
    """Mappings by address space and virtual page, which no two of them share.

    Attributes:
        keys: address space << SPACE_SHIFT | virtual page, ascending.
        frames: page in the carve-out of each.
        flags: MAP_* permissions of each.
    """

    keys: Numbers
    frames: Numbers
    flags: Numbers

    @classmethod
    def of(cls, runs: Iterable[MapRun]) -> Mappings:
        """Of runs in any order; a page that is mapped twice in the same way counts once.

        Raises:
            ValueError: (address space, virtual page) of a page that is mapped in two ways.
        """
        rows = np.array(list(runs), np.int64).reshape(-1, 5)
        spaces, starts, frames, flags, pages = rows.T
        within = np.arange(pages.sum()) - np.repeat(np.cumsum(pages) - pages, pages)
        keys = np.repeat(spaces << SPACE_SHIFT | starts, pages) + within
        order = np.argsort(keys, kind="stable")
        found = cls(keys[order], (np.repeat(frames, pages) + within)[order], np.repeat(flags, pages)[order])
        again = np.diff(found.keys, prepend=-1) == 0
        differs = (np.diff(found.frames, prepend=0) != 0) | (np.diff(found.flags, prepend=0) != 0)
        if (again & differs).any():
            raise ValueError(*next(iter(found.where(again & differs))))
        return found.where(~again)

    @property
    def spaces(self) -> Numbers:
        """Address space of each."""
        return self.keys >> SPACE_SHIFT

    @property
    def pages(self) -> Numbers:
        """Virtual page of each."""
        return self.keys & ((1 << SPACE_SHIFT) - 1)

    def where(self, kept: Mask) -> Mappings:
        """Those that are marked."""
        return Mappings(self.keys[kept], self.frames[kept], self.flags[kept])

    def frames_that(self, judge: Callable[[int], bool]) -> Mask:
        """Marks those whose frame is as `judge` says."""
        return np.fromiter(map(judge, self.frames.tolist()), np.bool_, len(self))

    def with_(self, *, frames: Numbers | None = None, flags: Numbers | None = None) -> Mappings:
        """The same pages with other frames or permissions."""
        return replace(
            self, frames=self.frames if frames is None else frames, flags=self.flags if flags is None else flags
        )

    def same_places(self, other: Mappings) -> bool:
        """Whether others map the same pages to the same frames, whatever the permissions."""
        return np.array_equal(self.keys, other.keys) and np.array_equal(self.frames, other.frames)

    def without(self, space: int, page: int, pages: int) -> Mappings:
        """All but those of some virtual pages."""
        begin = space << SPACE_SHIFT | page
        return self.where((self.keys < begin) | (self.keys >= begin + pages))

    def find(self, space: int, pages: range) -> Numbers:
        """Where virtual pages that follow one another are in the columns.

        Raises:
            KeyError: (address space, virtual page) of the first that is not mapped.
        """
        begin = np.searchsorted(self.keys, space << SPACE_SHIFT | pages.start)
        found = self.keys[begin : begin + len(pages)] - (space << SPACE_SHIFT)
        mapped = np.concatenate([found == np.array(pages)[: len(found)], [False]])
        first = int(np.argmin(mapped))
        if first < len(pages):
            raise KeyError((space, pages[first]))
        return np.arange(begin, begin + len(pages))

    def runs(self) -> list[MapRun]:
        """As `of` takes them: pages that follow one another on both sides, with equal flags, as one."""
        goes_on = np.zeros(len(self), np.bool_)
        goes_on[1:] = (np.diff(self.keys) == 1) & (np.diff(self.frames) == 1) & (np.diff(self.flags) == 0)
        starts = np.flatnonzero(~goes_on)
        columns = self.spaces[starts], self.pages[starts], self.frames[starts], self.flags[starts]
        pages = np.diff(starts, append=len(self))
        return list(zip(*(column.tolist() for column in (*columns, pages)), strict=True))

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(zip(self.spaces.tolist(), self.pages.tolist(), strict=True))

    def __getitem__(self, page: tuple[int, int]) -> Mapping:
        key = page[0] << SPACE_SHIFT | page[1]
        at = int(np.searchsorted(self.keys, key))
        if at == len(self) or self.keys[at] != key:
            raise KeyError(page)
        return Mapping(int(self.frames[at]), int(self.flags[at]))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mappings) and self.tobytes() == other.tobytes()

    __hash__ = None  # type: ignore[assignment]

    def items(self) -> Iterator[tuple[tuple[int, int], Mapping]]:
        """All, by (address space, virtual page)."""
        return zip(self, map(Mapping, self.frames.tolist(), self.flags.tolist()), strict=True)

    def tobytes(self) -> bytes:
        """All that they say, as bytes."""
        return self.keys.tobytes() + self.frames.tobytes() + self.flags.tobytes()
