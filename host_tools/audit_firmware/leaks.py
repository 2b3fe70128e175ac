# SPDX-License-Identifier: BSD-2-Clause
"""Copies of the carve-out to the normal world: by calls, by loops, and by what goes there anyway: the report and
the log's entries. The replayer keeps what it knows of its memory and of the callers' buffers on the stack
(`pointers.py`), so a copy between two of those pointers is seen as one between two fixed addresses.

Slots leave the carve-out through the GPU's page table: what a look-up there gave is a part of the address.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from host_tools.audit_firmware.analysis import Analysis
from host_tools.audit_firmware.pointers import memories, ways
from host_tools.audit_firmware.ranges import Value, anything
from host_tools.audit_firmware.rules import RULES, FirmwareFinding
from host_tools.audit_firmware.sources import loads_behind
from host_tools.audit_firmware.values import Frame

TRANSLATE = "gr_driver_translate"
TO, FROM, SIZE = range(3)  # arguments of memcpy and the like
LAST_ARGUMENT = 7  # of those in registers (AAPCS64, 6.8.2)
NO_END = 1 << 32
DIRECT = "a copy to the mailbox of what was read from the carve-out"
ON_WAY = "a copy of what was read from the carve-out, to what is then copied to the mailbox"


@dataclass(frozen=True)
class Copy:
    """A store or a call that may copy, on one way to it, and where it goes."""

    at: int
    frame: Frame
    to: Value


@dataclass(frozen=True)
class Outgoing:
    """A part of a function's frame that is copied to the mailbox: offsets from `low` to `end`."""

    start: int
    low: int
    end: int

    def has(self, address: Value) -> bool:
        """Whether an address lies in it."""
        start, low = address.cell
        return start == self.start and self.low <= low < self.end


class Leaks:
    """What leaves the carve-out."""

    def __init__(self, analysis: Analysis) -> None:
        self._program, self._places = analysis.program, analysis.places
        self._values, self._flows = analysis.values_with_pointers, analysis.flows
        calls = [(call.target, call.at) for function in self._program.running for call in function.calls]
        names = {start: row.name.partition(".")[0] for start, row in self._program.functions.items()}
        # Where it is a part of its callers, or has no name, any answer counts, and any row of a table.
        self._lookups = frozenset(at for target, at in calls if names.get(target or 0) == TRANSLATE)

    def findings(self) -> Iterator[FirmwareFinding]:
        """Each copy once; of a call that copies, not what the function that it calls does for it."""
        copies = list(self._copies())
        outgoing = {part for copy in copies for part in self._outgoing(copy)}
        found: dict[int, str] = {}
        for copy in copies:
            is_direct = self._is_shared(copy.to)
            is_on_way = not is_direct and any(part.has(copy.to) for part in outgoing)
            if {copy.at, *(place.call_at for place in copy.frame.chain)} & found.keys():
                continue
            if not (is_direct or is_on_way):
                continue
            if self._is_secret(copy, downwards=is_direct):
                found[copy.at] = DIRECT if is_direct else ON_WAY
        for at, text in sorted(found.items()):
            yield FirmwareFinding(RULES["GF505"], text, self._program.name(at), at)

    @cached_property
    def _copiers(self) -> frozenset[int]:
        """Functions that store through their first argument what they load through the second, as memcpy does."""
        return frozenset(
            function.start
            for function in self._program.running
            for at, row in function.instructions.items()
            if row.is_store
            and ("param", TO) in self._values.address(Frame(function), row).roots
            and any(("param", FROM) in source.roots for source in self._sources(at, Frame(function)))
        )

    def _is_shared(self, address: Value) -> bool:
        return "mailbox" in memories(self._places, address)

    def _copies(self) -> Iterator[Copy]:
        """Calls, then stores, that go to the mailbox or to the stack."""
        running = self._program.running
        places = [(row, call.at) for row in running for call in row.calls if call.target in self._copiers]
        places += [(row, at) for row in running for at, item in row.instructions.items() if item.is_store]
        for function, at in places:

            def to(frame: Frame, at: int = at) -> Value:
                row = frame.function.instructions[at]
                return self._values.address(frame, row) if row.is_store else self._values.register(frame, at, TO)

            for frame in ways(self._program, Frame(function), lambda frame: to(frame).is_open):
                if self._is_shared(to(frame)) or to(frame).cell[0] >= 0:
                    yield Copy(at, frame, to(frame))

    def _is_secret(self, copy: Copy, *, downwards: bool) -> bool:
        """Whether it copies what lies in the carve-out, from a place that no look-up in the page table gave. The
        trace's head and its actions, at the end, are no secret of the report's: it names the action that failed.
        """
        return any(
            "carveout" in memories(self._places, source, downwards=downwards)
            and not self._is_looked_up(frame, source)
            for frame in ways(self._program, copy.frame, lambda frame: self._is_open(copy.at, frame))
            for source in self._sources(copy.at, frame)
        )

    def _is_looked_up(self, frame: Frame, address: Value) -> bool:
        if self._lookups:
            return any(kind in ("call", "via") and at in self._lookups for kind, at in address.roots)
        return any(kind in ("call", "via", "carveout") for kind, _ in address.roots) or any(
            "carveout" in memories(self._places, self._values.address(place, row))
            for kind, at in address.roots
            for place in frame.chain
            if kind == "load" and (row := place.function.instructions.get(at)) is not None and row.memory
        )

    def _is_open(self, at: int, frame: Frame) -> bool:
        return any(source.is_open for source in self._sources(at, frame))

    def _sources(self, at: int, frame: Frame) -> Iterator[Value]:
        """Where what is copied may come from: addresses."""
        row = frame.function.instructions[at]
        if not row.is_store:
            yield from self._values.each(frame, at, FROM)
            return
        for place, load in loads_behind(self._flows, frame, at, (item.number for item in row.registers)):
            if load is None:
                yield anything(frozenset((("param", 0),)))
            elif load.memory:
                yield self._values.address(place, load)

    def _outgoing(self, copy: Copy) -> Iterator[Outgoing]:
        """What of the stack a copy to the mailbox takes along."""
        if not self._is_shared(copy.to):
            return
        row = copy.frame.function.instructions[copy.at]
        if not row.is_store:
            size = self._values.register(copy.frame, copy.at, SIZE)
            source = self._values.register(copy.frame, copy.at, FROM)
            yield from _part(source, size.low if size.is_single else NO_END)
            return
        for frame, load in loads_behind(self._flows, copy.frame, copy.at, (item.number for item in row.registers)):
            if load is not None and load.memory:
                source = self._values.address(frame, load)
                yield from _part(source, load.access_bytes if source.is_single else NO_END)
                yield from self._handed_over(source)

    def _handed_over(self, source: Value) -> Iterator[Outgoing]:
        """What functions are given whose calls are not known: at each call through a register."""
        for kind, number in source.roots:
            if kind != "param" or number > LAST_ARGUMENT:
                continue
            for function in self._program.running:
                for call in function.calls:
                    if call.target is None:
                        yield from _part(self._values.register(Frame(function), call.at, number), NO_END)


def _part(address: Value, size: int) -> Iterator[Outgoing]:
    start, low = address.cell
    if start >= 0:
        yield Outgoing(start, low, low + size)
