# SPDX-License-Identifier: BSD-2-Clause
"""How far tinygrad unrolls: not far beyond what a V3D's registers hold.

A thread of a V3D has 64 registers at most (Mesa 25, v3d_compiler.h: 64 for one thread, 16 for four). What an
iteration loads, besides what it sums up, is live at once where Mesa loads early. tinygrad unrolls a sum over up
to 32 channels wholly: 272 values; Mesa then spills what does not fit, after it has tried for long. A 3 by 3 kernel
has 88, of which many are the same, and stays as it is: unrolled 3 times, one network needed 15 % fewer
instructions, and another 36 % more (docs/adr/0047-second-compiler.md).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

from tinygrad.codegen.opt import KernelOptError, Opt, OptOps
from tinygrad.uop.ops import AxisType

STEPS = (4, 2, 0)
REGISTERS = 96  # values: of those that are counted, some are the same
Choice = Callable[[Any], Any]


def within_registers(choose: Choice) -> Choice:
    """tinygrad's choice of optimisations, with loops unrolled less where they need too many registers."""

    @functools.wraps(choose)
    def chosen(kernel: Any) -> Any:
        made = choose(kernel)
        while live(made) > REGISTERS:
            fewer = next((other for other in _fewer(kernel, made.applied_opts) if live(other) < live(made)), None)
            if fewer is None:
                break
            made = fewer
        return made

    return chosen


def _fewer(kernel: Any, opts: Sequence[Any]) -> Iterator[Any]:
    """The kernel with the loop that was unrolled last unrolled by fewer steps, and not at all."""
    unrolled = [at for at, opt in enumerate(opts) if opt.op is OptOps.UNROLL]
    for steps in STEPS if unrolled else ():
        last = unrolled[-1]
        instead = [Opt(OptOps.UNROLL, opts[last].axis, steps)] if steps else []
        made = kernel.copy()
        try:
            for opt in [*opts[:last], *instead, *opts[last + 1 :]]:
                made.apply_opt(opt)
        except KernelOptError:  # the loop does not have a multiple of these
            continue
        yield made


def live(kernel: Any) -> int:
    """Most registers that an iteration's values take: what it loads, and what it sums up for the buffer that it
    writes."""
    axes = kernel.axes_of(AxisType.UPCAST, AxisType.UNROLL)
    sizes = {kernel.rngs[axis]: int(kernel.full_shape[axis]) for axis in axes}
    total = 0
    for buffer in kernel.bufs:
        used = buffer.src[1].get_idx().backward_slice
        total += prod(size for axis, size in sizes.items() if axis in used)
    return total
