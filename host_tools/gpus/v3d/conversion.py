# SPDX-License-Identifier: BSD-2-Clause
"""What the register accesses of a V3D become that our recorder saw: those of Linux's v3d driver."""

from __future__ import annotations

from typing import Any, ClassVar

from host_tools.vgpu import capture
from trace_format.actions import ALL_BITS, Action, Op, action
from trace_format.profile import Profile


class Registers:
    """Every access is one action, except for registers that the replayer's driver writes."""

    new_layout = False
    space = 0
    meta: ClassVar[dict[str, Any]] = {}

    def __init__(self, gpu: Profile) -> None:
        self.base = gpu.register(gpu.mmu["base"]).offset
        self.driver_registers = {register.offset for register in gpu.registers.values() if register.driver}
        self.actions: list[Action] = []

    def take_event(self, at: int, event: capture.Event) -> None:
        """Add what an access means."""
        match event:
            case capture.Read(offset=offset, value=value):
                self.actions.append(action(Op.REG_READ_ONCE, register=offset // 4, expected=value, mask=ALL_BITS))
            case capture.Write(offset=offset, value=value) if offset not in self.driver_registers:
                self.actions.append(action(Op.REG_WRITE, register=offset // 4, value=value, mask=ALL_BITS))
            case capture.Write(offset=offset) if offset == self.base:
                self.actions.append(action(Op.SET_GPU_PGTABLE, address_space=0))
            # The other ones carry addresses of the recorded machine; the replayer's driver writes its own.

    def flush_tables(self) -> list[Action]:
        """None: the recorded flush stays before the job, too; a trace that is built maps all at once."""
        return []

    def finish(self) -> None:
        """Nothing is left to do."""
