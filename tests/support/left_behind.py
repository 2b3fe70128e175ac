# SPDX-License-Identifier: BSD-2-Clause
"""What replays of two traces leave in memory, where the second has jobs of the first in pieces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.accesses.observe import watched
from host_tools.model.interpreter import interpreter
from host_tools.vgpu.binding import ACCESS_READ_FIRST
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Trace

REPLAYS = 2


def unread_difference(before: Trace, after: Trace, inputs: Mapping[str, NDArray[Any]]) -> int:
    """How many bytes of the carve-outs differ after some replays. A job that reads one has written it before.

    Args:
        before, after: traces in which memory lies at the same places, and is not used for two things.

    Raises:
        AssertionError: outputs differ, or bytes that a job reads.
    """
    with interpreter(before) as one, interpreter(after) as two:
        for _ in range(REPLAYS):
            expected, found = one.run(inputs), two.run(inputs)
            assert expected.keys() == found.keys()
            assert all(np.array_equal(expected[of], found[of]) for of in expected)
        apart = np.flatnonzero(np.asarray(one.memory) != np.asarray(two.memory))
    for job in watched(before, inputs).jobs:
        for frame, flags in job.accesses.items():
            inside = apart[apart // PAGE_BYTES == frame] % PAGE_BYTES
            assert not (flags[inside] & ACCESS_READ_FIRST).any()
    return len(apart)
