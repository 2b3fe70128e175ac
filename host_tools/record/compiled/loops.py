# SPDX-License-Identifier: BSD-2-Clause
"""How often a kernel's threads go round its loops.

A sum over the results of other sums, such as the mean of a convolution's channel, becomes one kernel with loops in
loops: few threads, each of which computes long. SqueezeNet's last layers were such a kernel, of 86,528 rounds.
lavapipe, which judges kernels, ends a loop without a word after 65,535 (Mesa's lp_bld_limits.h,
LP_MAX_TGSI_LOOP_ITERATIONS: "shared between every loop").
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from math import prod
from typing import Any

from tinygrad import Tensor
from tinygrad.uop.ops import Ops

JUDGED = 65_535  # rounds of all loops that a thread of lavapipe does
NESTED = 4_096  # rounds from which on results of inner sums get memory, and threads of their own


def apart(reduce: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A reduction whose input is computed by a kernel of its own, where it is sums and both together are long."""

    @functools.wraps(reduce)
    def made(x: Tensor, *given: Any, **named: Any) -> Tensor:
        found = reduce(x, *given, **named)
        inner = _longest_sum(x)
        if inner and inner * (x.numel() // max(found.numel(), 1)) > NESTED:
            return reduce(x.contiguous(), *given, **named)
        return found

    return made


def _longest_sum(x: Tensor) -> int:
    """Summands of the longest sum that a value of x needs, 0 for none. What is used more than once, expanded, gets
    memory from tinygrad anyhow.
    """
    found = 0
    for op in x.uop.toposort(gate=lambda op: op.op not in (Ops.CONTIGUOUS, Ops.EXPAND, Ops.BUFFER)):
        if op.op is Ops.REDUCE:
            found = max(found, prod(map(int, op.src[0].shape)) // max(prod(map(int, op.shape)), 1))
    return found


def rounds(linear: Iterable[Any]) -> int:
    """Rounds of all loops of a thread, from a kernel's operations in their order."""
    total, around = 0, [1]
    for op in linear:
        if op.op is Ops.RANGE:
            around.append(around[-1] * (int(op.vmax) + 1))
            total += around[-1]
        elif op.op is Ops.END:
            around.pop()
    return total
