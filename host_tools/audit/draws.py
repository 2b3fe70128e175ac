# SPDX-License-Identifier: BSD-2-Clause
"""Values that a trace's inputs are given while its data is followed: usual ones, and all that a type can hold.

They are drawn by the trace's id, so that an audit can be repeated, and no two traces are tried with the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.accesses.observe import random_inputs
from trace_format.schema import SlotKind
from trace_format.trace import Trace

GIVEN = (SlotKind.INPUT, SlotKind.PARAMETER)
KINDS = USUAL, LEFT_OUT, WHOLE_RANGE, SPECIAL = "usual", "left out", "whole range", "special"
MAY_STOP = (WHOLE_RANGE, SPECIAL)  # values that a replay need not take: an index far outside of a table
Values = dict[str, NDArray[Any]]


def usual(trace: Trace) -> Values:
    """For every input and parameter: uniform in [0, 1) for floats, 0 or 1 for integers."""
    return random_inputs(trace, int.from_bytes(trace.trace_id, "big"), GIVEN)


def drawn(trace: Trace, values: Values, kind: str) -> Values:
    """Values for a replay, made of usual ones.

    Args:
        trace: whose slots they are for.
        values: as `usual`; those of parameters stay, so that the prologue does not run again.
        kind: USUAL: the same. LEFT_OUT: without the inputs that have a recorded value. WHOLE_RANGE: finite numbers
            of all magnitudes, all integers. SPECIAL: half of them limits of the type and numbers around zero, half
            any bits, NaNs among them.
    """
    inputs = [slot for slot in trace.slots if slot.kind == SlotKind.INPUT]
    if kind == LEFT_OUT:
        optional = {slot.name for slot in inputs if slot.bound}
        return {name: value for name, value in values.items() if name not in optional}
    if kind == USUAL:
        return values
    draw = {WHOLE_RANGE: _whole_range, SPECIAL: _special}[kind]
    generator = np.random.default_rng([int.from_bytes(trace.trace_id, "big"), KINDS.index(kind)])
    return values | {slot.name: draw(generator, slot.numpy_dtype, slot.shape) for slot in inputs}


def _bits(generator: np.random.Generator, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    unsigned = np.dtype(f"<u{dtype.itemsize}")
    return generator.integers(0, np.iinfo(unsigned).max, shape, unsigned, endpoint=True)


def _whole_range(generator: np.random.Generator, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    bits = _bits(generator, dtype, shape)
    if dtype.kind == "f":  # an exponent of ones alone is no number
        exponent = np.array(np.inf, dtype).view(bits.dtype)
        lowest = exponent & ~(exponent << 1)
        bits = np.where(bits & exponent == exponent, bits ^ lowest, bits).astype(bits.dtype)
    return bits.view(dtype)


def _special(generator: np.random.Generator, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    chosen = generator.choice(_limits(dtype), shape)
    any_bits = _bits(generator, dtype, shape).view(dtype)
    return np.where(generator.random(shape) < 0.5, chosen, any_bits).astype(dtype)


def _limits(dtype: np.dtype[Any]) -> NDArray[Any]:
    if dtype.kind == "f":
        has = np.finfo(dtype)
        found = [0.0, 0.5, 1.0, has.max, has.tiny, has.smallest_subnormal, np.inf]
        return np.array([*found, *(-x for x in found), np.nan], dtype)
    limits = np.iinfo(dtype)
    powers = [1 << bit for bit in range(limits.bits) if 1 << bit <= limits.max]
    return np.array([0, *powers, *(x - 1 for x in powers), limits.max, limits.min, max(limits.min, -1)], dtype)
