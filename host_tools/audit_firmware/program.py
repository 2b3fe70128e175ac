# SPDX-License-Identifier: BSD-2-Clause
"""The functions of a firmware, found by following its code from where execution starts.

Symbols give names and more starts of functions; without them the targets of calls are the functions. What no code
reaches is never taken for code, so constants between functions do no harm.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from host_tools.audit_firmware.image import Image
from host_tools.audit_firmware.instructions import BYTES, Decoder, Instruction

POINTER = 8
ENDS = frozenset(("b", "br", "ret", "eret", "brk"))  # what may lie before a function without symbols
NEVER_RETURN = ("__do_panic", "panic", "__stack_chk_fail", "abort")  # of OP-TEE's core, which is not looked at
MAX_TRIAL = 4096  # instructions that a word is followed for, to see whether it points at code


@dataclass
class Block:
    """Instructions that run one after the other; `successors` are blocks of the same function."""

    start: int
    instructions: list[Instruction]
    successors: list[int] = field(default_factory=list)

    @property
    def last(self) -> Instruction:
        """Its last instruction."""
        return self.instructions[-1]


@dataclass(frozen=True)
class Call:
    """A call, or a jump to another function; target None: through a register."""

    at: int
    target: int | None
    is_jump: bool


@dataclass(eq=False)
class Function:
    """A function.

    Attributes:
        start: its address.
        name: its symbol, else `at_` and the address.
        blocks: by address.
        calls: in the order of their addresses.
        returns: whether its caller continues.
        problems: places where its code leads nowhere, with words.
    """

    start: int
    name: str
    blocks: dict[int, Block] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    returns: bool = False
    problems: list[tuple[int, str]] = field(default_factory=list)

    @cached_property
    def instructions(self) -> dict[int, Instruction]:
        """All of them by address."""
        return {row.address: row for block in self.blocks.values() for row in block.instructions}

    @cached_property
    def block_of(self) -> dict[int, int]:
        """Address of an instruction -> start of its block."""
        return {row.address: start for start, block in self.blocks.items() for row in block.instructions}

    @property
    def bytes(self) -> int:
        """Size of its code."""
        return len(self.instructions) * BYTES


def _address_of_pair(page: Instruction, row: Instruction) -> int | None:
    """What `adrp` and the `add` behind it compute; None: they are no such pair."""
    last, base = row.operands[-1] if row.operands else None, page.operands[-1] if page.operands else None
    if page.mnemonic != "adrp" or row.mnemonic != "add" or not isinstance(last, int) or not isinstance(base, int):
        return None
    one = {register.number for register in (*page.registers, *row.registers)}
    return base + last if len(one) == 1 else None


class _NeedsFirst(Exception):
    """A function whose calls must be known before its caller can be followed."""


class Program:
    """All functions of an image.

    Attributes:
        image: what it was read from.
        functions: by address.
        taken: functions whose address is in a register or a constant: they can be called indirectly.
        literals: (address, size) of constants that code loads from beside itself.
        references: addresses that code computes.
    """

    def __init__(self, image: Image, scope: frozenset[int] | None = None) -> None:
        """Find the functions.

        Args:
            image: which.
            scope: only these functions are looked at, each as one that can run; None: all that can be reached.
        """
        self.image = image
        self.scope = scope
        self._decoder = Decoder()
        self._starts: set[int] = set(image.entries)
        self._starts |= {row.address for row in image.symbols if row.kind == "FUNC" and image.is_code(row.address)}
        self.functions: dict[int, Function] = {}
        self.taken: set[int] = set()
        self.literals: set[tuple[int, int]] = set()
        self.references: set[int] = set()
        size = -1
        while size != len(self._starts):  # a later function may turn a jump into a call
            size = len(self._starts)
            self.functions = {}
            for start in sorted(self._starts if scope is None else scope):
                self._explore_with_callees(start)
            self._find_taken()
        self.reached = self._reached()

    def name(self, address: int) -> str:
        """Function and offset of an address, in words."""
        for function in self.functions.values():
            if address in function.instructions:
                return (
                    function.name
                    if address == function.start
                    else f"{function.name}+{address - function.start:#x}"
                )
        return f"{address:#x}"

    def instruction(self, address: int) -> Instruction | None:
        """The instruction at an address of executable memory; None: none, or data."""
        if address % BYTES or not self.image.is_code(address) or self._is_data(address):
            return None
        return self._decoder.decode(address, self.image.read(address, BYTES))

    def callees(self, function: Function) -> Iterator[tuple[Call, Function]]:
        """Whom it can call; an indirect call can go to every function whose address is taken."""
        for call in function.calls:
            targets = [call.target] if call.target is not None else sorted(self.taken)
            for target in targets:
                if target in self.functions:
                    yield call, self.functions[target]

    def callers(self, function: Function) -> list[tuple[Function, Call]]:
        """Where it is called directly, by functions that can run."""
        return self._callers.get(function.start, [])

    @cached_property
    def _callers(self) -> dict[int, list[tuple[Function, Call]]]:
        found: dict[int, list[tuple[Function, Call]]] = {}
        for start in sorted(self.reached):
            for call in self.functions[start].calls:
                if call.target is not None:
                    found.setdefault(call.target, []).append((self.functions[start], call))
        return found

    @property
    def running(self) -> list[Function]:
        """Functions that can run, in the order of their addresses."""
        return [self.functions[start] for start in sorted(self.reached)]

    def _is_data(self, address: int) -> bool:
        """Whether mapping symbols say so (the last one at or before the address)."""
        marks = self.image.data_at
        low, high = 0, len(marks)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if marks[middle][0] <= address else (low, middle)
        return low > 0 and marks[low - 1][1]

    def _explore_with_callees(self, start: int) -> None:
        """Follow a function and, before it, those that it calls: whether they return decides what follows."""
        waiting = [start]
        while waiting:
            current = waiting[-1]
            if current in self.functions:
                waiting.pop()
                continue
            try:
                self.functions[current] = self._explored(current, frozenset(waiting))
                waiting.pop()
            except _NeedsFirst as need:
                waiting.append(need.args[0])

    def _returns(self, target: int, waiting: frozenset[int]) -> bool:
        if target in self.functions:
            return self.functions[target].returns
        if target in waiting or not self.image.is_code(target):
            return True  # recursion
        if self.scope is not None and target not in self.scope:
            return not self.image.names.get(target, "").startswith(NEVER_RETURN)
        raise _NeedsFirst(target)

    def _explored(self, start: int, waiting: frozenset[int]) -> Function:
        name = self.image.names.get(start, f"at_{start:x}")
        function = Function(start, name)
        found: dict[int, Instruction] = {}
        heads, pending, flow = {start}, [start], {}
        while pending:
            at = pending.pop()
            while at not in found:
                row = self.instruction(at)
                if row is None:
                    function.problems.append((at, "execution runs into what is no instruction"))
                    break
                found[at] = row
                follows = self._successors(function, row, waiting)
                flow[at] = follows
                if follows != [row.end]:
                    heads.update(follows)
                    pending += follows
                    break
                at = row.end
            else:
                heads.add(at)
        for at, follows in flow.items():
            if follows != [found[at].end] or found[at].ends_block:
                heads.add(found[at].end)
        self._cut(function, found, heads, flow)
        function.calls.sort(key=lambda call: call.at)
        return function

    def _successors(self, function: Function, row: Instruction, waiting: frozenset[int]) -> list[int]:
        """Where execution goes on in the same function; notes calls and returns."""
        if row.mnemonic in ("ret", "eret"):
            function.returns |= row.mnemonic == "ret"
            return []
        if row.mnemonic in ("brk", "br"):
            if row.mnemonic == "br":
                function.calls.append(Call(row.address, None, True))
                function.returns = True
            return []
        if row.mnemonic in ("bl", "blr"):
            target = row.target if row.mnemonic == "bl" else None
            if target is not None:
                self._starts.add(target)
            function.calls.append(Call(row.address, target, False))
            goes_on = target is None or self._returns(target, waiting)
            return self._onward(function, row, row.end, waiting) if goes_on else []
        if row.target is None:
            return self._onward(function, row, row.end, waiting)
        found = self._onward(function, row, row.target, waiting)
        if row.is_conditional:
            found += [at for at in self._onward(function, row, row.end, waiting) if at not in found]
        return found

    def _onward(self, function: Function, row: Instruction, to: int, waiting: frozenset[int]) -> list[int]:
        """An address in the same function, or none: it is another one's start."""
        if to == function.start or to not in self._starts:
            return [to]
        function.calls.append(Call(row.address, to, True))
        function.returns |= self._returns(to, waiting)
        return []

    @staticmethod
    def _cut(
        function: Function, found: dict[int, Instruction], heads: set[int], flow: dict[int, list[int]]
    ) -> None:
        """Cut what was found into blocks."""
        block = None
        for at in sorted(found):
            if block is None or at in heads or block.last.end != at:
                block = function.blocks[at] = Block(at, [])
            block.instructions.append(found[at])
        for block in function.blocks.values():
            block.successors = [to for to in flow[block.last.address] if to in function.blocks]

    def _find_taken(self) -> None:
        """Code addresses in registers and in constants; literals and references, along the way."""
        self.taken, self.literals, self.references = set(), set(), set()
        for function in list(self.functions.values()):
            for row in function.instructions.values():
                page = function.instructions.get(row.address - BYTES)
                if page is not None and (address := _address_of_pair(page, row)) is not None:
                    self.references.add(address)
                    self._take(address)
                if row.mnemonic in ("adr", "ldr", "ldrsw", "adrp") and isinstance(row.operands[-1], int):
                    address = row.operands[-1]
                    if row.mnemonic.startswith("ldr"):
                        size = 8 if row.registers[0].is_64 and row.mnemonic == "ldr" else 4
                        self.literals.add((address, size))
                        address = int.from_bytes(self.image.read(address, size), "little")
                    self.references.add(address)
                    self._take(address)
        if self.scope is not None:
            return
        covered = self.covered
        for segment in self.image.segments:
            for at in range(
                -(-segment.address // POINTER) * POINTER, segment.address + len(segment.data), POINTER
            ):
                if at not in covered:
                    self._take(int.from_bytes(self.image.read(at, POINTER), "little"))

    @property
    def covered(self) -> set[int]:
        """Addresses of all instructions."""
        return {at for function in self.functions.values() for at in function.instructions}

    def _take(self, address: int) -> None:
        """Note an address that may be a function's."""
        if address in self.image.entries or address in self.taken:
            return
        if address in self._starts or (not self.image.symbols and self._looks_like_a_function(address)):
            self._starts.add(address)
            self.taken.add(address)

    def _looks_like_a_function(self, address: int) -> bool:
        """Without symbols: what follows is code to its end, and what precedes it does not run into it."""
        before = self.instruction(address - BYTES)
        if self.instruction(address) is None or address in self.covered:
            return address in self.functions
        if before is not None and before.mnemonic not in ENDS | {"bl"}:
            return False
        seen: set[int] = set()
        pending, ends = [address], False
        while pending:
            at = pending.pop()
            if at in seen or at in self._starts:
                continue
            row = self.instruction(at)
            if row is None or len(seen) > MAX_TRIAL:
                return False
            seen.add(at)
            if row.mnemonic == "ret":
                ends = True
            elif row.mnemonic not in ENDS:
                pending.append(row.end)
            if row.target is not None:
                if not self.image.is_code(row.target):
                    return False
                pending.append(row.target)
                ends |= row.target in self._starts
        return ends

    def _reached(self) -> set[int]:
        """Functions that can run: from the entries, by calls, and those whose address is taken."""
        if self.scope is not None:
            return set(self.scope)
        seen: set[int] = set()
        pending = [*self.image.entries, *self.taken]
        while pending:
            at = pending.pop()
            if at in seen or at not in self.functions:
                continue
            seen.add(at)
            pending += [call.target for call in self.functions[at].calls if call.target is not None]
        return seen
