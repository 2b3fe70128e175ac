# SPDX-License-Identifier: BSD-2-Clause
"""Time of a Mali's compute jobs by resource. What the constants are and whence: timing.toml."""

from __future__ import annotations

import re

from host_tools.families.kernel_costs import KernelCosts
from host_tools.families.timing import Parts, Timing, Values
from host_tools.gpus.mali.job_manager import starts_chain
from host_tools.vgpu.binding import Dispatch
from trace_format.actions import Op, actions_of
from trace_format.trace import Trace

_AFFINITY = re.compile(r"js\d+\.AFFINITY_NEXT_LO")
_PRESENT = "gpu.SHADER_PRESENT_LO"

LINE_BYTES = 64

# By timing.toml's constants and the code of pointwise layers: a load is five tuples, four of them for its address.
# Of a thread's 64 registers, 48 are for values that it holds: with 56, one schedule of a pointwise layer went 15
# times as often to memory. Eight rows of packed numbers spill, six do not.
# A G71's and a G72's instructions have four lanes.
KERNEL_COSTS = KernelCosts(
    lanes=8, registers=48, load=5.2, issue=1 / 3, line=7.7, word=0.5, store=7.7 + 6.8, group=31.9, rows=6
)


def time_parts(row: Dispatch, values: Values) -> Parts:
    """A job's time by resource: every core does its share of the threads."""
    clocks = values["cores"] * values["clock"]  # in a microsecond, of all cores
    misses = row.second_misses + row.stored_misses
    return Parts(
        start=values["start"],
        workgroups=row.workgroups * values["workgroup"] / clocks,
        issue=row.instructions / values["engines"] / clocks,
        lines=(row.loaded_lines + row.stored_lines) * values["line"] / clocks,
        words=(row.loaded_words + row.stored_words) * values["word"] / clocks,
        misses=(row.first_misses + row.stored_lines) * values["miss"] / clocks,
        memory=misses * LINE_BYTES / (values["bandwidth"] * 1e3),
    )


def on_cores(row: Dispatch, values: Values, cores: int) -> Values:
    """The constants for a dispatch that runs on so many cores (`Timing.on_cores`).

    A workgroup runs on one core, so no dispatch uses more cores than it has workgroups: on a share it takes longer
    by the cores that it loses of those that it can use. Memory is as fast as for all, which is too good where
    others use it meanwhile.
    """
    every, useful = values["cores"], max(1, row.workgroups)
    return {**values, "cores": every * min(cores, useful, every) / min(every, useful)}


def job_cores(trace: Trace) -> list[int]:
    """On how many cores jobs run (`Timing.job_cores`): of one that starts several chains, on the least."""
    registers = trace.profile.registers
    every = registers[_PRESENT].reset
    masks = {register.index: name[:3] for name, register in registers.items() if _AFFINITY.fullmatch(name)}
    starts = {job.start.index: job.start.name[:3] for job in trace.profile.jobs}
    on: dict[str, int] = {}
    found: list[int] = []
    for row in actions_of(trace.actions):
        if row.op == Op.JOB:
            found.append(0)
        elif row.op != Op.REG_WRITE:
            continue
        elif row.register in masks:
            on[masks[row.register]] = row.value & row.mask
        elif row.register in starts and found and starts_chain(row.value, row.mask):
            cores = on.get(starts[row.register], every) & every
            if cores != every:
                found[-1] = min(cores.bit_count(), found[-1] or every.bit_count())
    return found


TIMING = Timing(time_parts, on_cores, job_cores)
