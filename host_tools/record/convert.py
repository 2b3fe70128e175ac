# SPDX-License-Identifier: BSD-2-Clause
"""From a capture of the recorder in the device to a raw trace.

Nothing is left out: every register access, interrupt and memory change stands in the raw trace, in order (of a
Mali: until its driver closes down, gpus/mali/panfrost.py). Of a GPU with command streams neither register accesses
nor interrupts are in it, but calls of streams.

Of a V3D, carve-out offsets are the guest's physical addresses, so that the carve-out reaches from 0 to the end of
the guest's RAM; the image must end below the RAM. Of a Mali, memory gets a new layout after the image: what is
consecutive for the GPU is so in the carve-out too, for passes take that for one buffer (build/job_chains.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from host_tools.families.conversion import IRQ_TIMEOUT_US, CallConversion
from host_tools.families.family import family_of, profile_of
from host_tools.machine.errors import RecordError
from host_tools.record.list_marks import mark_lists
from host_tools.vgpu import capture
from trace_format import layout
from trace_format.actions import (
    ALL_BITS,
    MAP_EXECUTE,
    MAP_READ,
    MAP_WRITE,
    Action,
    Actions,
    Op,
    Type,
    action,
    array_of,
    rewritten,
)
from trace_format.schema import MAX_CARVEOUT_BYTES, PAGE_BYTES
from trace_format.trace import Trace

COMPUTE = 0  # kind of job
MAX_PAGES = MAX_CARVEOUT_BYTES // PAGE_BYTES


def convert(path: Path, *, ram_end: int, meta: dict[str, Any], notes: dict[str, Any]) -> Trace:
    """Turn a capture into a raw trace.

    Args:
        path: the capture.
        ram_end: first physical address after the guest's RAM, in bytes.
        meta: texts of the manifest (name, recorder, kernel, driver, framework).
        notes: provenance for people.

    Raises:
        RecordError: no compute job was submitted, or the GPU failed, faulted or hung while recording.
        TraceError: a damaged capture, or register accesses that cannot be replayed.
    """
    builder = _Builder(path, ram_end)
    with layout.naming(str(path)):
        for at, event in capture.read_records(path):
            builder.take(at, event)
    end = builder.end
    if end is None or end.failed:
        raise RecordError(f"{path}: the virtual GPU failed while recording")
    if end.counters["faults"]:
        raise RecordError(f"{path}: the GPU raised {end.counters['faults']} MMU faults while recording")
    if builder.jobs == 0:
        raise RecordError(f"{path}: no GPU job was submitted; the program may have used the CPU")
    if builder.jobs != end.counters["jobs"]:
        raise RecordError(
            f"{path}: {builder.jobs} jobs were started, {end.counters['jobs']} completed: others failed or hung"
        )
    with layout.naming(str(path)):
        actions, image, carveout_bytes = builder.finish()
    trace = Trace(
        gpu=builder.gpu.name,
        actions=actions,
        image=image,
        carveout_bytes=carveout_bytes,
        va_bytes=1 << builder.gpu.mmu["va_bits"],
        meta={**builder.registers.meta, **meta},
        notes=notes,
        raw=True,
    )
    return mark_lists(trace)


class _Builder:
    """Turns events into actions, one after the other."""

    def __init__(self, path: Path, ram_end: int) -> None:
        self.ram_end = ram_end
        self.gpu = profile_of(capture.read_header(path).gpu)
        family = family_of(self.gpu)
        self.registers = family.conversion(self.gpu)
        self.calls = self.registers if isinstance(self.registers, CallConversion) else None
        self.first_written = family.first_written
        self.actions = self.registers.actions
        self.memory: list[Action] = []  # what must happen before the next job
        self.image = bytearray()
        self.mapped: dict[int, tuple[int, int]] = {}  # GPU page -> page in the carve-out and MAP_* flags
        self.mapped_first: dict[int, tuple[int, int]] = {}  # as the first job finds it
        self.physical: dict[int, int] = {}  # GPU page -> page of the guest's
        self.next_frame = 0
        self.next_page: tuple[int, int] | None = None  # page and flags that would go on with what was mapped last
        self.contents: dict[int, int] = {}  # content id -> offset in the image
        self.jobs = 0
        self.replay_started = False
        self.latest_start = -1  # index of the write that started the latest job
        self.call: capture.Call | None = None  # of the job that starts next
        self.end: capture.End | None = None

    def take(self, at: int, event: capture.Event) -> None:
        """Add what an event means; `at`: where it stands in the capture, in bytes."""
        if event.delta_ns >= 1000 and self.actions and self.calls is None:
            self.actions.append(action(Op.INTERVAL, us=min(event.delta_ns // 1000, ALL_BITS)))
        match event:
            case capture.Interrupt() if self.calls is not None:
                pass
            case capture.Interrupt(level=True):
                self.actions.append(action(Op.WAIT_IRQ, line=event.line, timeout_us=IRQ_TIMEOUT_US))
                self.actions.append(action(Op.IRQ_ENTER, line=event.line))
            case capture.Interrupt():
                self.actions.append(action(Op.IRQ_EXIT, line=event.line))
            case capture.Call():
                self.call = event
            case capture.JobStart() if self.calls is not None:
                self._called(at, self.calls)
            case capture.JobStart():
                self._job(at, event.kind)
            case capture.End():
                self.end = event
            case capture.Read() | capture.Write() | capture.JobEnd():
                pass
            case _:
                self._memory(at, event)
        self.registers.take_event(at, event)

    def _memory(self, where: int, event: capture.Event) -> None:
        add = self.memory.append
        match event:
            case capture.Map():
                flags = MAP_READ | MAP_WRITE * event.writable | MAP_EXECUTE * event.executable
                frame = self._place(where, event, flags)
                where_mapped = {"address_space": self.registers.space, "va_page": event.page, "pages": event.pages}
                add(action(Op.MAP_GPU_MEM, flags=flags, frame=frame, **where_mapped))
            case capture.Unmap():
                where_mapped = {"address_space": self.registers.space, "va_page": event.page, "pages": event.pages}
                add(action(Op.UNMAP_GPU_MEM, **where_mapped))
                for page in range(event.page, event.page + event.pages):
                    del self.mapped[page], self.physical[page]
            case capture.ZeroPages():
                for page in range(event.page, event.page + event.pages):
                    add(action(Op.CLEAR, bytes=PAGE_BYTES, target=self.mapped[page][0] * PAGE_BYTES))
            case capture.NewPage():
                self.contents[event.content] = self._append(event.data)
                self._upload(event.page * PAGE_BYTES, self.contents[event.content], PAGE_BYTES)
            case capture.KnownPage():
                self._upload(event.page * PAGE_BYTES, self.contents[event.content], PAGE_BYTES)
            case capture.Bytes():
                self._upload(event.va, self._append(event.data), len(event.data))
            case _:
                raise AssertionError(f"unhandled event {event}")

    def _place(self, where: int, event: capture.Map, flags: int) -> int:
        """First page in the carve-out of what is mapped."""
        physical = event.pa // PAGE_BYTES
        if event.pa + event.pages * PAGE_BYTES > self.ram_end:
            found = f"{event.pa:#x} and {event.pages} pages"
            raise capture.CaptureError(
                "mapped memory", offset=where, expected=f"below {self.ram_end:#x}", found=found
            )
        frame = physical
        if known := self._mapped_already(physical, event.pages):
            frame = known
        elif self.registers.new_layout:
            if self.next_page != (event.page, flags):
                self.next_frame += 1  # separates what is not one buffer
            frame = self.next_frame
            self.next_frame += event.pages
            self._check_carveout(self.next_frame)
            self.next_page = event.page + event.pages, flags
        self.mapped |= {event.page + i: (frame + i, flags) for i in range(event.pages)}
        self.physical |= {event.page + i: physical + i for i in range(event.pages)}
        return frame

    def _mapped_already(self, physical: int, pages: int) -> int | None:
        """First frame of pages that are also mapped at other GPU addresses: PanVK maps a ring twice in a row."""
        if self.calls is None:
            return None
        places = {physical: self.mapped[page][0] for page, physical in self.physical.items()}
        first = places.get(physical)
        is_same = first is not None and all(places.get(physical + i) == first + i for i in range(pages))
        return first if is_same else None

    def _append(self, data: bytes) -> int:
        at = len(self.image)
        self.image += data
        return at

    def _upload(self, va: int, source: int, size: int) -> None:
        to = self.mapped[va // PAGE_BYTES][0] * PAGE_BYTES + va % PAGE_BYTES
        self.memory.append(action(Op.UPLOAD, bytes=size, target=to, source=source))

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
        before = self._memory_before(where)
        if kind == COMPUTE:
            before.append(action(Op.JOB, number=self.jobs))
            self.jobs += 1
        self.actions[at:at] = before
        self.latest_start = start + len(before)

    def _called(self, where: int, calls: CallConversion) -> None:
        """A job that is a call of a stream."""
        if self.call is None:
            raise capture.CaptureError("a job starts, but no stream was called", offset=where)
        before = self._memory_before(where)
        self.actions += [*before, action(Op.JOB, number=self.jobs), calls.call(where, self.call)]
        self.jobs += 1
        self.call = None

    def _memory_before(self, where: int) -> list[Action]:
        """What happened to memory since the last job, in order."""
        before = self.memory
        self.memory = []
        self.next_page = None
        if (
            self.calls is None
            and self.registers.new_layout
            and len(set(self.physical.values())) != len(self.physical)
        ):
            raise capture.CaptureError("a page of memory is mapped at two GPU addresses", offset=where)
        maps = [row for row in before if row.op in (Op.MAP_GPU_MEM, Op.UNMAP_GPU_MEM)]
        fills = [row for row in before if row.op not in (Op.MAP_GPU_MEM, Op.UNMAP_GPU_MEM)]
        if self.registers.new_layout:
            maps = _joined(maps)
        if not self.replay_started:
            # The first memory that any job sees begins the part that every replay repeats.
            before = [*maps, action(Op.REPLAY_START), *fills]
            self.replay_started = True
            self.mapped_first = dict(self.mapped)
        elif maps and self.registers.new_layout:
            before = [*maps, *self.registers.flush_tables(), *fills]
        return before

    def _last_write(self, where: int, names: set[str]) -> int:
        """Index of the latest write to any of these registers, for the job at `where` in the capture."""
        registers = {self.gpu.register(name).index for name in names}
        for i in range(len(self.actions) - 1, self.latest_start, -1):
            if self.actions[i].op == Op.REG_WRITE and self.actions[i].register in registers:
                return i
        found = " or ".join(sorted(names))
        raise capture.CaptureError(f"a job starts, but nothing was written to {found}", offset=where)

    def _map_again(self) -> list[Action]:
        """Mappings of the first job that later ones found changed: the next replay must see them again."""
        space = self.registers.space
        rows = [
            action(Op.MAP_GPU_MEM, flags=flags, address_space=space, va_page=page, pages=1, frame=frame)
            for page, (frame, flags) in sorted(self.mapped_first.items())
            if self.mapped.get(page) != (frame, flags)
        ]
        return _joined(rows)

    def _added_streams(self) -> list[Action]:
        """Map the streams that calls needed, which are put behind the image."""
        if self.calls is None:
            return []
        streams = self.calls.added()
        first, pages = streams.va_page, -(-len(streams.data) // PAGE_BYTES)
        if taken := [page for page in range(first, first + pages) if page in self.mapped]:
            at = taken[0] * PAGE_BYTES
            raise capture.CaptureError(f"the driver maps memory at {at:#x}, where calls are put")
        self.image += bytes(-len(self.image) % PAGE_BYTES)
        frame = len(self.image) // PAGE_BYTES
        self.image += streams.data
        where = {"address_space": streams.space, "va_page": first, "pages": pages, "frame": frame}
        return [action(Op.MAP_GPU_MEM, flags=MAP_READ, **where)]

    def _check_carveout(self, pages: int) -> None:
        if pages > MAX_PAGES:
            raise capture.CaptureError(
                "the recording needs too much memory", expected=f"at most {MAX_PAGES} pages", found=pages
            )

    def finish(self) -> tuple[Actions, bytes, int]:
        """Actions, image and size of the carve-out, in bytes."""
        self.registers.finish()
        if not self.registers.new_layout:
            return array_of(self.actions), bytes(self.image), self.ram_end
        restored = self._map_again()
        if restored:
            start = self.actions.index(action(Op.REPLAY_START)) + 1
            self.actions[start:start] = [*restored, *self.registers.flush_tables()]
        actions = array_of(self.actions)
        added = self._added_streams()
        base = -(-len(self.image) // PAGE_BYTES)
        self._check_carveout(base + self.next_frame)
        actions = rewritten(actions, lambda frames: frames + base, Type.FRAME)
        actions = rewritten(actions, lambda targets: targets + base * PAGE_BYTES, Type.TARGET)
        start = int(np.argmax(actions["op"] == Op.REPLAY_START))
        actions = np.concatenate([actions[:start], array_of(added), actions[start:]])
        return actions, bytes(self.image), (base + self.next_frame) * PAGE_BYTES


def _joined(maps: list[Action]) -> list[Action]:
    """Mappings, those that go on where the one before ends as one with it; unmappings stay."""
    joined: list[Action] = []
    for row in maps:
        last = joined[-1] if joined else None
        if last is not None and last.op == row.op == Op.MAP_GPU_MEM and row == _going_on(last, row.pages):
            joined[-1] = last.with_(pages=last.pages + row.pages)
        else:
            joined.append(row)
    return joined


def _going_on(last: Action, pages: int) -> Action:
    """The mapping of so many pages more that goes on where one ends."""
    return last.with_(va_page=last.va_page + last.pages, frame=last.frame + last.pages, pages=pages)
