# SPDX-License-Identifier: BSD-2-Clause
"""Ranges of numbers with a step, what they were computed from, and arithmetic with them."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from host_tools.audit_firmware.instructions import Register

WORD, LONG = (1 << 32) - 1, (1 << 64) - 1
Root = tuple[str, int]  # see Value.roots
Cell = tuple[int, int]  # a place on the stack: a function's start, and the offset from the stack pointer there


@dataclass(frozen=True)
class Value:
    """Numbers from `low` to `high` in steps of `step`, and what they were computed from.

    Attributes:
        roots: ("param", n): register n at the function's start; ("load", at), ("call", at), ("system", at): what
            the instruction there gave; ("stack", start): the stack pointer, and then the numbers count from that
            at the start of the function there; ("loop", at): itself, an iteration earlier; ("via", at): memory
            that a pointer leads to, which the call there gave; ("through", n): memory that register n at the
            function's start leads to, where pointers in memory are asked for; ("const", n): n plus something
            that is not known; ("mailbox", at) and ("carveout", at): what the load there found in that memory.
    """

    low: int
    high: int
    step: int = 1
    roots: frozenset[Root] = frozenset()

    @property
    def is_single(self) -> bool:
        """Whether it is one number."""
        return self.low == self.high

    @property
    def cell(self) -> Cell:
        """The place on the stack that it points to, or where the array begins; (-1, 0): none, or several."""
        stacks = [start for kind, start in self.roots if kind == "stack"]
        return (stacks[0], self.low) if len(stacks) == 1 else (-1, 0)

    @property
    def is_on_stack(self) -> bool:
        """Whether it points into the stack."""
        return any(kind == "stack" for kind, _ in self.roots)

    @property
    def is_open(self) -> bool:
        """Whether a caller may tell more of a pointer."""
        return any(kind in ("param", "through") for kind, _ in self.roots)

    def has(self, kind: str) -> bool:
        """Whether something of this kind is among the roots."""
        return any(found == kind for found, _ in self.roots)


def number(value: int) -> Value:
    """One number."""
    return Value(value & LONG, value & LONG, 0)


def anything(roots: frozenset[Root] = frozenset(), high: int = LONG) -> Value:
    """Any number up to `high`."""
    return Value(0, high, 1, roots)


def fit(low: int, high: int, step: int, roots: frozenset[Root], limit: int) -> Value:
    """Numbers that wrap at a limit."""
    if any(kind == "stack" for kind, _ in roots):
        return Value(low, high, step, roots)
    if low == high:
        return Value(low & limit, low & limit, 0, roots)
    if low < 0 or high > limit:
        if (low & limit) <= (high & limit) and high - low <= limit:
            return Value(low & limit, high & limit, step, roots)  # all of it wraps
        return anything(roots, limit)
    return Value(low, high, step, roots)


def joined(values: list[Value]) -> Value:
    """What is one of several."""
    first = values[0]
    low, high, step, roots = first.low, first.high, first.step, first.roots
    for value in values[1:]:
        step = gcd(step, value.step, abs(value.low - low))
        low, high, roots = min(low, value.low), max(high, value.high), roots | value.roots
    return Value(low, high, step, roots)


def added(one: Value, other: Value, limit: int = LONG) -> Value:
    """The sum."""
    roots = one.roots | other.roots
    if one.is_single != other.is_single and not (one.is_on_stack or other.is_on_stack):
        constant = one.low if one.is_single else other.low
        bases = {base for kind, base in roots if kind == "const"} or {0}
        roots = frozenset(root for root in roots if root[0] != "const")
        roots |= {("const", (base + constant) & limit) for base in bases}
    return fit(one.low + other.low, one.high + other.high, gcd(one.step, other.step), roots, limit)


def subtracted(one: Value, other: Value, limit: int = LONG) -> Value:
    """The difference; of a constant, that it was computed from it: memory that is taken from the end downwards."""
    roots = one.roots | other.roots
    if one.is_single and not other.is_single and not one.is_on_stack:
        roots |= {("const", one.low)}
    return fit(one.low - other.high, one.high - other.low, gcd(one.step, other.step), roots, limit)


def multiplied(one: Value, other: Value, limit: int = LONG) -> Value:
    """The product."""
    roots = one.roots | other.roots
    if one.is_single:
        one, other = other, one
    if not other.is_single:
        return anything(roots, limit)
    factor = other.low
    return fit(one.low * factor, one.high * factor, one.step * factor, roots, limit)


def shifted(value: Value, register: Register, limit: int) -> Value:
    """It, as an operand's shift or extension leaves it."""
    change, amount = register.change, register.amount
    if change in ("lsl", "uxtw", "uxtx", "sxtw", "sxtx") and amount:
        return fit(value.low << amount, value.high << amount, value.step << amount, value.roots, limit)
    if change == "lsr":
        step = value.step >> amount if value.step % (1 << amount) == 0 and value.low % (1 << amount) == 0 else 1
        return Value(value.low >> amount, value.high >> amount, step, value.roots)
    if change in ("uxtb", "uxth"):
        top = 0xFF if change == "uxtb" else 0xFFFF
        return value if value.high <= top else anything(value.roots, top)
    if change in ("", "uxtw", "uxtx") or not amount:
        return value
    return anything(value.roots, limit)
