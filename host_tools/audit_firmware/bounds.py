# SPDX-License-Identifier: BSD-2-Clause
"""Limits of counters: the comparison that ends a loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from host_tools.audit_firmware.flow import Flow
from host_tools.audit_firmware.graph import reachable
from host_tools.audit_firmware.instructions import FLAGS, Instruction, Register
from host_tools.audit_firmware.loops import Loop
from host_tools.audit_firmware.program import Function

# Conditions under which a loop goes on, of `counter ? limit`, and whether the limit itself is among them.
_GOES_ON = {"lo": False, "lt": False, "ne": False, "ls": True, "le": True}
_OPPOSITE = {"hs": "lo", "ge": "lt", "eq": "ne", "hi": "ls", "gt": "le", "lo": "hs", "lt": "ge", "ne": "eq"}
_OPPOSITE |= {"ls": "hi", "le": "gt"}


@dataclass(frozen=True)
class Bound:
    """How far a counter goes.

    Attributes:
        loop: which.
        move: address of the instruction that adds the step.
        step: what it adds.
        test: the comparison with the limit.
        limit: a number, or the register that has it.
        is_inclusive: whether the counter may reach the limit and the loop goes on.
    """

    loop: Loop
    move: int
    step: int
    test: Instruction
    limit: Register
    is_inclusive: bool

    def is_before_test(self, use: int) -> bool:
        """Whether an instruction of the loop finds the moved counter before it was compared."""
        function = self.loop.function
        blocks = function.block_of
        if use not in blocks:
            return True
        first, last, tested = blocks[self.move], blocks[use], blocks[self.test.address]
        if first == last and self.move < use:
            return not (tested == first and self.move < self.test.address < use)
        if first == tested and self.move < self.test.address:
            return False
        return last in reachable(
            function.blocks[first].successors, lambda at: function.blocks[at].successors, {tested}
        )


class Bounds:
    """Limits of the counters of all loops."""

    def __init__(self, loops: Mapping[int, Sequence[Loop]], flows: Mapping[int, Flow]) -> None:
        self._loops, self._flows = loops, flows

    def of(self, function: Function, move: Instruction, place: int) -> Bound | None:
        """The limit of the counter that an instruction moves; None: it is not as simple."""
        operands = move.operands
        step = operands[2] if move.mnemonic == "add" and len(operands) == 3 else None
        if not isinstance(step, int) or step <= 0 or move.registers[0].number != place:
            return None
        if move.registers[1].number != place:
            return None
        for loop in sorted(self._loops.get(function.start, ()), key=lambda loop: len(loop.blocks)):
            if move.address not in loop.moves:
                continue
            for at in sorted(loop.blocks):
                found = self._test(loop, at, move, place)
                if found is not None:
                    return Bound(loop, move.address, step, *found)
        return None

    def _test(
        self, loop: Loop, at: int, move: Instruction, place: int
    ) -> tuple[Instruction, Register, bool] | None:
        branch = loop.function.blocks[at].last
        if not branch.mnemonic.startswith("b.") or branch.target is None:
            return None
        condition = branch.mnemonic[2:]
        if branch.target not in loop.blocks:
            condition = _OPPOSITE.get(condition, "")
        elif branch.end in loop.blocks:
            return None
        flow = self._flows[loop.function.start]
        sources = flow.sources(branch.address, FLAGS)
        test = loop.function.instructions.get(min(sources)) if len(sources) == 1 else None
        if test is None or test.mnemonic != "cmp" or condition not in _GOES_ON:
            return None
        counter, limit = test.registers[0], test.operands[1]
        if counter.number != place or move.address not in flow.sources(test.address, place):
            return None
        if isinstance(limit, Register):
            return test, limit, _GOES_ON[condition]
        return None
