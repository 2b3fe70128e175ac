# SPDX-License-Identifier: BSD-2-Clause
"""Places for pages that share frames: each is in use during some jobs, and shares with none that is in use then.

Where no run of free frames below the highest one in use is long enough, pages that belong together are torn apart
before memory grows: a page table maps them one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from host_tools.accesses.liveness import Jobs

Frames = NDArray[np.int64]


@dataclass(frozen=True)
class Unit:
    """Pages that lie together where they can.

    Attributes:
        frames: of the trace, in the order of their GPU addresses.
        jobs: during which they are in use.
    """

    frames: tuple[int, ...]
    jobs: Jobs

    @property
    def first(self) -> int:
        """The first of these jobs."""
        return int(np.argmax(self.jobs))

    @property
    def times(self) -> list[tuple[int, int]]:
        """First and last job of each time that they are in use."""
        edges = np.flatnonzero(np.diff(self.jobs, prepend=False, append=False)).tolist()
        return [(first, end - 1) for first, end in zip(edges[::2], edges[1::2], strict=True)]


@dataclass(frozen=True)
class Placed:
    """Where units lie.

    Attributes:
        at: for each unit, in the order given, the new frames of its pages, from 0.
        busy: of each job, which of the new frames are in use.
    """

    at: Sequence[Frames]
    busy: NDArray[np.bool_]

    @property
    def pages(self) -> int:
        """How much memory they take."""
        pages: int = self.busy.shape[1]
        return pages


def pressure(units: Sequence[Unit], jobs: int) -> NDArray[np.int64]:
    """Pages in use during each job: no placement takes less than the most of them."""
    found = np.zeros(jobs, np.int64)
    for unit in units:
        found += unit.jobs * len(unit.frames)
    return found


def place(units: Sequence[Unit], jobs: int) -> Placed:
    """The better of two placements: the largest unit first, and the first to be used first."""
    orders = (
        sorted(range(len(units)), key=lambda i: -len(units[i].frames)),
        sorted(range(len(units)), key=lambda i: (units[i].first, -len(units[i].frames))),
    )
    return min((_placed(units, order, jobs) for order in orders), key=lambda found: found.pages)


def spread(
    fixed: Sequence[Unit], others: Sequence[Unit], jobs: int, pages: int, *, torn: bool = False
) -> Placed | None:
    """All units in so many pages; the others, by their first jobs, lie where memory has been free the longest.

    What is read early has its place the earlier. None: they do not fit so.

    Args:
        torn: a unit rather lies in several places than where memory is free later.
    """
    low = place(fixed, jobs)
    if low.pages > pages:
        return None
    busy = np.zeros((jobs, pages), np.bool_)
    busy[:, : low.pages] = low.busy
    latest = np.arange(1, jobs + 1)[:, None]
    at: dict[int, Frames] = {}
    for index in sorted(range(len(others)), key=lambda i: others[i].first):
        unit = others[index]
        during = np.flatnonzero(unit.jobs)
        free = np.logical_not(np.logical_or.reduce(busy[during], axis=0))
        used = np.max(busy[: unit.first] * latest[: unit.first], axis=0, initial=0)
        frames = _idle(used, free, len(unit.frames), torn=torn)
        if frames is None:
            return None
        busy[np.ix_(during, frames)] = True
        at[index] = frames
    return Placed([*low.at, *(at[index] for index in range(len(others)))], busy)


def _idle(used: NDArray[np.int64], free: NDArray[np.bool_], count: int, *, torn: bool) -> Frames | None:
    """The `count` frames that have been free the longest: a run, else the longest runs; None: fewer are free.

    Args:
        torn: no run that has been free for a shorter time.
    """
    since = np.where(free, used, np.iinfo(np.int64).max)
    times = np.sort(used[free])
    if len(times) < count:
        return None
    for latest in np.unique(times[count - 1 :])[: 1 if torn else None]:
        bounds = np.flatnonzero(np.diff(since <= latest, prepend=False, append=False))
        starts, sizes = bounds[::2], bounds[1::2] - bounds[::2]
        fits = np.flatnonzero(sizes >= count)
        if len(fits):
            run: Frames = np.arange(count) + starts[fits[0]]
            return run
    longest = np.argsort(-sizes, kind="stable")
    parts: Frames = np.concatenate([np.arange(sizes[i]) + starts[i] for i in longest])[:count]
    return np.sort(parts)


def _placed(units: Sequence[Unit], order: Sequence[int], jobs: int) -> Placed:
    busy = np.zeros((jobs, sum(len(unit.frames) for unit in units)), np.bool_)
    at: dict[int, Frames] = {}
    top = 0
    for index in order:
        unit = units[index]
        during = np.flatnonzero(unit.jobs)
        used = np.logical_or.reduce(busy[during], axis=0)
        frames = _chosen(np.logical_not(used), len(unit.frames), top)
        busy[np.ix_(during, frames)] = True
        top = max(top, int(frames[-1]) + 1)
        at[index] = frames
    return Placed([at[index] for index in range(len(units))], busy[:, :top])


def _chosen(free: NDArray[np.bool_], count: int, top: int) -> Frames:
    """So many free frames: the lowest run of them below `top`, else the lowest ones."""
    ends = np.flatnonzero(np.diff(free[:top], prepend=False, append=False))
    starts, sizes = ends[::2], ends[1::2] - ends[::2]
    fits = np.flatnonzero(sizes >= count)
    found: Frames = np.arange(count) + starts[fits[0]] if len(fits) else np.flatnonzero(free)[:count]
    return found


def runs(frames: Frames) -> Iterator[slice]:
    """Parts of a unit whose frames follow one another."""
    begin = 0
    for _, group in groupby(frames - np.arange(len(frames))):
        end = begin + sum(1 for _ in group)
        yield slice(begin, end)
        begin = end
