# SPDX-License-Identifier: BSD-2-Clause
"""Loops, and what bounds each of them.

A loop has a visible bound when every way around it passes a branch out of it that depends on something which
moves in each iteration: a counter, a clock, what a function takes from a stream. That it moves towards its limit,
and not past it, is not proved, except where the loop runs the same way each time (loop_run.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass

from host_tools.audit_firmware import loop_run
from host_tools.audit_firmware.flow import Flow, Place
from host_tools.audit_firmware.graph import cycles, reachable
from host_tools.audit_firmware.instructions import SP, Instruction, Memory
from host_tools.audit_firmware.loop_facts import Second, consumers, guarded_constants
from host_tools.audit_firmware.program import Function, Program

CLOCK_REGISTERS = ("cntpct_el0", "cntvct_el0")
_MOVES = frozenset(("add", "sub", "adds", "subs", "lsr", "asr", "lsl", "cinc", "csinc", "madd", "msub", "orr"))
COUNTER, CLOCK, STREAM, EVENTS, NONE = "counter", "clock", "stream", "waits for an event", "no visible bound"
Node = tuple[int, int | str]  # an instruction, and which of its results: a register, or "memory"


@dataclass(frozen=True)
class Loop:
    """A loop.

    Attributes:
        function: that it is in.
        head: address of the first block that execution enters it by.
        blocks: starts of its blocks.
        kind: what bounds it: COUNTER, CLOCK, STREAM (what a function takes from it ends), EVENTS or NONE.
        moves: addresses of the instructions that move its counter.
    """

    function: Function
    head: int
    blocks: frozenset[int]
    kind: str
    moves: tuple[int, ...] = ()


@dataclass(frozen=True)
class Movers:
    """Functions whose results move by themselves: what reads a clock, and what takes from a stream."""

    clocks: frozenset[int]
    streams: frozenset[int]

    @classmethod
    def of(cls, program: Program) -> Movers:
        """Those of a program."""
        return cls(frozenset(_clocks(program)), frozenset(consumers(program)))


def _clocks(program: Program) -> set[int]:
    """Functions whose result comes from the counter: they read it themselves."""
    return {
        function.start
        for function in program.running
        if any(_reads_clock(row) for row in function.instructions.values())
        and len(function.instructions) < 32  # those that wait by it have loops of their own
    }


def loops(program: Program, function: Function, flow: Flow, movers: Movers) -> Iterator[Loop]:
    """All loops of a function, inner ones too."""
    pending = [frozenset(function.blocks)]
    while pending:
        inside = pending.pop()
        for blocks in cycles(sorted(inside), lambda at: function.blocks[at].successors):
            heads = _heads(function, blocks)
            yield _Judge(program, function, flow, movers, frozenset(blocks), heads).loop()
            pending.append(frozenset(blocks - heads))


def _reads_clock(row: Instruction) -> bool:
    return row.mnemonic == "mrs" and row.operands[-1] in CLOCK_REGISTERS


def _heads(function: Function, blocks: set[int]) -> set[int]:
    """Blocks that are entered from outside the loop."""
    found = {
        to
        for start, block in function.blocks.items()
        if start not in blocks
        for to in block.successors
        if to in blocks
    }
    return found | ({function.start} & blocks) or {min(blocks)}


class _Judge:
    """What bounds one loop."""

    def __init__(
        self,
        program: Program,
        function: Function,
        flow: Flow,
        movers: Movers,
        blocks: frozenset[int],
        heads: set[int],
    ) -> None:
        self._program, self._function, self._flow, self._movers = program, function, flow, movers
        self._blocks, self._heads = blocks, heads
        self._inside = {row.address: row for at in blocks for row in function.blocks[at].instructions}
        self._calls = {call.at: call for call in function.calls if call.at in self._inside}

    def loop(self) -> Loop:
        """The loop with its bound."""
        head = min(self._heads)
        exits = [at for at in self._blocks if self._leaves(at)]
        needs = {at: self._needs(self._function.blocks[at].last) for at in exits}
        by_clock = {at for at in exits if self._calls_of(needs[at], self._movers.clocks)}
        by_stream = {at for at in exits if self._calls_of(needs[at], self._movers.streams)}
        second = Second(self._function, self._flow, self._inside.keys())
        constants = guarded_constants(self._function, self._blocks)
        counters: dict[int, set[int]] = {}
        for at in exits:
            moving = self._moving(needs[at]) | {made for made, _ in needs[at] if made in constants}
            if moving and self._counts({self._function.block_of[move] for move in moving}, moving):
                counters[at] = moving
        once = {at for at in exits if second.leaves(self._function.blocks[at].last, self._blocks)}
        kind = NONE
        if any(row.mnemonic in ("wfi", "wfe") for row in self._inside.values()):
            kind = EVENTS
        elif self._counts(counters.keys() | once, set().union(*counters.values())) or self._is_executed():
            kind = COUNTER
        elif self._passes(counters.keys() | once | by_clock):
            kind = CLOCK
        elif self._passes(counters.keys() | once | by_clock | by_stream):
            kind = STREAM
        moves = tuple(sorted(set().union(*counters.values()))) if kind != NONE and counters else ()
        return Loop(self._function, head, self._blocks, kind, moves)

    def _is_executed(self) -> bool:
        return loop_run.ends(self._function, self._flow, self._blocks, self._heads)

    def _calls_of(self, nodes: set[Node], functions: frozenset[int]) -> bool:
        """Whether the result of one of these functions is among what a branch depends on."""
        return any(
            (at in self._calls and self._calls[at].target in functions)
            or (functions is self._movers.clocks and _reads_clock(self._inside[at]))
            for at, _ in nodes
        )

    def _leaves(self, at: int) -> bool:
        """Whether a block ends in a branch that can leave the loop."""
        block = self._function.blocks[at]
        row = block.last
        if not row.is_conditional:
            return False
        assert row.target is not None
        return row.target not in self._blocks or row.end not in self._blocks

    def _passes(self, places: Set[int]) -> bool:
        """Whether every way around the loop passes one of these blocks."""
        rest = self._blocks - places
        return not any(
            group & self._heads for group in cycles(sorted(rest), lambda at: self._function.blocks[at].successors)
        )

    def _counts(self, places: Set[int], moves: Set[int]) -> bool:
        """Whether every way around passes one of these blocks, or stays in a smaller loop that counts itself.

        Of two loops with the same head, one in the other, the inner one's end is none of the outer one. What
        moves the outer one's counter must not be in the inner one.
        """
        rest = self._blocks - places
        groups = cycles(sorted(rest), lambda at: self._function.blocks[at].successors)
        return all(
            len(group) < len(self._blocks)
            and not group & {self._function.block_of[move] for move in moves}
            and self._within(frozenset(group)).kind == COUNTER
            for group in groups
            if group & self._heads
        )

    def _within(self, blocks: frozenset[int]) -> Loop:
        heads = _heads(self._function, set(blocks))
        return _Judge(self._program, self._function, self._flow, self._movers, blocks, heads).loop()

    def _needs(self, branch: Instruction) -> set[Node]:
        """What a branch depends on, of what the loop computes."""
        pending = [node for place in branch.reads for node in self._makers(branch.address, place)]
        return reachable(pending, self._sources)

    def _makers(self, at: int, place: Place) -> list[Node]:
        kind: int | str = place if isinstance(place, int) else "memory"
        return [(source, kind) for source in self._flow.sources(at, place) if source in self._inside]

    def _sources(self, node: Node) -> list[Node]:
        """What an instruction's result is made of, inside the loop."""
        at, kind = node
        row = self._inside[at]
        if at in self._calls:
            return []
        memory = row.memory
        if memory and memory.mode and kind == memory.base and not (row.is_load and kind in _targets(row)):
            return self._makers(at, memory.base)
        if kind == "memory":
            return [made for reg in row.registers if reg.number >= 0 for made in self._makers(at, reg.number)]
        if row.is_load and memory:
            return [*self._stored(row, memory), *self._makers(at, memory.base), *self._indexed(at, memory)]
        return [made for place in row.reads if place != SP for made in self._makers(at, place)]

    def _indexed(self, at: int, memory: Memory) -> list[Node]:
        return self._makers(at, memory.scaled.number) if memory.scaled and memory.scaled.number >= 0 else []

    def _stored(self, row: Instruction, memory: Memory) -> list[Node]:
        """Stores in the loop to what a load reads: a place on the stack, or the same field of the same object."""
        slots = self._flow.slots.get(row.address, ())
        found = [made for slot in slots for made in self._makers(row.address, slot)]
        if slots or memory.scaled:
            return found
        bases = self._flow.sources(row.address, memory.base)
        if bases & self._inside.keys():
            return found
        for other in self._inside.values():
            place = other.memory
            if not other.is_store or place is None or place.scaled or place.mode:
                continue
            if self._flow.sources(other.address, place.base) != bases:
                continue
            first, last = place.offset, place.offset + other.access_bytes
            if first < memory.offset + row.access_bytes and memory.offset < last:
                found.append((other.address, "memory"))
        return found

    def _moving(self, nodes: set[Node]) -> set[int]:
        """Instructions that change, in each iteration, something that depends on itself."""
        found: set[int] = set()
        for group in cycles(sorted(nodes, key=str), self._sources):
            moves = {at for at, kind in group if self._moves(self._inside[at], kind)}
            found |= moves
        return found

    @staticmethod
    def _moves(row: Instruction, kind: int | str) -> bool:
        memory = row.memory
        if memory and memory.mode and kind == memory.base:
            return memory.step != 0
        return row.mnemonic in _MOVES


def _targets(row: Instruction) -> list[int]:
    return [reg.number for reg in row.registers]
