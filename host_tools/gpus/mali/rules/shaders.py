# SPDX-License-Identifier: BSD-2-Clause
"""What a shader has that another GPU lacks, by the rules about operations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from host_tools.gpus.mali.clauses import MAX_CLAUSES, QUADWORD, Clause, ClauseError, bits, clause_at
from host_tools.gpus.mali.notation import FIXED_OPERANDS
from host_tools.gpus.mali.operations import Operation, add, fma
from host_tools.gpus.mali.rules.file import OperationRule

FAU_SOURCES = (4, 5)  # low and high word of what the FAU port brings


def refused(read: Callable[[int, int], bytes], va: int, rules: Sequence[OperationRule]) -> str:
    """The first thing in a program that a rule is about, and where and why; "": there is none.

    Args:
        read: bytes at a GPU address.
        va: of the first clause; a quadword of zeros ends the program.
    """
    at = va
    for _ in range(MAX_CLAUSES):
        if not any(read(at, QUADWORD)):
            return ""
        try:
            clause = clause_at(lambda number, at=at: read(at + QUADWORD * number, QUADWORD))  # type: ignore[misc]
        except ClauseError as error:
            return f"the shader at {va:#x}: the clause at {at:#x}: {error}"
        for rule in rules:
            for what in _found(clause, rule):
                return f"rule {rule.name}: {what} at {at:#x}, in the shader at {va:#x}: {rule.reason}"
        at += clause.size
    return f"the shader at {va:#x} has no end"


def _found(clause: Clause, rule: OperationRule) -> Iterator[str]:
    for item in clause.tuples:
        operand = FIXED_OPERANDS.get(bits(item.block, 0, 8), "")
        for unit, word, operation, encodings in (
            ("*", item.fma, fma(item.fma), rule.fma),
            ("+", item.add, add(item.add), rule.add),
        ):
            if unit == "*" and any(word & mask == value for value, mask in rule.but):
                continue
            name = operation.name if operation else "an unknown operation"
            if name in rule.names or any(word & mask == value for value, mask in encodings):
                yield f"{unit}{name} [{word:#08x}]"
            elif operand in rule.operands and _takes_fau(word, operation):
                yield f"{operand} as an operand of {unit}{name}"


def _takes_fau(word: int, operation: Operation | None) -> bool:
    count = operation.sources if operation else 4
    return any(bits(word, 3 * place, 3) in FAU_SOURCES for place in range(count))
