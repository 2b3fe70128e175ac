# SPDX-License-Identifier: BSD-2-Clause
"""Which jobs wrote what, by GPU address: of several copies of a tensor, the last one written is what was read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from host_tools.model.by_job import Job
from host_tools.model.mappings import Mappings
from host_tools.vgpu.binding import ACCESS_WRITTEN
from trace_format.schema import PAGE_BYTES

NOBODY = -1


class Writers:
    """What each job of a replay wrote.

    Args:
        jobs: in the order in which they start.
        mappings: where their memory is mapped.
    """

    def __init__(self, jobs: Sequence[Job], mappings: Mappings) -> None:
        self._jobs = jobs
        self._frames = dict(zip(mappings.pages.tolist(), mappings.frames.tolist(), strict=True))
        self._pages = dict(zip(mappings.frames.tolist(), mappings.pages.tolist(), strict=True))

    def last(self, addresses: NDArray[np.int64]) -> int:
        """Number of the last job that wrote to one of these addresses, or NOBODY."""
        order = np.sort(addresses)
        parts = np.split(order, np.flatnonzero(np.diff(order // PAGE_BYTES)) + 1)
        places = [(self._frames[int(part[0]) // PAGE_BYTES], part % PAGE_BYTES) for part in parts]
        for number in range(len(self._jobs) - 1, -1, -1):
            accesses = self._jobs[number].accesses
            if any((accesses[frame][at] & ACCESS_WRITTEN).any() for frame, at in places if frame in accesses):
                return number
        return NOBODY

    def beginnings(self) -> NDArray[np.int64]:
        """Addresses of bytes that a job wrote without the byte before, sorted: a buffer begins at one of them."""
        found = [np.zeros(0, np.int64)]
        for job in self._jobs:
            before = NOBODY, False  # page, and whether its last byte was written
            for page, frame in sorted(
                (self._pages[frame], frame) for frame in job.accesses if frame in self._pages
            ):
                written = job.accesses[frame] & ACCESS_WRITTEN != 0
                goes_on = before == (page - 1, True)
                starts = written & ~np.concatenate([[goes_on], written[:-1]])
                found.append(np.flatnonzero(starts) + page * PAGE_BYTES)
                before = page, bool(written[-1])
        return np.unique(np.concatenate(found))
