# SPDX-License-Identifier: BSD-2-Clause
"""Raw traces of GPUs whose jobs are calls of command streams, without register accesses and interrupts.

A call that waits for another queue goes on later. In the trace it stands whole where it went on last, because the
other queue has signalled by then. Making streams straight proves that this order meets every wait
(host_tools/gpus/mali_csf/walk.py), and refuses the recording where it does not.
"""

from __future__ import annotations

from host_tools.families.conversion import CallConversion
from host_tools.record.building import Builder
from host_tools.vgpu import capture
from trace_format.actions import MAP_READ, Action, Actions, Op, action
from trace_format.profile import Profile
from trace_format.schema import PAGE_BYTES


class CalledJobs(Builder):
    """See `Builder`."""

    def __init__(self, gpu: Profile, calls: CallConversion, ram_end: int) -> None:
        super().__init__(gpu, calls, ram_end)
        self.calls = calls
        self.call: capture.Call | None = None  # of the job that starts next
        self.latest: dict[int, Action] = {}  # queue -> its latest call
        self.numbered = 0
        self.mappings: list[tuple[int, capture.Map | capture.Unmap]] = []  # that changed together

    def take(self, at: int, event: capture.Event) -> None:
        """See `Builder.take`."""
        if self.mappings and not isinstance(event, capture.Map | capture.Unmap):
            self._map_together()
        match event:
            case capture.Map() | capture.Unmap():
                self.mappings.append((at, event))
            case capture.Call():
                self.call = event
            case capture.JobStart():
                self._called(at)
            case capture.End():
                self.end = event
            case capture.Interrupt() | capture.Read() | capture.Write() | capture.JobEnd():
                pass
            case _:
                self.take_memory(at, event)
        self.registers.take_event(at, event)

    def _map_together(self) -> None:
        """Mappings that changed before a job: a new one shares no page with an old one."""
        changed, self.mappings = self.mappings, []
        for at, event in changed:
            if isinstance(event, capture.Unmap):
                self.take_memory(at, event)
        for _, event in changed:
            for page in range(event.page, event.page + event.pages):
                self.physical.pop(page, None)
        for at, event in changed:
            if isinstance(event, capture.Map):
                self.take_memory(at, event)

    def place(self, event: capture.Map, flags: int) -> int:
        """See `Builder.place`; pages that are mapped already stay where they are: PanVK maps a ring twice."""
        places = {physical: self.mapped[page][0] for page, physical in self.physical.items()}
        physical = event.pa // PAGE_BYTES
        first = places.get(physical)
        if first is not None and all(places.get(physical + i) == first + i for i in range(event.pages)):
            return first
        return self.next_place(event, flags)

    def _called(self, where: int) -> None:
        call, self.call = self.call, None
        if call is None:
            raise capture.CaptureError("a job starts, but no stream was called", offset=where)
        self.actions += self.memory_before()
        if not call.is_rest:
            self.latest[call.queue] = self.calls.call(where, call)
        elif call.queue in self.latest:
            self.actions.remove(self.latest[call.queue])  # each has a stream of its own
        else:
            raise capture.CaptureError("the rest of a call that did not begin", offset=where)
        self.actions.append(self.latest[call.queue])
        self.jobs += not call.is_rest

    def _added_streams(self) -> list[Action]:
        """Map the streams that calls needed, which are put behind the image."""
        streams = self.calls.added()
        first, pages = streams.va_page, -(-len(streams.data) // PAGE_BYTES)
        if taken := [page for page in range(first, first + pages) if page in self.mapped]:
            at = taken[0] * PAGE_BYTES
            raise capture.CaptureError(f"the driver maps memory at {at:#x}, where calls are put")
        self.image += bytes(-len(self.image) % PAGE_BYTES)
        frame = len(self.image) // PAGE_BYTES
        self.image += streams.data + bytes(-len(streams.data) % PAGE_BYTES)
        where = {"address_space": streams.space, "va_page": first, "pages": pages, "frame": frame}
        return [action(Op.MAP_GPU_MEM, flags=MAP_READ, **where)]

    def finish(self) -> tuple[Actions, bytes, int]:
        """See `Builder.finish`."""
        self.registers.finish()
        numbered: list[Action] = []
        for row in self.actions:
            if row.op == Op.RUN_STREAM:
                numbered.append(action(Op.JOB, number=self.numbered))
                self.numbered += 1
            numbered.append(row)
        self.actions = numbered
        return self.laid_out(self._added_streams())
