# SPDX-License-Identifier: BSD-2-Clause
"""Raw traces of GPUs whose jobs are started by registers: every access and interrupt stands in them."""

from __future__ import annotations

from host_tools.families.conversion import IRQ_TIMEOUT_US, Conversion
from host_tools.families.family import family_of
from host_tools.record.building import Builder
from host_tools.vgpu import capture
from trace_format.actions import ALL_BITS, Action, Actions, Op, action, array_of
from trace_format.profile import Profile
from trace_format.schema import PAGE_BYTES

COMPUTE = 0  # kind of job


class RegisterJobs(Builder):
    """See `Builder`."""

    def __init__(self, gpu: Profile, registers: Conversion, ram_end: int) -> None:
        super().__init__(gpu, registers, ram_end)
        self.first_written = family_of(gpu).first_written
        self.latest_start = -1  # index of the write that started the latest job

    def take(self, at: int, event: capture.Event) -> None:
        """See `Builder.take`."""
        if event.delta_ns >= 1000 and self.actions:
            self.actions.append(action(Op.INTERVAL, us=min(event.delta_ns // 1000, ALL_BITS)))
        match event:
            case capture.Interrupt(level=True):
                self.actions.append(action(Op.WAIT_IRQ, line=event.line, timeout_us=IRQ_TIMEOUT_US))
                self.actions.append(action(Op.IRQ_ENTER, line=event.line))
            case capture.Interrupt():
                self.actions.append(action(Op.IRQ_EXIT, line=event.line))
            case capture.JobStart():
                self._job(at, event.kind)
            case capture.End():
                self.end = event
            case capture.Read() | capture.Write() | capture.JobEnd():
                pass
            case _:
                self.take_memory(at, event)
        self.registers.take_event(at, event)

    def place(self, event: capture.Map, flags: int) -> int:
        """See `Builder.place`."""
        return self.next_place(event, flags) if self.registers.new_layout else event.pa // PAGE_BYTES

    def _job(self, where: int, kind: int) -> None:
        """What the job finds in memory goes before the register write that started it: where a replay begins, and
        for a Mali always, before all writes that describe it."""
        starts = {job.start.name for job in self.gpu.jobs}
        if kind == COMPUTE:
            starts &= self.first_written.keys()
        at = start = self._last_write(where, starts)
        if kind == COMPUTE and (not self.replay_started or self.registers.new_layout):
            started = self.gpu.by_offset[self.actions[start].register * 4].name
            at = self._last_write(where, {self.first_written[started]})
        before = self._memory_for(where)
        if kind == COMPUTE:
            before.append(action(Op.JOB, number=self.jobs))
            self.jobs += 1
        self.actions[at:at] = before
        self.latest_start = start + len(before)

    def _memory_for(self, where: int) -> list[Action]:
        if self.registers.new_layout and len(set(self.physical.values())) != len(self.physical):
            raise capture.CaptureError("a page of memory is mapped at two GPU addresses", offset=where)
        return self.memory_before()

    def _last_write(self, where: int, names: set[str]) -> int:
        """Index of the latest write to any of these registers, for the job at `where` in the capture."""
        registers = {self.gpu.register(name).index for name in names}
        for i in range(len(self.actions) - 1, self.latest_start, -1):
            if self.actions[i].op == Op.REG_WRITE and self.actions[i].register in registers:
                return i
        found = " or ".join(sorted(names))
        raise capture.CaptureError(f"a job starts, but nothing was written to {found}", offset=where)

    def finish(self) -> tuple[Actions, bytes, int]:
        """See `Builder.finish`."""
        self.registers.finish()
        if not self.registers.new_layout:
            return array_of(self.actions), bytes(self.image), self.ram_end
        return self.laid_out([])
