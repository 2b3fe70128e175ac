# SPDX-License-Identifier: BSD-2-Clause
"""What caches and write buffers may do to a firmware's memory, by the worst case that Armv8-A allows.

Each line of memory has a few bits. The verdict depends on no cache's size and on no timing: a line of a cacheable
mapping may be in the cache at any time and be dirty; a dirty line may be written back at any time; maintenance is
done when a DSB after it ends; loads and stores pass each other unless a barrier forbids it. Facts: Arm DDI 0487
(Armv8-A), B2.3 (order), B2.7 (memory types), D5.10 (maintenance).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from host_tools.runners.caches.instructions import Barrier, Maintenance
from host_tools.runners.caches.mapping import Span
from host_tools.vgpu.binding import ACCESS_WRITTEN, PAGE_BYTES
from trace_format import packing
from trace_format.schema.mailbox import MAILBOX_RESPONSE_AT

LINE = 64
# Bits of a line. OLD: an earlier boot stage may have left it in a cache, and dirty. DIRTY: the cache may have
# what memory lacks. STALE: memory has what the cache may lack. CACHED: it is mapped cacheable. BY_GPU: the GPU
# wrote it.
OLD, DIRTY, STALE, CACHED, BY_GPU = (1 << bit for bit in range(5))
ANSWER_BYTES = packing.size_of("mailbox_response")


class Rule(Enum):
    """What is an error, and how it is told."""

    GPU_MEETS_DIRTY = "the GPU reads or writes a line that is newer in a cache, or may be written over from there"
    GPU_IN_CACHED = "the GPU reaches a line that is mapped cacheable"
    CPU_READS_STALE = "the CPU reads, through the cache, a line that others changed since it may have been filled"
    CACHED_WHILE_OLD = "a line becomes cacheable that an earlier boot stage may have left in a cache"
    UNCACHED_MEETS_DIRTY = "an access past the caches meets a line that is dirty in one"
    UNCACHED_MEETS_OLD = "an access past the caches meets a line that an earlier boot stage may have left dirty"
    WRITTEN_IS_DROPPED = (
        "a line that may be dirty with what the firmware wrote is invalidated without being cleaned"
    )
    REQUEST_IS_DROPPED = "a line of the mailbox is invalidated that its loader may have left dirty"
    CODE_IS_OVERWRITTEN = "an old line is written back over the firmware's code"
    STORE_AFTER_DOORBELL = "a register of the GPU is written, and no barrier keeps earlier stores before that"
    LOAD_BEFORE_ANSWER = "memory that the GPU wrote is read, and no barrier keeps that after a register's read"
    CONTENT_AFTER_ANSWER = "the answer's magic is written, and no barrier keeps earlier stores before that"
    ANSWER_IS_CACHED = "the answer's magic is written while the mailbox has dirty lines"
    ANSWER_CHANGES = "the mailbox is written after the answer's magic"
    NOT_IN_EFFECT = "a system register was written, and no ISB has put it into effect"
    UNDER_WAY = "the MMU goes on, and no DSB has ended the maintenance before it"
    OLD_TRANSLATIONS = "the MMU goes on with translations that an earlier boot stage left"
    OLD_INSTRUCTIONS = "the instruction cache goes on with what an earlier boot stage left"
    NOT_COHERENT = "maintenance, or caches on, before the core takes part in coherency (CPUECTLR_EL1.SMPEN)"
    EARLY_CLOCK = "the counter is read, and no ISB keeps that after what came before"
    NEXT_STAGE_MISSES = "the firmware ends, and memory lacks what may still be in a cache"
    STAYS_ON = "the firmware ends with MMU or caches on"


@dataclass
class Finding:
    """An error at one instruction: its address, how often, and the first line's address."""

    rule: Rule
    pc: int
    line: int
    count: int = 0

    def __str__(self) -> str:
        return f"{self.rule.name} at {self.pc:#x}: {self.rule.value} ({self.count} times, first at {self.line:#x})"


