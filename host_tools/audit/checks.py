# SPDX-License-Identifier: BSD-2-Clause
"""What lint looks for at each action, before it happens, and at the end."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from host_tools.audit.rules import RULES, Finding
from host_tools.audit.state import State
from trace_format.actions import ACTIONS, FLAG_BESIDE, MAP_EXECUTE, MAP_WRITE, Action, Op
from trace_format.errors import printable
from trace_format.operators import operands
from trace_format.profile import Job
from trace_format.registers import Register
from trace_format.schema import PAGE_BYTES, SlotKind
from trace_format.slots import Slot

ACKNOWLEDGES = re.compile(r"\.(INT_CLR|IRQ_CLEAR)$")  # names of registers that do, of all profiles


@dataclass
class Checks:
    """Judges actions one after the other; what has to be remembered is here, the device in `state`."""

    state: State
    running: int | None = None  # action that has started a job whose end has not been seen
    job: Job | None = None
    unmarked: bool = True  # no marker since the last job
    pending: dict[int, int] = field(default_factory=dict)  # interrupt line -> action that waited for it
    copied: set[int] = field(default_factory=set)
    by_replay: set[int] = field(default_factory=set)  # slots that are copied in each replay
    code: set[int] = field(default_factory=set)  # frames that jobs name as code

    def before(self, index: int, row: Action) -> Iterator[Finding]:
        """What an action breaks, in the state before it."""
        match row.op:
            case Op.REPLAY_START:
                self.by_replay.clear()
            case Op.MAP_GPU_MEM:
                yield from self._map(index, row)
            case Op.REG_WRITE_KEPT if row.keep not in self.state.kept:
                yield _found("GR102", f"kept[{row.keep}] is written, but nothing has been kept there", index)
            case Op.REG_WRITE_KEPT if (found := self._register(row)) and found.replay_set:
                name = found.name
                yield _found(
                    "GR103", f"kept[{row.keep}] is written to {name}, of which some bits must be set", index
                )
            case Op.REG_READ_KEEP if not ((found := self._register(row)) and found.volatile):
                name = self.state.profile.describe(row.register * 4)
                yield _found("GR103", f"kept[{row.keep}] is read from {name}, which does not change", index)
            case Op.COPY_TO_GPU | Op.COPY_FROM_GPU:
                yield from self._copy(index, row)
            case Op.OPERATE:
                yield from self._operate(index, row)
            case Op.JOB:
                self.unmarked = False
            case Op.WAIT_IRQ:
                yield from self._wait(index, row)
            case Op.REG_READ_WAIT if self.job and row.register == self.job.done.index:
                self.running = None
        if row.op in (Op.REG_WRITE, Op.REG_WRITE_KEPT):
            yield from self._write(index, row)

    def after(self) -> Iterator[Finding]:
        """What is wrong at the end."""
        if self.running is not None:
            yield _found("GR601", "the trace ends, and nothing has waited for this job's end", self.running)
        for line, index in self.pending.items():
            name = self.state.profile.interrupts[line]
            yield _found("GR602", f"the interrupt {name} is waited for and not acknowledged after that", index)
        for number, slot in enumerate(self.state.trace.slots):
            if number not in self.copied and slot.kind != SlotKind.INTERNAL:
                yield _found("GR403", f"{_name(slot)} is not copied by any action")
            elif slot.kind == SlotKind.OUTPUT and number not in self.by_replay:
                yield _found("GR403", f"{_name(slot)} is copied before the replay only")
        yield from self._overlaps()

    def _register(self, row: Action) -> Register | None:
        """What the profile says of the register of an action."""
        return self.state.profile.by_offset.get(row.register * 4)

    def _map(self, index: int, row: Action) -> Iterator[Finding]:
        state = self.state
        new, flags = range(row.frame, row.frame + row.pages), row.flags
        if flags & MAP_WRITE and flags & MAP_EXECUTE and state.profile.forbids_execution:
            yield _found("GR203", f"{row.pages} pages are writable and executable", index)
        if self.running is not None:
            yield _found("GR205", f"memory is mapped while the job of action {self.running} may run", index)
        replaced = [
            page
            for page, frame in zip(range(row.va_page, row.va_page + row.pages), new, strict=True)
            if (old := state.mappings.get((row.address_space, page))) and old.frame != frame
        ]
        if replaced:
            at = replaced[0] * PAGE_BYTES
            yield _found("GR205", f"{len(replaced)} pages that were mapped lead elsewhere, from {at:#x} on", index)
        if flags & MAP_WRITE and (aliased := self.code.intersection(new)):
            yield _found("GR204", f"carve-out page {min(aliased):#x}, which is code, is mapped writable", index)

    def _copy(self, index: int, row: Action) -> Iterator[Finding]:
        slot = self.state.trace.slots[row.slot]
        if slot.kind == SlotKind.OUTPUT and row.slot in self.copied:
            yield _found("GR407", f"{_name(slot)} has been copied before", index)
        self.copied.add(row.slot)
        self.by_replay.add(row.slot)
        if slot.kind == SlotKind.INTERNAL:
            yield _found("GR405", f"{_name(slot)} is copied, but is no caller's", index)
        elif slot.kind.is_given != (row.op == Op.COPY_TO_GPU):
            yield _found("GR405", f"{_name(slot)} is copied in the other direction", index)
        yield from self._place(index, slot)

    def _operate(self, index: int, row: Action) -> Iterator[Finding]:
        if self.running is not None and not row.flags & FLAG_BESIDE:
            yield _found("GR601", f"an operator works while the job of action {self.running} may run", index)
        for type, slot in operands(row, self.state.trace.slots):
            yield from self._place(index, slot, may_be_image=not type.written)
            if type.whole:
                yield from self._whole(index, slot)

    def _whole(self, index: int, slot: Slot) -> Iterator[Finding]:
        """An operand that the operator has at once."""
        frames = self.state.frames(slot)
        if None in frames or frames[0] is None:
            return
        if frames != list(range(frames[0], frames[0] + len(frames))):
            yield _found("GR401", f"{_name(slot)}: its pages do not follow one another in memory", index)
        elif frames[0] < self.state.image_pages < frames[0] + len(frames):
            yield _found("GR401", f"{_name(slot)} begins in the image and ends behind it", index)

    def _place(self, index: int, slot: Slot, *, may_be_image: bool = False) -> Iterator[Finding]:
        frames = self.state.frames(slot)
        if None in frames:
            yield _found("GR401", f"{_name(slot)}: {frames.count(None)} of its pages are not mapped", index)
        inside = [frame for frame in frames if frame is not None]
        if not may_be_image and any(frame < self.state.image_pages for frame in inside):
            yield _found("GR401", f"{_name(slot)} lies in the image's pages", index)
        elif not may_be_image and self.code.intersection(inside):
            yield _found("GR401", f"{_name(slot)} lies in pages that jobs name as code", index)

    def _wait(self, index: int, row: Action) -> Iterator[Finding]:
        if self.job and row.line == self.job.line:
            self.running = None
        if row.line in self.pending:
            first = self.pending[row.line]
            yield _found("GR602", f"the interrupt of action {first} has not been acknowledged before", index)
        self.pending[row.line] = index

    def _write(self, index: int, row: Action) -> Iterator[Finding]:
        state = self.state
        if ACKNOWLEDGES.search(state.profile.describe(row.register * 4)):
            self.pending.clear()
        job = state.starts.of(row)
        if job is None:
            return
        if self.running is not None and self.job is job and not state.family.queues:
            yield _found("GR601", f"a job is started before the end of that of action {self.running}", index)
        if self.unmarked:
            yield _found("GR603", f"{ACTIONS[Op.JOB].name} is missing before this job", index)
        if not state.spaces:
            yield _found("GR304", "a job is started before any page table is set", index)
        self.running, self.job, self.unmarked = index, job, True
        if state.family.job_addresses is None or job.kind != "compute":
            return  # descriptors say what such jobs name
        for found in state.family.job_addresses(state.named):
            yield from self._address(index, found.what, found.va, found.size, found.is_code)

    def _address(self, index: int, what: str, va: int, size: int, is_code: bool) -> Iterator[Finding]:
        mapping = self.state.mapping(0, va)
        if mapping is None:
            yield _found("GR301", f"the {what} at GPU address {va:#x} is not mapped", index)
            return
        if is_code:
            self.code.add(mapping.frame)
            if mapping.frame >= self.state.image_pages:
                yield _found("GR202", f"the {what} at GPU address {va:#x} lies outside the image", index)
            if any(m.frame == mapping.frame and m.flags & MAP_WRITE for m in self.state.mappings.values()):
                yield _found("GR204", f"the {what} at GPU address {va:#x} is also mapped writable", index)
        if not self.state.may_be_filled(0, va, size):
            yield _found("GR302", f"the {what} at GPU address {va:#x} has not been filled by anyone", index)

    def _overlaps(self) -> Iterator[Finding]:
        """Slots of which pages are shared are compared by their addresses."""
        slots = sorted(self.state.trace.slots, key=lambda slot: (slot.address_space, slot.address))
        for first, second in itertools.pairwise(slots):
            same = first.address_space == second.address_space
            if same and second.address < first.address + first.span:
                both = {first.kind, second.kind}
                if SlotKind.INTERNAL not in both and (SlotKind.OUTPUT not in both or len(both) > 1):
                    yield _found("GR404", f"{_name(first)} and {_name(second)} overlap")


def _name(slot: Slot) -> str:
    return f"the {slot.kind.name.lower()} {printable(slot.name)}"


def _found(rule: str, text: str, action: int | None = None) -> Finding:
    return Finding(RULES[rule], text, action)
