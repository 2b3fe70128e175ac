# SPDX-License-Identifier: BSD-2-Clause
"""Time of a V3D's compute dispatches by resource. What the constants are and whence: timing.toml."""

from __future__ import annotations

from host_tools.families.kernel_costs import KernelCosts
from host_tools.families.timing import Parts, Timing, Values
from host_tools.vgpu.binding import Dispatch

CLOCKS_AN_INSTRUCTION = 4  # 16 lanes on a QPU's four (timing.toml, qpus)

# Fitted by eye to the counts of 25 schedules of one of MobileNet's pointwise kernels, of a V3D 4.2: eight QPUs,
# two units that load. Mesa's scheduler puts what needs a value right behind it only if 48 are live (v3d_compiler,
# nir_schedule's threshold); else sums come after all products, which then lie in registers, of which an
# instruction reads two. Four rows of 4-bit numbers spill, three do not: all words are unfolded first.
KERNEL_COSTS = KernelCosts(
    lanes=16,
    registers=52,
    load=3.3,
    issue=4 / 8,
    line=2.0 / 2,
    store=17 / 2,
    apart=1.6,
    both_at_once=48,
    units=8,
    rows=3,
)


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


TIMING = Timing(time_parts)
