# SPDX-License-Identifier: BSD-2-Clause
"""Time of a V3D's compute dispatches by resource. What the constants are and whence: timing.toml."""

from __future__ import annotations

from host_tools.families.timing import Parts, Values
from host_tools.vgpu.binding import Dispatch

CLOCKS_AN_INSTRUCTION = 4  # 16 lanes on a QPU's four (timing.toml, qpus)


def time_parts(row: Dispatch, values: Values) -> Parts:
    """A dispatch's time by resource.

    Batches go to the QPUs in turn, so the fullest one has ceil(batches / QPUs); few batches keep few slices' TMUs
    busy. A loaded line costs the clocks of where it was found; a stored one those of a store.
    """
    mhz, qpus = values["clock"], values["qpus"]
    fullest = -(-row.groups // int(qpus)) / max(row.groups, 1)
    slices = max(1.0, min(values["slices"], row.groups))
    hits = row.loaded_lines - row.first_misses
    behind = row.first_misses - row.second_misses
    clocks = hits * values["hit"] + behind * values["behind"] + row.stored_lines * values["store"]
    return Parts(
        start=values["start"],
        issue=row.instructions * CLOCKS_AN_INSTRUCTION * fullest / mhz,
        lines=clocks / slices / mhz,
        memory=row.second_misses * values["load"] / slices / mhz,
    )
