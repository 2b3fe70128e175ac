# SPDX-License-Identifier: BSD-2-Clause
"""What a register can hold: a range of numbers with a step, and what it was computed from.

A value that depends on a parameter is looked up at the call that leads to it, so a function that writes to the
address it is given has one answer for each way to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from host_tools.audit_firmware.bounds import Bounds
from host_tools.audit_firmware.flow import AT_ENTRY, Flow
from host_tools.audit_firmware.instructions import SP, ZERO, Instruction, Register
from host_tools.audit_firmware.places import Places
from host_tools.audit_firmware.program import Function, Program
from host_tools.audit_firmware.ranges import (
    LONG,
    WORD,
    Cell,
    Root,
    Value,
    added,
    anything,
    fit,
    joined,
    multiplied,
    number,
    shifted,
    subtracted,
)

MAX_CALLERS = 6  # levels of calls that a value is followed through
MAX_DEPTH = 60  # of what a value is computed from
MAX_MOVES = 6  # that are told apart


@dataclass(frozen=True)
class Frame:
    """A way to a function: the call, and the way to its caller; None: no caller is looked at."""

    function: Function
    caller: Frame | None = None
    call_at: int = 0

    @property
    def chain(self) -> Iterator[Frame]:
        """It and those on the way to it."""
        found: Frame | None = self
        while found is not None:
            yield found
            found = found.caller

    @cached_property
    def _hash(self) -> int:
        return hash((self.function, self.caller, self.call_at))

    def __hash__(self) -> int:
        """Computed once: ways are looked up all the time."""
        return self._hash

    @property
    def outermost(self) -> Function:
        """Where the way begins."""
        return self.function if self.caller is None else self.caller.outermost

    def extended(self, outermost: Frame, call_at: int) -> Frame:
        """The same way, one call longer: `outermost` makes that call."""
        if self.caller is None:
            return Frame(self.function, outermost, call_at)
        return Frame(self.function, self.caller.extended(outermost, call_at), self.call_at)


class Values:
    """Answers what registers can hold."""

    def __init__(
        self,
        program: Program,
        flows: Mapping[int, Flow],
        stack_before: Mapping[int, Mapping[int, int]],
        bounds: Bounds | None = None,
        cells: Mapping[int, int] | None = None,
        places: Places | None = None,
        pointers: Mapping[Cell, Value] | None = None,
    ) -> None:
        """Take what has been found out.

        Args:
            program, flows: of it.
            stack_before: the stack pointer at each instruction, by function.
            bounds: limits of counters.
            cells: address of a variable -> what it is taken to hold.
            places: devices and memory; None: what is loaded from where is not looked at.
            pointers: what pointers that lie on the stack may be (`pointers.py`).
        """
        self._program = program
        self._flows = flows
        self._stack = stack_before
        self._bounds = bounds
        self._cells = cells or {}
        self._places = places or Places({})
        self._pointers = pointers
        self._active: set[tuple[Frame, int, int]] = set()
        self._known: dict[tuple[Frame, int, int], Value] = {}

    def register(self, frame: Frame, at: int, register: Register | int, depth: int = 0) -> Value:
        """What a register, shifted as its operand says, can hold before the instruction at `at`."""
        if isinstance(register, int):
            register = Register(register, True)
        if register.number == ZERO:
            return number(0)
        if register.number == SP:
            offset = self._stack[frame.function.start].get(at, 0)
            return Value(offset, offset, 0, frozenset((("stack", frame.function.start),)))
        value = self._place(frame, at, register.number, depth)
        if not register.is_64 or register.change in ("uxtw", "sxtw"):
            value = fit(value.low, value.high, value.step, value.roots, WORD)
        return shifted(value, register, LONG if register.is_64 or register.change else WORD)

    def each(self, frame: Frame, at: int, number: int, depth: int = 0) -> Iterator[Value]:
        """What a register can hold before an instruction, by what made it, through moves and the frame's calls."""
        for source in sorted(self._flows[frame.function.start].sources(at, number)):
            row = frame.function.instructions.get(source)
            if depth < MAX_MOVES and source == AT_ENTRY and frame.caller is not None:
                yield from self.each(frame.caller, frame.call_at, number, depth + 1)
            elif depth < MAX_MOVES and row is not None and _is_move(row):
                yield from self.each(frame, source, row.registers[1].number, depth + 1)
            else:
                yield self._made(frame, source, number, at, 1)

    def address(self, frame: Frame, row: Instruction) -> Value:
        """Where a load or store goes."""
        memory = row.memory
        assert memory is not None
        value = self.register(frame, row.address, memory.base)
        value = added(value, Value(memory.offset, memory.offset, 0))
        if memory.scaled:
            value = added(value, self.register(frame, row.address, memory.scaled))
        return value

    def result(self, frame: Frame, row: Instruction) -> Value:
        """What an instruction leaves in the first register that it writes."""
        return self._computed(frame, row, row.writes[0], 0)

    def _place(self, frame: Frame, at: int, place: int, depth: int) -> Value:
        flow = self._flows[frame.function.start]
        sources = sorted(flow.sources(at, place))
        if depth > MAX_DEPTH:
            return anything()
        return joined([self._made(frame, source, place, at, depth + 1) for source in sources])

    def _made(self, frame: Frame, source: int, place: int, use: int, depth: int) -> Value:
        """What an instruction left in a register, as the instruction at `use` finds it."""
        if source == AT_ENTRY:
            if frame.caller is not None:
                return self._place(frame.caller, frame.call_at, place, depth)
            return anything(frozenset((("param", place),)))
        key = frame, source, place
        if key in self._known:
            return self._known[key]
        if key in self._active:
            return anything(frozenset((("loop", source),)))
        row = frame.function.instructions[source]
        self._active.add(key)
        try:
            value = self._computed(frame, row, place, depth)
            if not value.has("loop"):
                self._known[key] = value
                return value
            # Still active: two counters may each be what the other begins with.
            return self._bounded(frame, row, place, use, value)
        finally:
            self._active.discard(key)

    def _bounded(self, frame: Frame, row: Instruction, place: int, use: int, value: Value) -> Value:
        """A counter, between its first value and the limit that its loop compares it with."""
        bound = self._bounds.of(frame.function, row, place) if self._bounds else None
        if bound is None:
            return value
        outside = [at for at in self._flows[frame.function.start].sources(row.address, place) if at != row.address]
        first = [self._made(frame, at, place, row.address, MAX_DEPTH - 2) for at in outside]
        limit = self.register(frame, bound.test.address, bound.limit)
        if not first or not all(item.is_single for item in first) or not limit.is_single:
            return value
        if any(item.is_on_stack != limit.is_on_stack for item in first):
            return value
        low = min(item.low for item in first) + bound.step
        last = limit.low if bound.is_inclusive or bound.is_before_test(use) else limit.low - bound.step
        return Value(low, max(low, last), bound.step, limit.roots)

    def _computed(self, frame: Frame, row: Instruction, place: int, depth: int) -> Value:
        name, operands, at = row.mnemonic, row.operands, row.address
        memory = row.memory
        if (
            memory
            and memory.mode
            and place == memory.base
            and (row.is_store or place not in [reg.number for reg in row.registers])
        ):
            return added(self.register(frame, at, place, depth), Value(memory.step, memory.step, 0))
        if name in ("bl", "blr"):
            return anything(frozenset((("call", at),)))
        if name in ("mrs",):
            return anything(frozenset((("system", at),)))
        if row.is_load:
            return self._loaded_value(frame, row, place, depth)
        if not row.registers:
            return anything()
        limit = LONG if row.registers[0].is_64 else WORD
        rest = [
            self.register(frame, at, item, depth) if isinstance(item, Register) else number(item)
            for item in operands[1:]
            if isinstance(item, Register | int)
        ]
        return self._result(frame, row, rest, limit, depth)

    def _result(self, frame: Frame, row: Instruction, rest: list[Value], limit: int, depth: int) -> Value:
        name = row.mnemonic.removesuffix("s") if row.mnemonic in ("adds", "subs", "ands", "bics") else row.mnemonic
        roots: frozenset[Root] = frozenset().union(*(value.roots for value in rest)) if rest else frozenset()
        if name in ("mov", "adr", "adrp", "movz", "movn") and rest:
            return fit(rest[0].low, rest[0].high, rest[0].step, rest[0].roots, limit)
        if name == "movk":
            return self._kept(frame, row, depth)
        if name == "add":
            return added(rest[0], rest[1], limit)
        if name == "sub":
            return subtracted(rest[0], rest[1], limit)
        if name in ("mul", "umull") and len(rest) == 2:
            return multiplied(rest[0], rest[1], LONG if name == "umull" else limit)
        if name in ("madd", "umaddl") and len(rest) == 3:
            return added(multiplied(rest[0], rest[1], limit), rest[2], limit)
        if name == "and":
            singles = [value.low for value in rest if value.is_single]
            if len(singles) == 2:
                return number(singles[0] & singles[1])
            high = min([value.high for value in rest] + singles)
            step = (singles[0] & -singles[0]) if singles and singles[0] else 1
            return Value(0, high - high % step, step, roots) if high else number(0)
        if name == "orr" and all(value.is_single for value in rest):
            return Value(rest[0].low | rest[1].low, rest[0].low | rest[1].low, 0, roots)
        if name in ("lsl", "lsr") and rest[1].is_single:
            change = Register(0, limit == LONG, name, rest[1].low)
            return shifted(rest[0], change, limit)
        if name == "ubfx" and len(rest) == 3:
            field = shifted(rest[0], Register(0, True, "lsr", rest[1].low), limit)
            top = (1 << rest[2].low) - 1
            return field if field.high <= top else anything(roots, top)
        if name == "ubfiz" and len(rest) == 3:
            top = (1 << rest[2].low) - 1
            value = rest[0] if rest[0].high <= top else anything(roots, top)
            return shifted(value, Register(0, True, "lsl", rest[1].low), limit)
        if name in ("uxtb", "uxth", "uxtw"):
            top = {"uxtb": 0xFF, "uxth": 0xFFFF, "uxtw": WORD}[name]
            return rest[0] if rest[0].high <= top else anything(roots, top)
        if name == "csel" and len(rest) == 2:
            return joined(rest)
        if name == "cset":
            return Value(0, 1, 1, roots)
        if name in ("csinc", "cinc"):
            return joined([rest[0], added(rest[-1], number(1), limit)])
        return anything(roots, limit)

    def _kept(self, frame: Frame, row: Instruction, depth: int) -> Value:
        target, part = row.registers[0], row.operands[1]
        old = self.register(frame, row.address, target.number, depth)
        assert isinstance(part, int)
        shift = int(row.text.rpartition("#")[2], 0) if "lsl" in row.text else 0
        if not old.is_single:
            return anything(old.roots)
        return number(old.low & ~(0xFFFF << shift) | part << shift)

    def _loaded_value(self, frame: Frame, row: Instruction, place: int, depth: int) -> Value:
        """A constant from read-only memory, what was put on the stack, or anything."""
        image = self._program.image
        size = row.access_bytes // 2 if row.mnemonic == "ldp" else row.access_bytes
        place_in_pair = [reg.number for reg in row.registers[:2]].index(place) if row.mnemonic == "ldp" else 0
        top = (1 << 8 * size) - 1
        roots: frozenset[Root] = frozenset((("load", row.address),))
        literal = next((item for item in row.operands if isinstance(item, int)), None)
        slots = self._flows[frame.function.start].slots.get(row.address)
        if row.memory is None and literal is not None:
            where = number(literal)
        elif slots:
            slot = slots[min(place_in_pair, len(slots) - 1)]
            found = self._spilled(frame, row, slot, roots, top, depth)
            kept = (self._pointers or {}).get((frame.function.start, slot[1]))
            return kept if kept is not None and not found.is_single and not found.is_on_stack else found
        elif row.memory is not None:
            where = self.register(frame, row.address, row.memory.base, depth)
            where = added(where, Value(row.memory.offset, row.memory.offset, 0))
            if row.memory.scaled:
                where = added(where, self.register(frame, row.address, row.memory.scaled, depth))
        else:
            return anything(roots, top)
        if (kept := (self._pointers or {}).get(where.cell)) is not None and place_in_pair == 0:
            return kept
        if where.is_single and not where.is_on_stack and where.low in self._cells:
            return number(self._cells[where.low])
        if where.is_single and not where.is_on_stack and not row.mnemonic.startswith("ldrs"):
            data = image.read(where.low + place_in_pair * size, size)
            if len(data) == size and not image.is_writable(where.low):
                return number(int.from_bytes(data, "little"))
        if (told := self._places.told_by(where.low, where.roots)) is not None:
            roots = frozenset(((told, row.address),))
        via = frozenset(("via", at) for kind, at in where.roots if kind in ("call", "via"))
        if self._pointers is not None:
            via |= {("through", number) for kind, number in where.roots if kind in ("param", "through")}
        return anything(roots | via, top if not row.mnemonic.startswith("ldrs") else LONG)

    def _spilled(
        self, frame: Frame, row: Instruction, slot: tuple[str, int], roots: frozenset[Root], top: int, depth: int
    ) -> Value:
        found = []
        flow = self._flows[frame.function.start]
        for source in flow.sources(row.address, slot):
            store = frame.function.instructions.get(source)
            if store is not None and store.mnemonic == "bl" and self._copies_mailbox(frame, source, slot, depth):
                return anything(frozenset((("mailbox", row.address),)), top)
            if store is None or slot not in flow.slots.get(source, ()) or depth > MAX_DEPTH:
                return anything(roots, top)
            place = flow.slots[source].index(slot)
            key = frame, source, -2
            if key in self._active:
                return anything(roots | {("loop", source)}, top)
            self._active.add(key)
            try:
                found.append(self.register(frame, source, store.registers[place], depth + 1))
            finally:
                self._active.discard(key)
        value = joined(found)
        return Value(value.low, value.high, value.step, value.roots | roots)

    def _copies_mailbox(self, frame: Frame, call: int, slot: tuple[str, int], depth: int) -> bool:
        """Whether a call is given a place on the stack, up to the slot, and one in the mailbox, as memcpy is."""
        to, source = (self.register(frame, call, number, depth + 1) for number in (0, 1))
        is_shared = self._places.told_by(source.low, source.roots) == "mailbox"
        return is_shared and to.is_on_stack and to.low <= slot[1]


def _is_move(row: Instruction) -> bool:
    return row.mnemonic == "mov" and len(row.registers) == 2 and row.registers[1].number not in (ZERO, SP)
