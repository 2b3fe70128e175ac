# SPDX-License-Identifier: BSD-2-Clause
"""Registers that one network leaves, and another finds: real networks mind none."""

from __future__ import annotations

from host_tools.extras.sharing import joining
from host_tools.model.left_registers import left_registers
from tests.support import replayer_samples as s
from tests.vgpu.test_joined import FOUR, joint
from trace_format.actions import Op, action
from trace_format.trace import Trace


def both(*values: int, anew: bool = False) -> list[tuple[str, str, str]]:
    """Two networks that write values to a register in their replays, after a job or before it."""
    rows = []
    for name, value in zip("ab", values, strict=True):
        write = [s.write("core0.CTL_L2TFLSTA", value)]
        replay = [*write, *s.REPLAY] if anew else [*s.REPLAY, *write]
        first = action(Op.WAIT_IRQ, line=0, timeout_us=9)
        actions = [*s.PROLOGUE, *replay] if anew else [*s.PROLOGUE, first, *replay]
        rows.append(joining.Joining(name, s.trace(*actions)))
    trace: Trace = joining.joint(rows, "x").trace
    return [(own.name, other.name, register) for own, other, register in left_registers(trace)]


def test_what_differs_is_named() -> None:
    name = "core0.CTL_L2TFLSTA"
    found = both(0, 64)
    assert [row for row in found if row[2] == name] == [("a", "b", name), ("b", "a", name)]
    assert not [row for row in both(64, 64) if row[2] == name]
    assert not [row for row in both(0, 64, anew=True) if row[2] == name]


def test_recordings_of_one_kernel_leave_the_same() -> None:
    assert not list(left_registers(joint(FOUR).trace))
    assert not list(left_registers(s.joint()))
