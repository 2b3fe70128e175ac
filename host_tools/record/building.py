# SPDX-License-Identifier: BSD-2-Clause
"""What becomes actions whatever a GPU's jobs are: mappings and memory, in the order in which jobs find them."""

from __future__ import annotations

import abc

import numpy as np

from host_tools.families.conversion import Conversion
from host_tools.vgpu import capture
from trace_format.actions import (
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
from trace_format.profile import Profile
from trace_format.schema import MAX_CARVEOUT_BYTES, PAGE_BYTES

MAX_PAGES = MAX_CARVEOUT_BYTES // PAGE_BYTES


class Builder(abc.ABC):
    """Turns events into actions, one after the other.

    Args:
        gpu: profile of the GPU.
        registers: what its family makes of events.
        ram_end: first physical address after the guest's RAM, in bytes.

    Attributes:
        jobs: compute jobs.
        end: the last event; None: it has not come.
    """

    def __init__(self, gpu: Profile, registers: Conversion, ram_end: int) -> None:
        self.ram_end = ram_end
        self.gpu = gpu
        self.registers = registers
        self.actions = registers.actions
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
        self.end: capture.End | None = None

    @abc.abstractmethod
    def take(self, at: int, event: capture.Event) -> None:
        """Add what an event means; `at`: where it stands in the capture, in bytes."""

    @abc.abstractmethod
    def place(self, event: capture.Map, flags: int) -> int:
        """First page in the carve-out of what is mapped."""

    def take_memory(self, where: int, event: capture.Event) -> None:
        """Keep an event on memory until the next job."""
        add = self.memory.append
        match event:
            case capture.Map():
                flags = MAP_READ | MAP_WRITE * event.writable | MAP_EXECUTE * event.executable
                frame = self._map(where, event, flags)
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

    def _map(self, where: int, event: capture.Map, flags: int) -> int:
        physical = event.pa // PAGE_BYTES
        if event.pa + event.pages * PAGE_BYTES > self.ram_end:
            found = f"{event.pa:#x} and {event.pages} pages"
            raise capture.CaptureError(
                "mapped memory", offset=where, expected=f"below {self.ram_end:#x}", found=found
            )
        frame = self.place(event, flags)
        self.mapped |= {event.page + i: (frame + i, flags) for i in range(event.pages)}
        self.physical |= {event.page + i: physical + i for i in range(event.pages)}
        return frame

    def next_place(self, event: capture.Map, flags: int) -> int:
        """First page of a new layout: what is consecutive for the GPU is so in the carve-out."""
        if self.next_page != (event.page, flags):
            self.next_frame += 1  # separates what is not one buffer
        frame = self.next_frame
        self.next_frame += event.pages
        self._check_carveout(self.next_frame)
        self.next_page = event.page + event.pages, flags
        return frame

    def _append(self, data: bytes) -> int:
        at = len(self.image)
        self.image += data
        return at

    def _upload(self, va: int, source: int, size: int) -> None:
        to = self.mapped[va // PAGE_BYTES][0] * PAGE_BYTES + va % PAGE_BYTES
        self.memory.append(action(Op.UPLOAD, bytes=size, target=to, source=source))

    def memory_before(self) -> list[Action]:
        """What happened to memory since the last job, in order."""
        before = self.memory
        self.memory = []
        self.next_page = None
        maps = [row for row in before if row.op in (Op.MAP_GPU_MEM, Op.UNMAP_GPU_MEM)]
        fills = [row for row in before if row.op not in (Op.MAP_GPU_MEM, Op.UNMAP_GPU_MEM)]
        if self.registers.new_layout:
            maps = joined(maps)
        if not self.replay_started:
            # The first memory that any job sees begins the part that every replay repeats.
            before = [*maps, action(Op.REPLAY_START), *fills]
            self.replay_started = True
            self.mapped_first = dict(self.mapped)
        elif maps and self.registers.new_layout:
            before = [*maps, *self.registers.flush_tables(), *fills]
        return before

    def _map_again(self) -> list[Action]:
        """Mappings of the first job that later ones found changed: the next replay must see them again."""
        space = self.registers.space
        rows = [
            action(Op.MAP_GPU_MEM, flags=flags, address_space=space, va_page=page, pages=1, frame=frame)
            for page, (frame, flags) in sorted(self.mapped_first.items())
            if self.mapped.get(page) != (frame, flags)
        ]
        return joined(rows)

    def _check_carveout(self, pages: int) -> None:
        if pages > MAX_PAGES:
            raise capture.CaptureError(
                "the recording needs too much memory", expected=f"at most {MAX_PAGES} pages", found=pages
            )

    def laid_out(self, mapped: list[Action]) -> tuple[Actions, bytes, int]:
        """As `finish` of a new layout, whose memory lies behind the image; `mapped`: what else is mapped first."""
        restored = self._map_again()
        if restored:
            start = self.actions.index(action(Op.REPLAY_START)) + 1
            self.actions[start:start] = [*restored, *self.registers.flush_tables()]
        actions = array_of(self.actions)
        base = -(-len(self.image) // PAGE_BYTES)
        self._check_carveout(base + self.next_frame)
        actions = rewritten(actions, lambda frames: frames + base, Type.FRAME)
        actions = rewritten(actions, lambda targets: targets + base * PAGE_BYTES, Type.TARGET)
        start = int(np.argmax(actions["op"] == Op.REPLAY_START))
        actions = np.concatenate([actions[:start], array_of(mapped), actions[start:]])
        return actions, bytes(self.image), (base + self.next_frame) * PAGE_BYTES

    @abc.abstractmethod
    def finish(self) -> tuple[Actions, bytes, int]:
        """Actions, image and size of the carve-out, in bytes."""


def joined(maps: list[Action]) -> list[Action]:
    """Mappings, those that go on where the one before ends as one with it; unmappings stay."""
    found: list[Action] = []
    for row in maps:
        last = found[-1] if found else None
        if last is not None and last.op == row.op == Op.MAP_GPU_MEM and row == _going_on(last, row.pages):
            found[-1] = last.with_(pages=last.pages + row.pages)
        else:
            found.append(row)
    return found


def _going_on(last: Action, pages: int) -> Action:
    """A mapping of `pages` pages that begins where another one ends."""
    return last.with_(va_page=last.va_page + last.pages, frame=last.frame + last.pages, pages=pages)
