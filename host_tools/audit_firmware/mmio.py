# SPDX-License-Identifier: BSD-2-Clause
"""Stores to devices: which registers each can reach, and the checks on the way to it.

A store has a constant address, or one that is computed from a constant, or goes through a pointer. Those of the
first kind are compared with the registers that the nano driver writes. Those of the second kind, anchored in the
GPU's window, must be guarded by the look-up in the allow list: on every way to the store the look-up was made, its
result was tested, and what is stored was compared and computed with the limits that it gave. Where a pointer that
is in memory leads is not followed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from host_tools.audit_firmware.flow import Flow
from host_tools.audit_firmware.graph import reachable
from host_tools.audit_firmware.instructions import FLAGS, ZERO, Instruction, Register
from host_tools.audit_firmware.masking import is_masked
from host_tools.audit_firmware.places import SMALL, Places
from host_tools.audit_firmware.program import Function, Program
from host_tools.audit_firmware.ranges import Root, Value
from host_tools.audit_firmware.values import MAX_CALLERS, Frame, Values

FIXED, COMPUTED, POINTER, STACK = "fixed", "computed", "pointer", "stack"
MAX_ADDRESSES = 512  # that are looked at one by one


@dataclass(frozen=True)
class Store:
    """A store, on one way to it.

    Attributes:
        at: its address.
        way: call sites that lead to it, the innermost first.
        kind: FIXED, COMPUTED, POINTER or STACK.
        region: device or memory that it goes to; "" where that is not known.
        addresses: all that it can reach, of a FIXED one.
        frame: the way as frames.
    """

    at: int
    way: tuple[int, ...]
    kind: str
    region: str
    addresses: tuple[int, ...]
    frame: Frame


@dataclass(frozen=True)
class Guard:
    """What was found on every way to a store with a computed address; addresses, None where there is none.

    Attributes:
        lookup: the look-up in the allow list.
        found: the branch on whether it found the register.
        compared: the branch that compares the value with the limits.
        masked: whether the value that is stored was computed with the limits, and by nothing after that.
    """

    lookup: int | None
    found: int | None
    compared: int | None
    masked: bool

    @property
    def missing(self) -> list[str]:
        """What is not there, in words."""
        rows = (
            (self.lookup, "the look-up of the register in the allow list"),
            (self.found, "the test of its result"),
            (self.compared, "the comparison of the value with the register's limits"),
            (self.masked or None, "the limits as the last that changes the value"),
        )
        return [text for present, text in rows if present is None]


class Stores:
    """The stores of a program."""

    def __init__(
        self,
        program: Program,
        values: Values,
        flows: Mapping[int, Flow],
        places: Places,
        finders: frozenset[int],
        checkers: frozenset[int],
    ) -> None:
        """Take what has been found out.

        Args:
            program, values, flows: of it.
            places: devices and memory.
            finders: functions that look a register up in the allow list.
            checkers: these, and those that call them: they judge a whole action.
        """
        self._program, self._values, self._flows, self._places = program, values, flows, places
        self._finders, self._checkers = finders, checkers

    def all(self) -> Iterator[Store]:
        """Every store of every function that can run, on every way to it that matters."""
        for function in self._program.running:
            for at in sorted(function.instructions):
                row = function.instructions[at]
                if row.is_store:
                    yield from self._ways(row, Frame(function), ())

    def _ways(self, row: Instruction, frame: Frame, way: tuple[int, ...]) -> Iterator[Store]:
        value = self._values.address(frame, row)
        callers = self._program.callers(frame.outermost)
        depends = any(kind == "param" for kind, _ in value.roots) and not value.is_on_stack
        if depends and callers and len(way) < MAX_CALLERS:
            inside = {place.function.start for place in frame.chain}
            for caller, call in callers:
                if caller.start not in inside:
                    yield from self._ways(row, frame.extended(Frame(caller), call.at), (*way, call.at))
            return
        yield self._classified(row, frame, way, value)

    def _classified(self, row: Instruction, frame: Frame, way: tuple[int, ...], value: Value) -> Store:
        def store(kind: str, region: str = "", addresses: tuple[int, ...] = ()) -> Store:
            return Store(row.address, way, kind, region, addresses, frame)

        if value.is_on_stack:
            return store(STACK)
        count = (value.high - value.low) // (value.step or 1) + 1
        if count <= MAX_ADDRESSES and (value.is_single or value.low >= SMALL):
            addresses = tuple(range(value.low, value.high + 1, value.step or 1))
            names = {self._places.of(address) for address in addresses}
            return store(FIXED, names.pop() if len(names) == 1 else "", addresses)
        name = self._places.of_sum(value.low, value.roots)
        return store(COMPUTED, name) if name else store(POINTER)

    def guard(self, store: Store, *, of_action: bool = False) -> Guard:
        """The checks on every way to a store with a computed address, in its function or in one on the way.

        Args:
            store: which.
            of_action: a check of the whole action counts as well.
        """
        best = Guard(None, None, None, False)
        places = [store.at, *store.way]
        for frame, at in zip(store.frame.chain, places, strict=False):
            for lookup in self._lookups(frame.function, self._checkers if of_action else self._finders):
                if not self._dominates(frame.function, lookup, at):
                    continue
                found, compared = self._tests(frame, lookup, at)
                guard = Guard(lookup, found, compared, self._is_masked(store, lookup))
                if len(guard.missing) < len(best.missing):
                    best = guard
        return best

    def _is_masked(self, store: Store, lookup: int) -> bool:
        row = store.frame.function.instructions[store.at]
        return is_masked(self._flows, self._values, store.frame, store.at, row.registers[0], lookup)

    def address(self, store: Store) -> Value:
        """Where a store goes, on its way."""
        return self._values.address(store.frame, store.frame.function.instructions[store.at])

    @staticmethod
    def _lookups(function: Function, wanted: frozenset[int]) -> list[int]:
        return [call.at for call in function.calls if call.target in wanted and not call.is_jump]

    @staticmethod
    def _dominates(function: Function, at: int, place: int) -> bool:
        """Whether every way to `place` passes `at`."""
        first, last = function.block_of[at], function.block_of[place]
        if first == last:
            return at < place
        return last not in reachable([function.start], lambda to: function.blocks[to].successors, {first})

    def _tests(self, frame: Frame, lookup: int, at: int) -> tuple[int | None, int | None]:
        """Branches that keep execution from `at`: on the look-up's result, and on the limits that it leads to."""
        function = frame.function
        target = function.block_of[at]
        found = compared = None
        for start, block in sorted(function.blocks.items()):
            branch = block.last
            if not branch.is_conditional or not self._dominates(function, branch.address, at):
                continue
            ways = [
                to
                for to in block.successors
                if target in reachable([to], lambda place: function.blocks[place].successors, {start})
            ]
            if len(ways) == len({branch.target, branch.end}):
                continue  # it leads there either way
            roots = self._condition(frame, branch.address, branch)
            if ("call", lookup) in roots:
                found = branch.address
            if ("via", lookup) in roots:
                compared = branch.address
        return found, compared

    def _condition(self, frame: Frame, at: int, row: Instruction, depth: int = 0) -> set[Root]:
        """What a branch depends on."""
        roots: set[Root] = set()
        for place in row.reads:
            if place != FLAGS:
                if place != ZERO:
                    roots |= self._values.register(frame, at, Register(place, True)).roots
                continue
            for source in self._flows[frame.function.start].sources(at, FLAGS):
                maker = frame.function.instructions.get(source)
                if maker is not None and depth < 8:
                    roots |= self._condition(frame, source, maker, depth + 1)
        return roots
