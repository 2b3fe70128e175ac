# SPDX-License-Identifier: BSD-2-Clause
"""What a recording will be, said before anything boots: jobs, sizes, and minutes by a rough model, times how slow
this machine is just now.

Jobs are counted, not estimated: of a compiled plan its calls, of ncnn's network the dispatches that ncnn's own
code submits to a driver that computes nothing (`ncnn/dispatches.py`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

# Seconds on two cores, fitted to the times of docs/BREADTH.md ("recorded in"): a job in all runs, a thousand
# million multiplications by the virtual GPU in all runs, and 100 MB of constants through them.
JOB_S, GMAC_S, HUNDRED_MB_S = 0.2, 90.0, 60.0
PAGES = 1 << 20  # of page tables, code and command streams
ADDITIONS, IDLE_S = 6_000_000, 0.26  # a calculation, and its seconds on that machine when nothing else ran


def slowness() -> float:
    """Seconds that pass here while a processor of the machine of the fit, with nothing else to do, needs one."""
    start = time.monotonic()
    total = 0
    for number in range(ADDITIONS):
        total += number
    return (time.monotonic() - start) / IDLE_S


@dataclass(frozen=True)
class Foreseen:
    """A recording that could be made.

    Attributes:
        by: who makes its GPU code.
        inputs: name -> element type, and shape, as the recording will have them.
        jobs: of the GPU; None: nothing here can count them.
        constant_bytes: weights and other constants, most of the recording's and the trace's size.
        work_bytes: inputs, outputs and what jobs hand each other; None: not known before `build`.
        macs: multiplications with additions, of convolutions and products; the rest is not counted.
        start_s: seconds for what does not depend on the network: the guest, comparisons.
    """

    by: str
    inputs: Mapping[str, tuple[str, tuple[int, ...]]]
    jobs: int | None
    constant_bytes: int
    work_bytes: int | None
    macs: int
    start_s: float

    @property
    def secure_bytes(self) -> int | None:
        """About what a device's carve-out must hold."""
        return None if self.work_bytes is None else self.constant_bytes + self.work_bytes + PAGES

    @property
    def seconds(self) -> float | None:
        """About how long the recording takes on two idle cores as those of the fit, once the network is compiled;
        None where jobs are not known."""
        if self.jobs is None:
            return None
        work = JOB_S * self.jobs + GMAC_S * self.macs / 1e9 + HUNDRED_MB_S * self.constant_bytes / 1e8
        return self.start_s + work
