# SPDX-License-Identifier: BSD-2-Clause
"""During which jobs pages of working memory hold what a later job needs.

A page whose bytes are all written before they are read again holds nothing meanwhile. Between its first and its
last use it can so be free several times, as when an allocator gives an address to one tensor after the other.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

import numpy as np
from numpy.typing import NDArray

from host_tools.accesses.proof import Job
from host_tools.model.frames import Mask
from host_tools.vgpu.binding import ACCESS_READ, ACCESS_READ_FIRST, ACCESS_WRITTEN

Jobs = NDArray[np.bool_]  # of each job, whether


def live_jobs(jobs: Sequence[Job], frames: Set[int]) -> dict[int, Jobs]:
    """Frame -> during which jobs it is in use, or holds bytes that a later job reads before it writes them.

    A job that varies may write other bytes with other data, so what it writes counts as kept.

    Args:
        jobs: all, in their order.
        frames: that are asked for; those that no job accesses are left out.
    """
    found: dict[int, Jobs] = {}
    needed: dict[int, Mask] = {}  # bytes that a job from here on reads first
    for number in range(len(jobs) - 1, -1, -1):
        job = jobs[number]
        for frame in job.accesses.keys() & frames:
            flags = job.accesses[frame]
            after = needed.get(frame, np.False_)
            if job.varies:
                needed[frame] = after | (flags & (ACCESS_READ | ACCESS_READ_FIRST) != 0)
            else:
                needed[frame] = after & (flags & ACCESS_WRITTEN == 0) | (flags & ACCESS_READ_FIRST != 0)
            found.setdefault(frame, np.zeros(len(jobs), np.bool_))[number] = True
        needed = {frame: mask for frame, mask in needed.items() if mask.any()}
        if number:
            for frame in needed:
                found[frame][number - 1] = True
    return found
