# SPDX-License-Identifier: BSD-2-Clause
"""Which instructions of a run are attacked: parts of the run, and how many of each part."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np
import numpy.typing as npt

from tests.campaign.faults import KINDS, Kind, Run

Numbers = npt.NDArray[np.int64]
BULK = ("memcpy", "memset", "gr_wipe")  # loops that do the same to one word after the other
BULK_EDGE = 100  # their first and last instructions count as any other
TAIL = 2000  # instructions before the library returns to our code
ALL = 1 << 62


@dataclass(frozen=True)
class Share:
    """How many instructions of each part are attacked, at most: evenly spread, the first and the last among them.

    Attributes:
        before: our own code before the verification.
        ours: the rest of our own code.
        bulk: the middle of long loops in our own code that copy and wipe.
        tail: the library's last instructions before it returns, from the verification on.
        library: the rest of the library.
    """

    before: int
    ours: int
    bulk: int
    tail: int
    library: int


@dataclass(frozen=True)
class Shares:
    """Shares by case and kind of fault.

    Attributes:
        skip: of single skips.
        other: of other faults.
        signature, signature_other: the same where the signature is bad, so that the library decides.
        all_bits: of the kinds that are many faults at each instruction; only its first execution counts.
        stays: of faults that stay; only the first execution in all of the run counts.
    """

    skip: Share
    other: Share
    signature: Share
    signature_other: Share
    all_bits: Share
    stays: Share

    def of(self, kind: Kind, about_signature: bool) -> Share:
        """The share of a kind of fault in a case."""
        if kind.stays:
            return self.stays
        if kind.of_all_bits:
            return self.all_bits
        if kind is KINDS[0]:
            return self.signature if about_signature else self.skip
        return self.signature_other if about_signature else self.other


WHOLE = Shares(
    skip=Share(300, ALL, 200, 200, 60),
    other=Share(100, ALL, 200, 100, 30),
    signature=Share(ALL, ALL, 200, ALL, 1000),
    signature_other=Share(300, ALL, 200, ALL, 300),
    all_bits=Share(ALL, ALL, 4, 0, 0),
    stays=Share(ALL, ALL, ALL, ALL, ALL),
)
# Where each run makes two signatures, and most faults do not end in a state that is known.
SLOW = Share(60, 120, 6, 40, 20)
SLOW_WHOLE = Shares(SLOW, SLOW, SLOW, SLOW, Share(6, 12, 0, 0, 0), SLOW)
FEW, FEW_OF_SIGNATURE = Share(1, 24, 2, 4, 1), Share(2, 24, 2, 24, 2)
SAMPLE = Shares(FEW, FEW, FEW_OF_SIGNATURE, FEW_OF_SIGNATURE, Share(2, 3, 0, 0, 0), Share(2, 4, 1, 4, 2))


def _segments(mask: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Runs of true values: (from, to)."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], mask.astype(np.int8), [0]))))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def parts(run: Run) -> dict[str, Numbers]:
    """The numbers of a run's instructions, by the parts of Share."""
    names = list(Share.__annotations__)
    before, ours, bulk, tail, library = range(len(names))
    part = np.where(run.is_ours, np.uint8(ours), np.uint8(library))
    looping = np.array([place.function in BULK for place in run.places])[run.index]
    for start, end in _segments(looping & run.is_ours):
        part[start + BULK_EDGE : max(end - BULK_EDGE, start + BULK_EDGE)] = bulk
    for start, end in _segments(~run.is_ours):
        if start >= run.verification:
            part[max(end - TAIL, start) : end] = tail
    first = part[: run.verification]
    first[first == ours] = before
    return {name: np.flatnonzero(part == number) for number, name in enumerate(names)}


def within(run: Run, functions: Collection[str]) -> dict[str, Numbers]:
    """The same for some functions only, by patterns of their names: all of them as our own code."""
    names = {place.function for place in run.places}
    wanted = {name for name in names if any(fnmatchcase(name, pattern) for pattern in functions)}
    mine = np.array([place.function in wanted for place in run.places])[run.index]
    return {
        name: np.flatnonzero(mine) if name == "ours" else np.zeros(0, np.int64) for name in Share.__annotations__
    }


def spread(numbers: Numbers, most: int) -> Numbers:
    """`most` of them, evenly, the first and the last among them."""
    if len(numbers) <= most:
        return numbers
    return numbers[np.linspace(0, len(numbers) - 1, most).astype(np.int64)]


def firsts(index: npt.NDArray[np.uint32], numbers: Numbers) -> Numbers:
    """Of these executions, the first of each instruction; `index` names the instruction of every execution."""
    at = np.unique(index[numbers], return_index=True)[1]
    return np.sort(numbers[at])


def chosen(run: Run, kind: Kind, of_parts: dict[str, Numbers], share: Share) -> dict[str, tuple[int, Numbers]]:
    """For each part, how many of its instructions can have the fault, and those that are attacked."""
    able = run.able(kind)
    found = {}
    of_all = firsts(run.index, np.flatnonzero(able)) if kind.stays else np.zeros(0, np.int64)
    for name, numbers in of_parts.items():
        candidates = numbers[able[numbers]]
        if kind.stays:
            candidates = np.intersect1d(candidates, of_all, assume_unique=True)
        elif kind.of_all_bits:
            candidates = firsts(run.index, candidates)
        found[name] = len(candidates), spread(candidates, getattr(share, name))
    return found
