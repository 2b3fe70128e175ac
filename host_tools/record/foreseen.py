# SPDX-License-Identifier: BSD-2-Clause
"""What a recording will be, said before anything boots: jobs, sizes, and minutes by a rough model, times how slow
this machine is just now.

Jobs and work are counted, not estimated: in a compiled plan its calls and kernels, of ncnn's network the
dispatches that ncnn's own code submits to a driver that computes nothing (`ncnn/dispatches.py`).
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from host_tools.record.compiled.plan import Plan

# Seconds on two cores with nothing else to do, for a V3D 4.2: fitted to the phases of 17 recordings of
# tests/bench/foreseen.py by tinygrad, and of three by ncnn (LeNet, SqueezeNet, wake-alexa).
PLAN_S = 5.5  # the command, one boot, ONNX Runtime
CHARACTER_S = 9.3e-5  # of a kernel: glslang, lavapipe and the guest's driver compile it
WAITING_S = 1.6e-4  # more, where threads wait for each other: lavapipe makes coroutines of them
BOUNDED_S = 0.1  # a load behind a condition: the guest's driver runs out of registers, and compiles again
CALL_S = 0.1  # a job: its registers are recorded, replayed twice and named, however small its kernel is
MOST_BOUNDED = 32  # in a kernel: the driver has a few ways to compile it again, and then is done
ACCESS_S = 1.7e-8  # to an element by a thread: lavapipe, the recording, and what checks and names its jobs
NCNN_S = 45.0  # a boot that compiles ncnn's shaders, and three boots after it, two at a time
JOB_S, GMAC_S = 0.2, 90.0  # by ncnn; the latter of a thousand million multiplications with additions
PAGES = 1 << 20  # of page tables, code and command streams
ADDITIONS, IDLE_S = 6_000_000, 0.26  # a calculation, and its seconds on that machine when nothing else ran
UNROLLED = 4  # rounds up to which the driver writes a loop's body out
_ROUNDS = re.compile(r"\bfor \(.* < (\d+);")
_ITEMS = re.compile(r"local_size_[xyz] = (\d+)")


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
        seconds: about how long the recording takes on two idle cores as those of the fit, once the network is
            compiled; None where jobs are not known.
    """

    by: str
    inputs: Mapping[str, tuple[str, tuple[int, ...]]]
    jobs: int | None
    constant_bytes: int
    work_bytes: int | None
    seconds: float | None

    @property
    def secure_bytes(self) -> int | None:
        """About what a device's carve-out must hold."""
        return None if self.work_bytes is None else self.constant_bytes + self.work_bytes + PAGES


def of_plan(plan: Plan) -> float:
    """Seconds for a plan, as `Foreseen` has them."""
    counts = [_counted(kernel) for kernel in plan.kernels]
    text = sum(len(kernel) * (CHARACTER_S + WAITING_S * ("barrier()" in kernel)) for kernel in plan.kernels)
    bounded = sum(min(loads, MOST_BOUNDED) for _, loads in counts)
    accesses = sum(prod(call.groups) * counts[call.kernel][0] for call in plan.calls)
    return PLAN_S + text + BOUNDED_S * bounded + CALL_S * len(plan.calls) + ACCESS_S * accesses


def by_ncnn(jobs: int, macs: int) -> float:
    """Seconds for a network that ncnn was not asked to record before.

    Args:
        jobs: as `Foreseen`.
        macs: multiplications with additions, of convolutions and products; the rest is not counted.
    """
    return NCNN_S + JOB_S * jobs + GMAC_S * macs / 1e9


def _counted(kernel: str) -> tuple[int, int]:
    """Accesses to elements by a workgroup, and loads behind a condition in what the driver compiles."""
    accesses = bounded = 0
    around = [(1, 1)]  # how often what follows is run, and how often it is compiled, in each block
    for line in kernel.splitlines():
        rounds = int(found[1]) if (found := _ROUNDS.search(line)) else 1
        run, compiled = around[-1]
        accesses += run * line.count("[")
        bounded += compiled * line.count("= mix(")
        around += [(run * rounds, compiled * (rounds if rounds <= UNROLLED else 1))] * line.count("{")
        del around[len(around) - line.count("}") :]
    return accesses * prod(map(int, _ITEMS.findall(kernel))), bounded
