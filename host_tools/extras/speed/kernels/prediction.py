# SPDX-License-Identifier: BSD-2-Clause
"""What a schedule may cost on a GPU, by the strides of its accesses and without code: it orders candidates of a
search, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import gcd, prod

from host_tools.extras.speed.kernels.space import Access, Nest, Point
from host_tools.families.kernel_costs import KernelCosts

LINE_BYTES = 64
STREAMED = 8  # of what a thread loads most of, so many values are live: Mesa uses them one load after the other
MANY = 96  # values loaded in a round, beyond which that no longer holds
WIDEST_LOAD = 4  # elements
SWAPPED = 1.02  # of the cost, so that the other order is tried after the one


@cache
def predicted(nest: Nest, point: Point, costs: KernelCosts) -> float:
    """What a schedule may cost, in clocks of a GPU."""
    steps, items = point.steps, point.items
    far = [items[at] if point.apart and not axis.summed else 1 for at, axis in enumerate(nest.axes)]
    near = [1 if point.apart or axis.summed else steps[at] for at, axis in enumerate(nest.axes)]
    order = [point.lanes, *(at for at in range(len(nest.axes)) if at != point.lanes)]
    group = prod(items)
    groups = nest.results / prod(steps[at] * items[at] for at, axis in enumerate(nest.axes) if not axis.summed)
    batches = -(-group // costs.lanes) * groups
    rounds = prod(axis.size // (steps[at] * items[at]) for at, axis in enumerate(nest.axes) if axis.summed)
    results = prod(steps[at] for at, axis in enumerate(nest.axes) if not axis.summed)
    instructions, clocks, live, most = 20.0 + 3 * results + 8.0 * rounds, 0.0, results, 0
    for access in nest.accesses:
        if access.stored:
            clocks += results * _lines(access, order, items, near, min(group, costs.lanes), 1) * costs.store
            continue
        runs = _runs(_values(access, steps, far), _aligned(access, steps, far))
        # A load that no open loop moves is done once.
        moves = any(
            axis.summed and stride and axis.size > steps[at] * items[at]
            for at, (axis, stride) in enumerate(zip(nest.axes, access.strides, strict=True))
        )
        times = rounds if moves else 1
        lines = _lines(access, order, items, near, min(group, costs.lanes), max(runs))
        instructions += times * costs.load * len(runs)
        clocks += times * (len(runs) * lines * costs.line + sum(runs) * costs.word)
        live += sum(runs)
        most = max(most, sum(runs))
    instructions += rounds * prod(steps) * (1 if live >= costs.both_at_once else costs.apart)
    cost = groups * costs.group + batches * max(instructions * costs.issue, clocks)
    held = live - most + min(most, STREAMED)
    spilled = max(0, held - costs.registers) / 16 + max(0, live - MANY) / 64
    return cost * (1 + spilled) * (SWAPPED if point.swapped else 1)


def _lines(
    access: Access, order: Sequence[int], items: Sequence[int], near: Sequence[int], lanes: int, width: int
) -> int:
    """Lines of memory that the lanes of one load touch, each of which loads some elements side by side."""
    touched = set()
    for lane in range(lanes):
        left, at = lane, 0
        for axis in order:
            left, along = divmod(left, items[axis])
            at += along * near[axis] * access.strides[axis]
        touched |= {(at + more) * access.itemsize // LINE_BYTES for more in (0, width - 1)}
    return len(touched)


def _values(access: Access, steps: Sequence[int], far: Sequence[int]) -> set[int]:
    """The elements that one round of a thread loads."""
    found = {0}
    for stride, count, each in zip(access.strides, steps, far, strict=True):
        if stride and count > 1:
            found = {at + stride * each * step for at in found for step in range(count)}
    return found


def _aligned(access: Access, steps: Sequence[int], far: Sequence[int]) -> int:
    """How many elements may be loaded at once: a round's first element is at a multiple of so many.

    A load of several elements does not cross 16 bytes.
    """
    return gcd(
        WIDEST_LOAD,
        *(
            stride * (step if each == 1 else 1)
            for stride, step, each in zip(access.strides, steps, far, strict=True)
        ),
    )


def _runs(values: set[int], widest: int) -> list[int]:
    """How many elements each load has: up to four that lie side by side are joined."""
    runs: list[int] = []
    last = None
    for at in sorted(values):
        if last is not None and at == last + 1 and runs[-1] < widest:
            runs[-1] += 1
        else:
            runs.append(1)
        last = at
    return runs
