# SPDX-License-Identifier: BSD-2-Clause
"""Finding tensors in GPU memory by following differences.

The same program recorded with two different inputs leaves two memories. Wherever a tensor lies, each of its
elements shows as the same pair (value in the first recording, value in the second), so the pairs betray the
address and the strides of every copy. Nothing about the framework's layouts is assumed but that the address is
an affine function of the indices, or becomes one when an axis is split: ncnn packs channels by four.

Only words that differ are looked up by their pair; a network's weights, which are most of memory, do not.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trace_format.schema import MAX_RANK

WORD = 4
PACK = 4  # elements that ncnn's GPU layers keep together (docs/developer-guide of ncnn: element packing)
NOT_FOLLOWED = 1 << 32  # in place of a count
MAX_COPIES = 64  # places looked at for one element; a value that stands in more is no anchor


@dataclass(frozen=True)
class Placement:
    """Where a tensor lies: GPU address of its first element and byte strides, one a dimension.

    With `split`, that axis stands for two: its size divided by PACK, and PACK.
    """

    address: int
    strides: tuple[int, ...]
    split: int | None = None


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
        pairs = self.at(where)
        assert pairs is not None
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

    def at(self, addresses: NDArray[np.int64]) -> NDArray[np.uint64] | None:
        """Pairs at these addresses; None when one of them is not in memory."""
        run = np.searchsorted(self._starts, addresses, side="right") - 1
        if not len(self._runs) or (run < 0).any() or (addresses >= self._ends[run]).any():
            return None
        offset = addresses - self._starts[run]
        if (offset % WORD).any():
            return None
        found = np.empty(len(addresses), np.uint64)
        order = np.argsort(run, kind="stable")
        borders = np.flatnonzero(np.diff(run[order], prepend=-1))
        for part in np.split(order, borders[1:]) if len(order) else []:
            _, one, two = self._runs[int(run[part[0]])]
            index = offset[part] // WORD
            found[part] = one[index].astype(np.uint64) << np.uint64(32) | two[index]
        return found

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


def find(memory: PairedMemory, tensor: NDArray[np.uint64]) -> list[Placement]:
    """All placements of a tensor (as pairs) in a memory; empty when it stands nowhere.

    An axis is split only where the tensor does not stand anywhere as it is.

    Raises:
        ValueError: the tensor has more than 6 dimensions or too few distinct values to be followed.
    """
    if tensor.ndim > MAX_RANK:
        raise ValueError(f"tensor has {tensor.ndim} dimensions, at most {MAX_RANK} are possible")
    found = _find(memory, tensor)
    for axis, size in enumerate(tensor.shape):
        if not found and size % PACK == 0 and tensor.ndim < MAX_RANK:
            parts = tensor.reshape(split_shape(tensor.shape, axis))
            found = [replace(place, split=axis) for place in _find(memory, parts)]
    return found


def split_shape(shape: tuple[int, ...], axis: int | None) -> tuple[int, ...]:
    """The shape with an axis as two, if one is given."""
    return shape if axis is None else (*shape[:axis], shape[axis] // PACK, PACK, *shape[axis + 1 :])


def _find(memory: PairedMemory, tensor: NDArray[np.uint64]) -> list[Placement]:
    anchor = _anchor(memory, tensor)
    if anchor is None:
        return []
    offsets = [np.arange(n) for n in tensor.shape]
    found = []
    for strides in _strides(memory, tensor, anchor):
        grid = sum(
            (o * s).reshape([-1 if i == axis else 1 for i in range(tensor.ndim)])
            for axis, (o, s) in enumerate(zip(offsets, strides, strict=True))
        )
        shift = sum(i * s for i, s in zip(anchor, strides, strict=True))
        for place in memory.places(int(tensor[anchor])).tolist():
            base = place - shift
            seen = memory.at((grid + base).reshape(-1)) if base >= 0 else None
            if seen is not None and np.array_equal(seen, tensor.reshape(-1)):
                found.append(Placement(base, strides))
    return sorted(set(found), key=lambda p: p.address)


def _anchor(memory: PairedMemory, tensor: NDArray[np.uint64]) -> tuple[int, ...] | None:
    """Index of an element that stands in few places, and whose next elements in every dimension do too."""
    counts = memory.counts(tensor.reshape(-1)).reshape(tensor.shape)
    if (counts == 0).any():
        return None
    total = counts.copy()
    for axis, size in enumerate(tensor.shape):
        if size > 1:
            # An element's neighbour is the next one; the last one's is the one before it.
            neighbour = np.minimum(np.arange(size) + 1, size - 1)
            neighbour[-1] = size - 2
            total += np.take(counts, neighbour, axis=axis)
    best = np.unravel_index(int(np.argmin(total)), tensor.shape)
    if total[best] > MAX_COPIES * (tensor.ndim + 1):
        raise ValueError("the tensor's values repeat too often to be followed through memory")
    return tuple(int(i) for i in best)


def _strides(
    memory: PairedMemory, tensor: NDArray[np.uint64], anchor: tuple[int, ...]
) -> Iterator[tuple[int, ...]]:
    """Combinations of strides that the anchor's neighbours allow; of a dimension of size 1, the inner size."""
    options: list[list[int]] = []
    origin = memory.places(int(tensor[anchor]))
    for axis, size in enumerate(tensor.shape):
        if size == 1:
            options.append([0])
            continue
        step = 1 if anchor[axis] + 1 < size else -1
        index = tuple(i + step if a == axis else i for a, i in enumerate(anchor))
        places = memory.places(int(tensor[index]))
        differences = {int(d) * step for d in (places[:, None] - origin[None, :]).reshape(-1)}
        options.append(sorted(d for d in differences if d >= WORD))
    for choice in itertools.product(*options):
        strides = list(choice)
        for axis in range(len(strides) - 1, -1, -1):
            if strides[axis] == 0:
                inner = [s * n for s, n in zip(strides[axis + 1 :], tensor.shape[axis + 1 :], strict=True)]
                strides[axis] = max(inner, default=WORD)
        yield tuple(strides)
