# SPDX-License-Identifier: BSD-2-Clause
"""Worst-case stack, from the code: how far each function moves the stack pointer, and who calls whom."""

from __future__ import annotations

from dataclasses import dataclass

from host_tools.audit_firmware.graph import cycles
from host_tools.audit_firmware.instructions import SP, Instruction, Register
from host_tools.audit_firmware.program import Function, Program


@dataclass(frozen=True)
class Frames:
    """The stack pointer in a function.

    Attributes:
        before: address of an instruction -> stack pointer before it, less that at the function's start; None where
            it was set to something else (`resets`), or is not known (`unknown`).
        resets: where it is set from a register, as start-up code does; from there on it counts from zero again.
        unknown: where it changes by an amount that the code does not show.
        depth: bytes that the function itself takes at most.
    """

    before: dict[int, int]
    resets: tuple[int, ...]
    unknown: tuple[int, ...]
    depth: int


@dataclass(frozen=True)
class Worst:
    """Bytes of stack that a function takes at most, with all that it calls; `path` is the way there.

    `is_bound` is False where recursion or an unknown change of the stack pointer makes it a lower bound only.
    """

    bytes: int
    path: tuple[str, ...]
    is_bound: bool


def frames(function: Function) -> Frames:
    """The stack pointer at each instruction of a function."""
    before: dict[int, int] = {function.start: 0}
    resets, unknown, depth = set(), set(), 0
    pending = [(function.start, 0)] if function.start in function.blocks else []
    while pending:
        start, offset = pending.pop()
        constants: dict[int, int] = {}
        for row in function.blocks[start].instructions:
            before[row.address] = min(offset, before.get(row.address, offset))
            change = _change(row, constants)
            if change == "reset":
                resets.add(row.address)
                offset = 0
            elif change is None:
                unknown.add(row.address)
            else:
                assert isinstance(change, int)
                offset += change
            depth = max(depth, -offset)
            _note(row, constants)
        for to in function.blocks[start].successors:
            if to not in before or (before[to] > offset and before[to] - offset < 1 << 20):
                before[to] = offset
                pending.append((to, offset))
            if to in before and -before[to] > 1 << 20:  # grows from round to round
                unknown.add(to)
                return Frames(before, tuple(sorted(resets)), tuple(sorted(unknown)), depth)
    return Frames(before, tuple(sorted(resets)), tuple(sorted(unknown)), depth)


def _change(row: Instruction, constants: dict[int, int]) -> int | str | None:
    """What an instruction adds to the stack pointer; "reset": it sets it; None: not known."""
    if SP not in row.writes:
        return 0
    memory = row.memory
    if memory and memory.mode and memory.base == SP:
        return memory.step
    sources = [item for item in row.operands[1:] if isinstance(item, Register | int)]
    if row.mnemonic in ("add", "sub") and isinstance(sources[0], Register) and sources[0].number == SP:
        amount = sources[1]
        if isinstance(amount, Register):
            if amount.number not in constants:
                return None
            amount = constants[amount.number]
        return amount if row.mnemonic == "add" else -amount
    if row.mnemonic == "mov" and isinstance(sources[0], Register) and sources[0].number != 29:
        return "reset"
    return None


def _note(row: Instruction, constants: dict[int, int]) -> None:
    """Follow registers that hold a number, for frames too large for one instruction."""
    last = row.operands[-1] if row.operands else None
    for number in row.writes:
        if row.mnemonic == "mov" and isinstance(last, int):
            constants[number] = last
        else:
            constants.pop(number, None)


def recursions(program: Program, *, direct: bool = False) -> list[list[Function]]:
    """Functions that can call themselves or each other.

    Args:
        program: whose.
        direct: only by calls whose target the code says; else an indirect call leads to every function whose
            address is taken.
    """
    edges = {
        function.start: {
            callee.start for call, callee in program.callees(function) if call.target is not None or not direct
        }
        for function in program.running
    }
    found = cycles(edges, lambda start: edges.get(start, set()))
    return [[program.functions[start] for start in sorted(group)] for group in found]


def worst(program: Program, all_frames: dict[int, Frames]) -> dict[int, Worst]:
    """The worst case of every function that can run, by its address."""
    recursive = {function.start for group in recursions(program) for function in group}
    found: dict[int, Worst] = {}
    for root in program.running:
        waiting = [root]
        while waiting:
            function = waiting[-1]
            missing = [
                callee
                for _, callee in program.callees(function)
                if callee.start not in found and callee.start not in recursive
            ]
            if missing and function.start not in recursive:
                waiting += missing
                continue
            waiting.pop()
            if function.start not in found:
                found[function.start] = _worst_of(program, function, all_frames, found, recursive)
    return found


def _worst_of(
    program: Program,
    function: Function,
    all_frames: dict[int, Frames],
    found: dict[int, Worst],
    recursive: set[int],
) -> Worst:
    own = all_frames[function.start]
    best = Worst(own.depth, (function.name,), True)
    is_bound = not own.unknown and function.start not in recursive
    for call, callee in program.callees(function):
        below = found.get(callee.start)
        if below is None:
            is_bound = False
            continue
        is_bound &= below.is_bound
        total = -own.before.get(call.at, 0) + below.bytes
        if total > best.bytes:
            best = Worst(total, (function.name, *below.path), True)
    return Worst(best.bytes, best.path, is_bound)
