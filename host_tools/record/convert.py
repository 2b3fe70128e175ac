"""From a capture of the recorder in the device to a raw trace.

Nothing is left out: every register access, interrupt and memory change stands in the raw trace, in order.
A raw trace's carve-out offsets are the guest's physical addresses, so its carve-out reaches from 0 to the end
of the guest's RAM; the image must end below the RAM.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from host_tools.record import capture
from host_tools.record.errors import RecordError
from trace_format import profile
from trace_format.actions import ACTION_DTYPE, ALL_BITS, MAP_EXECUTE, MAP_READ, MAP_WRITE, Op, action, va_operands
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Trace

IRQ_TIMEOUT_US = 5_000_000  # ten times the 500 ms after which the Linux driver calls a job hung (v3d_sched.c)
COMPUTE = 0  # kind of job


def convert(path: Path, *, ram_end: int, meta: dict[str, Any], notes: dict[str, Any]) -> Trace:
    """Turn a capture into a raw trace.

    Args:
        path: the capture.
        ram_end: first physical address behind the guest's RAM, in bytes.
        meta: texts of the manifest (name, recorder, kernel, driver, framework).
        notes: provenance for people.

    Raises:
        RecordError: no compute job was submitted, or the GPU failed, faulted or was reset while recording.
    """
    builder = _Builder(path)
    for event in capture.read_capture(path):
        builder.take(event)
    end = builder.end
    if end is None or end.failed:
        raise RecordError(f"{path}: the virtual GPU failed while recording")
    if end.counters["faults"]:
        raise RecordError(f"{path}: the GPU raised {end.counters['faults']} MMU faults while recording")
    if builder.jobs == 0:
        raise RecordError(f"{path}: no GPU job was submitted; did the program fall back to the CPU?")
    if builder.jobs != end.counters["jobs"]:
        raise RecordError(
            f"{path}: {builder.jobs} jobs were started, {end.counters['jobs']} completed: the GPU hung"
        )
    return Trace(
        gpu=builder.gpu.name,
        actions=np.array(builder.actions, dtype=ACTION_DTYPE),
        image=bytes(builder.image),
        carveout_bytes=ram_end,
        va_bytes=1 << builder.gpu.mmu["va_bits"],
        meta=meta,
        notes=notes,
        raw=True,
    )


class _Builder:
    """Turns events into actions, one after the other."""

    def __init__(self, path: Path) -> None:
        self.gpu = profile.load(capture.read_header(path).gpu)
        self.driver_registers = {r.offset: r.name for r in self.gpu.registers.values() if r.driver}
        self.actions: list[np.void] = []
        self.memory: list[np.void] = []  # what must happen before the next job
        self.image = bytearray()
        self.frames: dict[int, int] = {}  # GPU page -> physical page
        self.contents: dict[int, int] = {}  # content id -> offset in the image
        self.jobs = 0
        self.replay_started = False
        self.end: capture.End | None = None

    def take(self, event: capture.Event) -> None:
        """Add what an event means."""
        if event.delta_ns >= 1000 and self.actions:
            self.actions.append(action(Op.INTERVAL, value=min(event.delta_ns // 1000, ALL_BITS)))
        match event:
            case capture.Read():
                self.actions.append(action(Op.REG_READ_ONCE, arg=event.offset // 4, value=event.value, a=ALL_BITS))
            case capture.Write():
                self._write(event)
            case capture.Interrupt(level=True):
                self.actions.append(action(Op.WAIT_IRQ, arg=event.line, value=IRQ_TIMEOUT_US))
                self.actions.append(action(Op.IRQ_ENTER, arg=event.line))
            case capture.Interrupt():
                self.actions.append(action(Op.IRQ_EXIT, arg=event.line))
            case capture.JobStart():
                self._job(event.kind)
            case capture.End():
                self.end = event
            case capture.JobEnd():
                pass
            case _:
                self._memory(event)

    def _write(self, event: capture.Write) -> None:
        name = self.driver_registers.get(event.offset)
        if name is None:
            self.actions.append(action(Op.REG_WRITE, arg=event.offset // 4, value=event.value, a=ALL_BITS))
        elif name == self.gpu.mmu["base"]:
            self.actions.append(action(Op.SET_GPU_PGTABLE, arg=0))
        # The other ones carry addresses of the recorded machine; the replayer's driver writes its own.

    def _memory(self, event: capture.Event) -> None:
        add = self.memory.append
        match event:
            case capture.Map():
                flags = MAP_READ | MAP_EXECUTE | (MAP_WRITE if event.writable else 0)
                frame = event.pa // PAGE_BYTES
                add(action(Op.MAP_GPU_MEM, flags=flags, value=event.pages, b=frame, **va_operands(0, event.page)))
                self.frames |= {event.page + i: frame + i for i in range(event.pages)}
            case capture.Unmap():
                add(action(Op.UNMAP_GPU_MEM, value=event.pages, **va_operands(0, event.page)))
            case capture.ZeroPages():
                for page in range(event.page, event.page + event.pages):
                    add(action(Op.CLEAR, value=PAGE_BYTES, a=self.frames[page] * PAGE_BYTES))
            case capture.NewPage():
                self.contents[event.content] = self._append(event.data)
                self._upload(event.page * PAGE_BYTES, self.contents[event.content], PAGE_BYTES)
            case capture.KnownPage():
                self._upload(event.page * PAGE_BYTES, self.contents[event.content], PAGE_BYTES)
            case capture.Bytes():
                self._upload(event.va, self._append(event.data), len(event.data))
            case _:
                raise AssertionError(f"unhandled event {event}")

    def _append(self, data: bytes) -> int:
        at = len(self.image)
        self.image += data
        return at

    def _upload(self, va: int, source: int, size: int) -> None:
        to = self.frames[va // PAGE_BYTES] * PAGE_BYTES + va % PAGE_BYTES
        self.memory.append(action(Op.UPLOAD, value=size, a=to, b=source))

    def _job(self, kind: int) -> None:
        """What the job finds in memory goes before the register write that started it."""
        starts = {job.start.index for job in self.gpu.jobs}
        at = next(
            i
            for i in range(len(self.actions) - 1, -1, -1)
            if int(self.actions[i]["op"]) == Op.REG_WRITE and int(self.actions[i]["arg"]) in starts
        )
        before = self.memory
        self.memory = []
        if not self.replay_started:
            # The first memory that any job sees begins the part that every replay repeats.
            maps = [row for row in before if int(row["op"]) == Op.MAP_GPU_MEM]
            fills = [row for row in before if int(row["op"]) != Op.MAP_GPU_MEM]
            before = [*maps, action(Op.REPLAY_START), *fills]
            self.replay_started = True
        if kind == COMPUTE:
            before.append(action(Op.JOB, value=self.jobs))
            self.jobs += 1
        self.actions[at:at] = before
