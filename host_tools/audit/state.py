# SPDX-License-Identifier: BSD-2-Clause
"""What is known of a device while a trace's actions happen, without a GPU.

Registers are known as far as the trace writes them; memory is known by where it is mapped and by who may have
filled it: the image, uploads and clears, callers through slots, and jobs, which may write whatever is mapped
writable when they start.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from host_tools.accesses.job_starts import JobStarts
from host_tools.families.family import Family, family_of
from host_tools.model.frames import Mapping, Mask
from host_tools.support.pages import pages_of, pieces
from trace_format.actions import MAP_WRITE, Action, Op
from trace_format.operators import operands
from trace_format.schema import PAGE_BYTES
from trace_format.slots import Slot
from trace_format.trace import Trace

_WHOLE = np.ones(PAGE_BYTES, np.bool_)


@dataclass
class State:
    """See the module's text.

    Attributes:
        trace: whose actions happen.
        registers: what the trace has written, by word index; a register that it has written in part only is not
            there.
        kept: number of a kept value -> word index of the register that it was read from.
        mappings: by (address space, virtual page).
        spaces: address spaces whose table has been set.
        by_jobs: frames that a job may have written.
    """

    trace: Trace
    registers: dict[int, int] = field(default_factory=dict)
    kept: dict[int, int] = field(default_factory=dict)
    mappings: dict[tuple[int, int], Mapping] = field(default_factory=dict)
    spaces: set[int] = field(default_factory=set)
    by_jobs: set[int] = field(default_factory=set)
    _filled: dict[int, Mask] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.profile = self.trace.profile
        self.family: Family = family_of(self.profile)
        self.starts = JobStarts(self.profile)
        self.image_pages = -(-len(self.trace.image) // PAGE_BYTES)
        self._fill(0, len(self.trace.image))

    def named(self, name: str) -> int:
        """What the trace has written to a register; 0: nothing that is known."""
        return self.registers.get(self.profile.register(name).index, 0)

    def mapping(self, space: int, va: int) -> Mapping | None:
        """Where an address leads."""
        return self.mappings.get((space, va // PAGE_BYTES))

    def may_be_filled(self, space: int, va: int, size: int) -> bool:
        """Whether somebody may have written these bytes, which are mapped."""
        for page, inside, _ in pieces(va, size):
            found = self.mappings.get((space, page))
            if found is None or found.frame in self.by_jobs:
                continue
            if found.frame not in self._filled or not self._filled[found.frame][inside].all():
                return False
        return True

    def frames(self, slot: Slot) -> list[int | None]:
        """Where each page of a slot lies; None: it is not mapped."""
        found = (self.mappings.get((slot.address_space, page)) for page in pages_of(slot.address, slot.span))
        return [mapping.frame if mapping else None for mapping in found]

    def apply(self, row: Action) -> None:
        """Let an action happen."""
        match row.op:
            case Op.REG_WRITE:
                if self.starts.of(row):
                    self.by_jobs |= {m.frame for m in self.mappings.values() if m.flags & MAP_WRITE}
                old = self.registers.get(row.register, 0)
                self.registers[row.register] = old & ~row.mask | row.value & row.mask
            case Op.REG_WRITE_KEPT:
                self.registers.pop(row.register, None)
            case Op.REG_READ_KEEP:
                self.kept[row.keep] = row.register
            case Op.SET_GPU_PGTABLE:
                self.spaces.add(row.address_space)
            case Op.MAP_GPU_MEM:
                for i in range(row.pages):
                    self.mappings[row.address_space, row.va_page + i] = Mapping(row.frame + i, row.flags)
            case Op.UNMAP_GPU_MEM:
                for i in range(row.pages):
                    self.mappings.pop((row.address_space, row.va_page + i), None)
            case Op.UPLOAD | Op.CLEAR:
                self._fill(row.target, row.bytes)
            case Op.COPY_TO_GPU:
                self._take(self.trace.slots[row.slot])
            case Op.OPERATE:
                for type, slot in operands(row, self.trace.slots):
                    if type.written:
                        self._take(slot)

    def _take(self, slot: Slot) -> None:
        """What a caller or an operator writes; of a tensor with gaps, which stay, whole pages count."""
        for page, inside, _ in pieces(slot.address, slot.span):
            found = self.mappings.get((slot.address_space, page))
            if found is not None:
                self._fill_part(found.frame, inside)

    def _fill(self, at: int, size: int) -> None:
        for frame, inside, _ in pieces(at, size):
            self._fill_part(frame, inside)

    def _fill_part(self, frame: int, inside: slice) -> None:
        """Pages that are filled as a whole share one mask: there may be a million of them."""
        if inside.stop - inside.start == PAGE_BYTES:
            self._filled[frame] = _WHOLE
        elif self._filled.get(frame) is not _WHOLE:
            if frame not in self._filled:
                self._filled[frame] = np.zeros(PAGE_BYTES, np.bool_)
            self._filled[frame][inside] = True
