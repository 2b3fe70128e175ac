# SPDX-License-Identifier: BSD-2-Clause
"""A queue of the virtual GPU, without a driver: shared memory as the firmware leaves it, a group with one stream.

Order and layout: Linux 6.12 drivers/gpu/drm/panthor (panthor_fw.h, panthor_fw.c, panthor_sched.c). The firmware
itself is not needed: the virtual GPU has its contract. No trace maps these pages.
"""

from __future__ import annotations

import struct

from host_tools.families.page_tables import DivergenceError, PageTables
from host_tools.families.streams import Streams
from host_tools.gpus.mali_csf.instructions import INSTRUCTION_BYTES, calling, packed
from host_tools.gpus.mali_csf.judging import check
from host_tools.gpus.mali_csf.page_tables import FIRMWARE, RING, SPACE, CsfTables
from host_tools.gpus.mali_csf.shared_section import (
    GLOBAL_INPUT,
    GROUP_INPUT,
    RING_INPUT,
    RING_OUTPUT,
    SHARED,
    SHARED_PAGES,
    STREAM_INPUT,
    control_blocks,
)
from host_tools.gpus.mali_csf.stand_in import stand_in
from host_tools.gpus.mali_csf.straight import straighten
from trace_format.actions import MAP_READ, MAP_WRITE
from trace_format.schema import PAGE_BYTES

START, UPDATE, AUTOMATIC = 1, 1, 2  # of groups and streams; of an address space; of the microcontroller
SUSPEND_BUFFER = 0xABC000  # any address: it names what is kept where a group is suspended, which none is


class StreamQueue:
    """The first stream of group 0; the group starts with the first call."""

    def __init__(self, tables: PageTables) -> None:
        assert isinstance(tables, CsfTables)
        self.tables, self.gpu, self.profile = tables, tables.gpu, tables.profile
        self.space = -1  # that the group has
        self.inserted = 0  # bytes that were put into the ring
        self.frames: dict[int, int] = {}  # page of shared memory, or the ring's -> page of the tables' pool
        for page in range(SHARED_PAGES):
            self._page(FIRMWARE, SHARED // PAGE_BYTES + page)
        for va, words in control_blocks():
            self._set(va, *words)
        self._point(FIRMWARE)
        self._write("gpu.MCU_CONTROL", AUTOMATIC)

    def call(self, space: int, stream: int, instructions: int) -> None:
        """See `Queue.call`."""
        if self.space != space:
            self._start(space)
        for word in calling(stream, instructions * INSTRUCTION_BYTES):
            self._put(RING + self.inserted % PAGE_BYTES, packed([word]))
            self.inserted += INSTRUCTION_BYTES
        self._set(RING_INPUT, self.inserted, 0)
        self._point(space)
        self._write("doorbell1.RING", 1)
        extracted = self._word(RING_OUTPUT)
        if extracted != self.inserted:
            raise DivergenceError(f"the command stream at {stream:#x} has not ended: it waits for another one")

    def _start(self, space: int) -> None:
        if space != SPACE:
            raise DivergenceError(f"a call in address space {space}: expected {SPACE}")
        self.space = space
        self._page(space, RING // PAGE_BYTES)
        self._point(space)
        self._set(STREAM_INPUT, START, 1 << 8)  # doorbell 1
        self._set(STREAM_INPUT + 0x10, RING & 0xFFFFFFFF, RING >> 32, PAGE_BYTES, 0)
        self._set(STREAM_INPUT + 0x30, RING_INPUT, 0, RING_OUTPUT, 0)
        self._set(GROUP_INPUT, START)
        self._set(GROUP_INPUT + 0x40, SUSPEND_BUFFER, 0)
        self._set(GROUP_INPUT + 0x50, self.tables.hardware(space))
        self._set(GLOBAL_INPUT + 8, 1)  # group 0
        self._write("doorbell0.RING", 1)

    def _page(self, space: int, page: int) -> None:
        """Map a page of the pool."""
        frame = self.tables.fresh()
        self.frames[page] = frame
        self.tables.map(space, page, self.tables.at // PAGE_BYTES + frame, 1, MAP_READ | MAP_WRITE)

    def _point(self, space: int) -> None:
        """Let an address space have its tables as they are now."""
        self.tables.set(space)
        self._write(f"as{self.tables.hardware(space)}.COMMAND", UPDATE)

    def _write(self, register: str, value: int) -> None:
        self.gpu.write32(self.profile.register(register).offset, value)

    def _set(self, va: int, *words: int) -> None:
        self._put(va, struct.pack(f"<{len(words)}I", *words))

    def _put(self, va: int, data: bytes) -> None:
        page = self.tables.pool[self.frames[va // PAGE_BYTES]].view("u1")
        page[va % PAGE_BYTES :][: len(data)] = memoryview(data)

    def _word(self, va: int) -> int:
        return int(self.tables.pool[self.frames[va // PAGE_BYTES]].view("<u4")[va % PAGE_BYTES // 4])


STREAMS = Streams(StreamQueue, stand_in, lambda trace: straighten(trace).trace, check)
