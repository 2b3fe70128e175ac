# SPDX-License-Identifier: BSD-2-Clause
"""The pass that makes command streams straight; the pipeline runs it (host_tools/passes)."""

from __future__ import annotations

from host_tools.families.page_tables import DivergenceError
from host_tools.gpus.mali_csf.judging import is_straight
from host_tools.gpus.mali_csf.straight import straighten
from host_tools.passes.program import Program
from host_tools.passes.registry import program_pass
from host_tools.vgpu.binding import VgpuError
from trace_format.errors import TraceError


@program_pass("straight-streams")
def make_straight(program: Program) -> None:
    """Write what each dispatch finds in its registers into one stream a job; leave out what decides that.

    Raises:
        TraceError: a stream cannot be made straight, or the recording does not run.
    """
    trace = program.trace()
    if is_straight(trace):
        return
    try:
        made = straighten(trace).trace
    except (DivergenceError, VgpuError) as error:
        raise TraceError(f"its command streams cannot be made straight: {error}") from None
    program.replace(image=made.image, carveout_bytes=made.carveout_bytes)
    program.actions = made.actions


PASSES = (make_straight,)
