# SPDX-License-Identifier: BSD-2-Clause
"""Jobs that need more memory at once than there is become several, each of which needs a part of the weights.

How one is cut, and what shows that its pieces do the same: host_tools/passes/cutting.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from host_tools.families.page_tables import DivergenceError
from host_tools.families.speed import speed_of
from host_tools.passes.cut_actions import jobs_in, with_pieces
from host_tools.passes.cutting import Parts, divide, job_places, shown
from host_tools.passes.program import Program
from host_tools.vgpu.binding import VgpuError


def cut_for_memory(program: Program, wanted: Mapping[int, int]) -> dict[int, str]:
    """Cut jobs into as many pieces as are wanted, or as there can be.

    Args:
        wanted: number of a job -> pieces.

    Returns:
        Why jobs stay whole, or do not become so many.
    """
    trace = program.finish(sheet=program.on_sheet)
    cutting = speed_of(trace.profile).cutting
    if isinstance(cutting, str):
        return dict.fromkeys(wanted, cutting)
    found = jobs_in(trace)
    parts: Parts = {}
    whys = {
        number: divide(trace, cutting, found[number], parts, number, count) for number, count in wanted.items()
    }
    try:
        shown(trace, cutting, found, parts, whys)
    except (DivergenceError, VgpuError) as error:
        return dict.fromkeys(wanted, f"its jobs cannot be counted: {error}")
    if parts:
        program.cut([place.stop - place.start for place in job_places(parts, len(found))])
        after = with_pieces(trace, cutting, found, parts)
        program.actions = after.actions
        program.replace(notes=after.notes)
    return {number: why for number, why in whys.items() if why}
