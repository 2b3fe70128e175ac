# SPDX-License-Identifier: BSD-2-Clause
"""What register accesses of a Mali become that our recorder saw: those of Linux's panfrost driver.

As with Arm's driver (kbase.py), with these differences. Interrupts and each job's memory are known, so nothing is
inferred. Tables may have either format: mappings come from the recorder's walk, and the replayer's driver builds
tables of its own. And a job's memory is put in place right before the job, later than the CPU wrote it: the flush
id, which says since when caches need no flush, is read there too.
"""

from __future__ import annotations

from typing import Any

from host_tools.gpus.mali import kbase
from host_tools.gpus.mali.job_manager import LOCK_ALL, SpaceCommand, carried_out, idle
from host_tools.gpus.mali.mali_tables import FORMATS
from host_tools.vgpu import capture
from trace_format.actions import ALL_BITS, Action, Op, action
from trace_format.profile import Profile

ASLEEP = 0  # flush id of a job that was made while the GPU was off (Linux panfrost_gpu.c): nothing to flush, then


class Registers(kbase.Converter):
    """Turns accesses into actions, until the driver closes down."""

    new_layout = True

    def __init__(self, gpu: Profile) -> None:
        super().__init__(gpu)
        self.formats = list(FORMATS.values())
        self.actions = self.stream.actions  # the builder adds to them too
        self.running = False
        self.served: int | None = None  # number of actions when the end of the latest job had been dealt with
        self.lines = [False] * len(gpu.interrupts)

    def take_event(self, at: int, event: capture.Event) -> None:
        """Add what an access means; follow interrupts and jobs, whose own actions the builder adds.

        Args:
            at: where the event stands in the capture, in bytes.
            event: the event.

        Raises:
            AccessError: a register or access that the GPU does not have, or one that cannot be replayed.
        """
        match event:
            case capture.Read() | capture.Write():
                self._access(at, event)
            case capture.Interrupt():
                self.lines[event.line] = event.level
            case capture.JobStart() | capture.JobEnd():
                self.running = isinstance(event, capture.JobStart)
                self.served = None
                return
        # A job has been dealt with when interrupts are inactive and unmasked again.
        if self.served is None and not self.running and not any(self.lines) and self.written.get("job.IRQ_MASK"):
            self.served = len(self.actions)

    def _access(self, at: int, event: capture.Read | capture.Write) -> None:
        write = isinstance(event, capture.Write)
        register = kbase.find(self.gpu, event.offset, write)
        if isinstance(register, str):
            raise kbase.AccessError(register, offset=at)
        access = kbase.Access(at, 0, write, register, event.value)
        if write:
            self.write(access)
        else:
            self.read(access)

    @property
    def space(self) -> int:
        """Address space of the latest job."""
        return self.stream.chains[-1].space if self.stream.chains else 0

    @property
    def meta(self) -> dict[str, Any]:
        """What the accesses say for the manifest."""
        return {"core_mask": self.stream.cores}

    def flush_tables(self) -> list[Action]:
        """Actions that make the GPU see mappings that changed: those of panfrost, over all addresses. Its own came
        when the driver had changed them; in the trace that is before they change, for memory is put in place right
        before the job."""
        space = f"as{self.space}"
        low, high = (self.gpu.register(f"{space}.LOCKADDR_{half}").index for half in ("LO", "HI"))
        return [
            idle(self.gpu.register(f"{space}.STATUS")),
            action(Op.REG_WRITE, register=low, value=LOCK_ALL, mask=ALL_BITS),
            action(Op.REG_WRITE, register=high, value=0, mask=ALL_BITS),
            *carried_out(self.gpu, self.space, SpaceCommand.LOCK),
            *carried_out(self.gpu, self.space, SpaceCommand.FLUSH_PT),
        ]

    def finish(self) -> None:
        """Leave out what the driver did after the last job: it takes the GPU's page table and power away, which
        the next replay needs.

        Raises:
            AccessError: it had not dealt with the last job's end, or jobs ran in several address spaces.
        """
        spaces = sorted({chain.space for chain in self.stream.chains})
        if len(spaces) > 1:
            raise kbase.AccessError("jobs in several address spaces", expected="one", found=spaces)
        if self.served is None:
            raise kbase.AccessError("the recording ends before the driver has dealt with the end of the last job")
        del self.actions[self.served :]

    def read(self, access: kbase.Access) -> None:
        """Add what a read means."""
        register = access.register
        if register.name == "gpu.LATEST_FLUSH":
            self.flush_ids.add(access.value)
            return
        mask = ALL_BITS
        if register is self.gpu.identity:  # machines that the profile takes for one may differ in other bits
            mask = self.gpu.identity_mask | ((1 << self.gpu.revision.bits) - 1) << self.gpu.revision.shift
        self._add(Op.REG_READ_ONCE, arg=register.index, value=access.value & mask, a=mask)

    def _flush_id(self, access: kbase.Access) -> None:
        self.flush_ids.add(ASLEEP)
        self._add(Op.REG_READ_KEEP, arg=self.gpu.register("gpu.LATEST_FLUSH").index, b=kbase.FLUSH_ID)
        super()._flush_id(access)

    def _submit(self, access: kbase.Access, block: str) -> None:
        self._note_chain(access, block)
