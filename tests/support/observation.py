# SPDX-License-Identifier: BSD-2-Clause
"""Programs as passes see them that ask what jobs access."""

from __future__ import annotations

import itertools

from host_tools.passes.listing import PASSES
from host_tools.passes.program import Program
from trace_format.trace import Trace


def before_observation(trace: Trace) -> Program:
    """The program that a recording is when the first pass asks what its jobs access."""
    program = Program(trace)
    for item in itertools.takewhile(lambda item: item.name != "read-only", PASSES.values()):
        if item.is_for(program.profile):
            item.edit(program)
    return program
