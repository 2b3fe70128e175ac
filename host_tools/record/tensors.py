# SPDX-License-Identifier: BSD-2-Clause
"""Finding tensors in GPU memory by following differences.

The same program recorded with two different inputs leaves two memories. Wherever a tensor lies, each of its
elements shows as the same pair (value in the first recording, value in the second), so the pairs betray the
address of every copy. Only layouts that the framework uses are looked for (record/layouts.py): in any strides,
parts of several copies would do for one tensor.

Only words that differ are looked up by their pair; a network's weights, which are most of memory, do not.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from host_tools.record.layouts import WORD, Layout

NOT_FOLLOWED = 1 << 32  # in place of a count
SAMPLES = 16  # elements that are compared first; then so many times as many, and so on
CROWD = 256  # places that are compared whole; of more, those that are likely
_AT_ONCE = 1 << 22  # words that are compared at once


class RepeatedError(ValueError):
    """A tensor's values repeat too often to say where it is."""


@dataclass(frozen=True)
class Placement:
    """Where a tensor lies: GPU address of its first element, and layout."""

    address: int
    layout: Layout

    def addresses(self) -> NDArray[np.int64]:
        """Of all elements, in C order."""
        return self.address + self.layout.offsets()


class PairedMemory:
    """Two memories of the same shape, as pairs of 32-bit words that stand at one address.

    Args:
        first, second: GPU address of a run of words -> the words, the same addresses in both.
    """

    def __init__(self, first: dict[int, NDArray[np.uint32]], second: dict[int, NDArray[np.uint32]]) -> None:
        self._runs = [(at, first[at], second[at]) for at in sorted(first)]
        self._starts = np.array([at for at, *_ in self._runs], np.int64)
        self._ends = np.array([at + len(words) * WORD for at, words, _ in self._runs], np.int64)

    @functools.cached_property
    def _index(self) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Pairs that differ, sorted, and where each stands."""
        where = self.differing()
        pairs, _ = self.at(where)
        order = np.argsort(pairs, kind="stable")
        return pairs[order], where[order]

    def places(self, pair: int) -> NDArray[np.int64]:
        """Addresses at which a pair of words that differ stands."""
        pairs, where = self._index
        low, high = (int(np.searchsorted(pairs, np.uint64(pair), side=side)) for side in ("left", "right"))
        return where[low:high]

    def counts(self, wanted: NDArray[np.uint64]) -> NDArray[np.int64]:
        """In how many places each of these pairs stands; of words that do not differ: NOT_FOLLOWED."""
        pairs, _ = self._index
        low = np.searchsorted(pairs, wanted, side="left")
        found = np.searchsorted(pairs, wanted, side="right") - low
        return np.asarray(np.where(_differ(wanted), found, NOT_FOLLOWED), np.int64)

    def at(self, addresses: NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        """Pairs at these addresses, and whether there are such words."""
        found = np.zeros(len(addresses), np.uint64)
        if not self._runs:
            return found, np.zeros(len(addresses), np.bool_)
        run = np.maximum(np.searchsorted(self._starts, addresses, side="right") - 1, 0)
        offset = addresses - self._starts[run]
        there = (offset >= 0) & (addresses < self._ends[run]) & (offset % WORD == 0)
        order = np.argsort(run, kind="stable")
        borders = np.flatnonzero(np.diff(run[order], prepend=-1))
        for part in np.split(order, borders[1:]):
            part = part[there[part]]
            if len(part):
                _, one, two = self._runs[int(run[part[0]])]
                index = offset[part] // WORD
                found[part] = one[index].astype(np.uint64) << np.uint64(32) | two[index]
        return found, there

    def all_at(
        self, bases: NDArray[np.int64], offsets: NDArray[np.int64], pairs: NDArray[np.uint64]
    ) -> NDArray[np.int64]:
        """The bases from which these pairs stand at these offsets."""
        found = []
        step = max(_AT_ONCE // len(offsets), 1)
        for begin in range(0, len(bases), step):
            part = bases[begin : begin + step]
            seen, there = self.at((part[:, None] + offsets).reshape(-1))
            same = (seen.reshape(len(part), -1) == pairs).all(axis=1) & there.reshape(len(part), -1).all(axis=1)
            found.append(part[same])
        return np.concatenate([np.zeros(0, np.int64), *found])

    def differing(self) -> NDArray[np.int64]:
        """Addresses of the words that differ between the two memories."""
        parts = [np.flatnonzero(one != two) * WORD + at for at, one, two in self._runs]
        return np.concatenate([np.zeros(0, np.int64), *(part for part in parts if len(part))])

    def stretches(self, gap: int) -> list[tuple[int, int]]:
        """First and last address of words that differ, with at most `gap` bytes from each to the next."""
        found: list[tuple[int, int]] = []
        for at, one, two in self._runs:
            where = np.flatnonzero(one != two) * WORD + at
            if len(where):
                breaks = np.flatnonzero(np.diff(where) > gap)
                starts, ends = where[np.append(0, breaks + 1)], where[np.append(breaks, -1)]
                found = joined([*found, *zip(starts.tolist(), ends.tolist(), strict=True)], gap, len(found) - 1)
        return found


def joined(stretches: list[tuple[int, int]], gap: int, since: int = 0) -> list[tuple[int, int]]:
    """Stretches in ascending order, those from number `since` on joined where at most `gap` bytes are between."""
    found = stretches[: max(since, 0)]
    for start, end in stretches[max(since, 0) :]:
        if found and start - found[-1][1] <= gap:
            found[-1] = found[-1][0], end
        else:
            found.append((start, end))
    return found


def _differ(pairs: NDArray[np.uint64]) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = pairs >> np.uint64(32) != pairs & np.uint64(0xFFFFFFFF)
    return found


def pairs_of(first: NDArray[np.float32], second: NDArray[np.float32]) -> NDArray[np.uint64]:
    """The pairs of two float32 tensors of one shape, in that shape."""
    one, two = (np.ascontiguousarray(x, "<f4").view(np.uint32).astype(np.uint64) for x in (first, second))
    result: NDArray[np.uint64] = (one << np.uint64(32) | two).reshape(first.shape)
    return result


def find(
    memory: PairedMemory,
    tensor: NDArray[np.uint64],
    layouts: Sequence[Layout],
    likely: Callable[[], NDArray[np.int64]] | None = None,
) -> list[Placement]:
    """All placements of a tensor (as pairs) in a memory, by address; empty when it stands nowhere.

    Args:
        memory: to look in.
        tensor: of the shape that the layouts are of, but for an axis that they split.
        layouts: those that the framework uses.
        likely: makes the addresses, sorted, at which tensors may begin; only asked where values repeat often.

    Raises:
        RepeatedError: no element differs between the two memories, or they repeat too often.
    """
    pairs = tensor.reshape(-1)
    counts = memory.counts(pairs)
    anchor = int(np.argmin(counts))
    if counts[anchor] == NOT_FOLLOWED:
        raise RepeatedError("it is the same with both inputs")
    found = []
    for layout in layouts:
        offsets = layout.offsets()
        bases = memory.places(int(pairs[anchor])) - offsets[anchor]
        # Spread over the tensor, whose neighbours may be alike; the same order in each run.
        order = np.random.default_rng(0).permutation(len(pairs))
        taken = min(SAMPLES, len(pairs))
        while len(bases) and taken < len(pairs):
            bases = memory.all_at(bases, offsets[order[:taken]], pairs[order[:taken]])
            taken = min(taken * SAMPLES, len(pairs))
        if len(bases) > CROWD and likely is not None:
            bases = np.intersect1d(bases, likely())
        if len(bases) > CROWD:
            raise RepeatedError(f"its values fit {len(bases)} places: they repeat too often")
        found += [Placement(base, layout) for base in memory.all_at(bases, offsets, pairs).tolist()]
    found.sort(key=lambda place: place.address)
    return found
