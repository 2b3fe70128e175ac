# SPDX-License-Identifier: BSD-2-Clause
"""Time of a Mali's compute jobs by resource. What the constants are and whence: timing.toml."""

from __future__ import annotations

import re

from host_tools.families.timing import Parts, Values
from host_tools.vgpu.binding import Dispatch
from trace_format.actions import Op, actions_of
from trace_format.trace import Trace

_AFFINITY = re.compile(r"js\d+\.AFFINITY_NEXT_LO")
_PRESENT = "gpu.SHADER_PRESENT_LO"

LINE_BYTES = 64


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


def untimed(trace: Trace) -> str:
    """Why the constants, which are of all cores, do not hold: a job that runs on some of them; "": none does."""
    registers = trace.profile.registers
    every = registers[_PRESENT].reset
    masks = {register.index for name, register in registers.items() if _AFFINITY.fullmatch(name)}
    for number, row in enumerate(actions_of(trace.actions)):
        if row.op == Op.REG_WRITE and row.register in masks and ~row.value & row.mask & every:
            return f"action {number}: a job on cores {row.value & every:#x} of {every:#x}; estimates are of all"
    return ""