class Memory:
    """A range of memory, by lines.

    Attributes:
        bits: of each line.
        all: the same, as an array.
        jobs: when BY_GPU is set, after how many observations of the GPU.
        stores: to it, since a barrier for stores.
    """

    def __init__(self, name: str, base: int, size: int, *, is_old: bool) -> None:
        self.name = name
        self.first = base // LINE
        count = -(-(base + size) // LINE) - self.first
        self.bits = bytearray([OLD if is_old else 0]) * count
        self.all = np.frombuffer(self.bits, np.uint8)
        self.jobs: dict[int, int] = {}
        self.stores = 0

    @property
    def whole(self) -> slice:
        """All lines."""
        return slice(0, len(self.bits))

    def part(self, start: int, end: int) -> slice:
        """Numbers of the lines of an address range, as far as they are here."""
        count = len(self.bits)
        return slice(*(min(max(n, 0), count) for n in (start // LINE - self.first, -(-end // LINE) - self.first)))


class Model:
    """The state of memory and caches, and what was found.

    Args:
        memories: rom, ram, carveout and mailbox, by name.
        pc: gives the address of the instruction at work.
    """

    def __init__(self, memories: Iterable[Memory], pc: Callable[[], int]) -> None:
        self.memories = {memory.name: memory for memory in memories}
        self._pc = pc
        self._found: dict[tuple[Rule, int], Finding] = {}
        self.is_on = False
        self.is_coherent = True
        self._under_way: list[tuple[Memory, slice, Maintenance]] = []
        self._written: set[str] = set()  # system registers, since an ISB
        self._forgotten = {Maintenance.TRANSLATIONS: False, Maintenance.INSTRUCTIONS: False}
        self._jobs = self._asked = self._ordered = 0  # observations of the GPU; and which a load comes after
        self._was_synchronised = False  # since the counter was read
        self._is_answered = False

    @property
    def findings(self) -> list[Finding]:
        """What was found, by rule and place."""
        return sorted(self._found.values(), key=lambda found: (found.rule.name, found.pc))

    def say(self, rule: Rule, line: int, count: int = 1) -> None:
        """An error at the instruction at work."""
        key = rule, self._pc()
        self._found.setdefault(key, Finding(rule, key[1], line)).count += count

    def _say_of(self, rule: Rule, memory: Memory, part: slice, lines: npt.NDArray[np.bool_]) -> None:
        """An error of some of a part's lines, if of any."""
        if lines.any():
            self.say(rule, (memory.first + part.start + int(lines.argmax())) * LINE, int(lines.sum()))

    def access(self, memory: Memory, address: int, size: int, is_write: bool) -> None:
        """A load or store of the CPU."""
        if self._written:
            self.say(Rule.NOT_IN_EFFECT, address)
        first = address // LINE - memory.first
        for number in range(first, (address + size - 1) // LINE - memory.first + 1):
            if memory.bits[number]:
                self._meet(memory, number, is_write)
        if is_write:
            if memory.name == "mailbox":
                self._answer(memory, address - memory.first * LINE, size)
            memory.stores += 1

    def _meet(self, memory: Memory, number: int, is_write: bool) -> None:
        bits, line = memory.bits[number], (memory.first + number) * LINE
        if bits & CACHED:
            if bits & STALE and not is_write:
                self.say(Rule.CPU_READS_STALE, line)
            memory.bits[number] |= DIRTY * is_write
        else:
            for bit, rule in ((DIRTY, Rule.UNCACHED_MEETS_DIRTY), (OLD, Rule.UNCACHED_MEETS_OLD)):
                if bits & bit:
                    self.say(rule, line)
        if bits & BY_GPU:
            if is_write:
                memory.bits[number] &= ~BY_GPU
            elif memory.jobs[number] > self._ordered:
                self.say(Rule.LOAD_BEFORE_ANSWER, line)

    def _answer(self, memory: Memory, offset: int, size: int) -> None:
        """A store to the mailbox, which the normal world reads: on any core, through no cache."""
        line = memory.first * LINE + offset
        if self._is_answered:
            self.say(Rule.ANSWER_CHANGES, line)
        if offset == MAILBOX_RESPONSE_AT:  # where the magic is
            self._is_answered = True
            if memory.stores:
                self.say(Rule.CONTENT_AFTER_ANSWER, line)
            self._say_of(Rule.ANSWER_IS_CACHED, memory, memory.whole, (memory.all & DIRTY) > 0)

    def gpu(self, pages: dict[int, npt.NDArray[np.uint8]]) -> None:
        """What the GPU accessed since the last call, as its access map says."""
        memory = self.memories["carveout"]
        self._jobs += 1
        for page, flags in pages.items():
            part = memory.part(page, page + PAGE_BYTES)
            bits, lines = memory.all[part], flags.reshape(-1, LINE)
            if len(bits) != len(lines):
                continue  # not the carve-out's: the core's policy is about that
            wrote = ((lines & ACCESS_WRITTEN) > 0).any(axis=1)
            reached = (lines > 0).any(axis=1)
            self._say_of(Rule.GPU_MEETS_DIRTY, memory, part, reached & ((bits & (DIRTY | OLD)) > 0))
            self._say_of(Rule.GPU_IN_CACHED, memory, part, reached & ((bits & CACHED) > 0))
            bits[wrote & ((bits & CACHED) > 0)] |= STALE
            bits[wrote] |= BY_GPU
            memory.jobs.update(dict.fromkeys(np.flatnonzero(wrote) + part.start, self._jobs))

    def register_read(self) -> None:
        """A register of a device was read: it may say that the GPU has ended."""
        self._asked = self._jobs

    def register_written(self, address: int) -> None:
        """A register of the GPU is written: it may start to read what was stored."""
        if self.memories["carveout"].stores:
            self.say(Rule.STORE_AFTER_DOORBELL, address)

    def barrier(self, barrier: Barrier) -> None:
        """A DSB, DMB or ISB ends."""
        if barrier.is_isb:
            self._written.clear()
            self._was_synchronised = True
            return
        if barrier.stores:
            for memory in self.memories.values():
                memory.stores = 0
        if barrier.loads:
            self._ordered = self._asked
        if barrier.completes:
            for memory, part, what in self._under_way:
                self._done(memory, part, what)
            self._under_way.clear()

    def maintain(self, what: Maintenance, start: int = 0, end: int = 0) -> None:
        """Maintenance begins: of lines, or of all translations or instructions."""
        if not self.is_coherent:
            self.say(Rule.NOT_COHERENT, start)
        if "SCTLR_EL3" in self._written:
            self.say(Rule.NOT_IN_EFFECT, start)
        for memory in self.memories.values():
            part = memory.part(start, end)
            if part.start < part.stop or what in self._forgotten:
                self._under_way.append((memory, part, what))

    def _done(self, memory: Memory, part: slice, what: Maintenance) -> None:
        if what in self._forgotten:
            self._forgotten[what] = True
            return
        bits = memory.all[part]
        old, dirty = (bits & OLD) > 0, (bits & DIRTY) > 0
        if what is Maintenance.INVALIDATE:
            self._say_of(Rule.WRITTEN_IS_DROPPED, memory, part, dirty)
            if memory.name == "mailbox":
                self._say_of(Rule.REQUEST_IS_DROPPED, memory, part, old)
        elif memory.name == "rom":
            self._say_of(Rule.CODE_IS_OVERWRITTEN, memory, part, old)
        if what is Maintenance.CLEAN:
            bits[old] |= STALE
            bits &= 0xFF ^ (DIRTY | OLD)
        else:
            bits &= 0xFF ^ (DIRTY | OLD | STALE)

    def system_register(self, name: str) -> None:
        """One that translates addresses is written; an ISB puts it into effect."""
        self._written.add(name)

    def switch(self, is_on: bool, spans: Iterable[Span]) -> None:
        """SCTLR_EL3 is written; `spans` are what the tables map, when MMU and caches go on."""
        if is_on and not self.is_on:
            self._switch_on(spans)
        if not is_on:
            for memory in self.memories.values():
                memory.all &= 0xFF ^ CACHED
        self.is_on = is_on
        self._written.add("SCTLR_EL3")

    def _switch_on(self, spans: Iterable[Span]) -> None:
        if self._written:
            self.say(Rule.NOT_IN_EFFECT, 0)
        if not self.is_coherent:
            self.say(Rule.NOT_COHERENT, 0)
        if self._under_way:
            self.say(Rule.UNDER_WAY, 0)
        for what, rule in (
            (Maintenance.TRANSLATIONS, Rule.OLD_TRANSLATIONS),
            (Maintenance.INSTRUCTIONS, Rule.OLD_INSTRUCTIONS),
        ):
            if not self._forgotten[what]:
                self.say(rule, 0)
        for span in spans:
            if not span.is_cached:
                continue
            for memory in self.memories.values():
                part = memory.part(span.address, span.address + span.bytes)
                bits = memory.all[part]
                self._say_of(Rule.CACHED_WHILE_OLD, memory, part, (bits & (OLD | STALE)) > 0)
                bits |= CACHED | (DIRTY if span.is_writable else 0)  # the worst case: all of it, from now on

    def counter_read(self) -> None:
        """CNTPCT_EL0 is read."""
        if not self._was_synchronised:
            self.say(Rule.EARLY_CLOCK, 0)
        self._was_synchronised = False

    def end(self) -> None:
        """The firmware has ended: another stage, or nothing, follows, which reads memory."""
        if self.is_on:
            self.say(Rule.STAYS_ON, 0)
        for memory in self.memories.values():
            self._say_of(Rule.NEXT_STAGE_MISSES, memory, memory.whole, (memory.all & DIRTY) > 0)
