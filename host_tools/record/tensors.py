# SPDX-License-Identifier: BSD-2-Clause
"""Finding tensors in GPU memory by following differences.

The same program recorded with two different inputs leaves two memories. Wherever a tensor lies, each of its
elements shows as the same pair (value in the first recording, value in the second), so the pairs betray the
address and the strides of every copy. Nothing about the framework's layouts is assumed but that the address is
an affine function of the indices.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trace_format.schema import MAX_RANK

WORD = 4
MAX_COPIES = 64  # places looked at for one element; a value that stands in more is no anchor


@dataclass(frozen=True)
class Placement:
    """Where a tensor lies: GPU address of its first element and byte strides, one a dimension."""

    address: int
    strides: tuple[int, ...]


class PairedMemory:
    """Two memories of the same shape, indexed by the pairs of 32-bit words that stand at one address.

    Args:
        first, second: GPU address of a run of words -> the words, the same addresses in both.
    """

    def __init__(self, first: dict[int, NDArray[np.uint32]], second: dict[int, NDArray[np.uint32]]) -> None:
        runs = sorted(first)
        self._addresses = np.concatenate(
            [np.arange(len(first[at]), dtype=np.int64) * WORD + at for at in runs] or [np.zeros(0, np.int64)]
        )
        one = np.concatenate([first[at] for at in runs] or [np.zeros(0, np.uint32)])
        two = np.concatenate([second[at] for at in runs] or [np.zeros(0, np.uint32)])
        self._pairs = one.astype(np.uint64) << np.uint64(32) | two.astype(np.uint64)
        self._order = np.argsort(self._pairs, kind="stable")
        self._sorted = self._pairs[self._order]

    def places(self, pair: int) -> NDArray[np.int64]:
        """Addresses at which a pair stands."""
        low = int(np.searchsorted(self._sorted, np.uint64(pair), side="left"))
        high = int(np.searchsorted(self._sorted, np.uint64(pair), side="right"))
        return np.asarray(self._addresses[self._order[low:high]], np.int64)

    def counts(self, pairs: NDArray[np.uint64]) -> NDArray[np.int64]:
        """In how many places each of the pairs stands."""
        low = np.searchsorted(self._sorted, pairs, side="left")
        return np.asarray(np.searchsorted(self._sorted, pairs, side="right") - low, np.int64)

    def at(self, addresses: NDArray[np.int64]) -> NDArray[np.uint64] | None:
        """Pairs at these addresses; None when one of them is not in memory."""
        index = np.searchsorted(self._addresses, addresses)
        if (index >= len(self._addresses)).any() or (self._addresses[index] != addresses).any():
            return None
        found: NDArray[np.uint64] = self._pairs[index]
        return found

    def differing(self) -> NDArray[np.int64]:
        """Addresses of the words that differ between the two memories."""
        found = self._pairs >> np.uint64(32) != self._pairs & np.uint64(0xFFFFFFFF)
        return np.asarray(self._addresses[found], np.int64)


def pairs_of(first: NDArray[np.float32], second: NDArray[np.float32]) -> NDArray[np.uint64]:
    """The pairs of two float32 tensors of one shape, in that shape."""
    one, two = (np.ascontiguousarray(x, "<f4").view(np.uint32).astype(np.uint64) for x in (first, second))
    result: NDArray[np.uint64] = (one << np.uint64(32) | two).reshape(first.shape)
    return result


def find(memory: PairedMemory, tensor: NDArray[np.uint64]) -> list[Placement]:
    """All placements of a tensor (as pairs) in a memory; empty when it stands nowhere.

    Raises:
        ValueError: the tensor has more than 6 dimensions or too few distinct values to be followed.
    """
    if tensor.ndim > MAX_RANK:
        raise ValueError(f"tensor has {tensor.ndim} dimensions, at most {MAX_RANK} are possible")
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
