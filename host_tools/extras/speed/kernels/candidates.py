# SPDX-License-Identifier: BSD-2-Clause
"""Kernels as a search sees them, and their candidates as GLSL: the part of it that needs tinygrad.

Run as a program, in a sandbox as schedule.py is, whose file of kernels it reads (tinygrad's own, pickled):
`python -m host_tools.extras.speed.kernels.candidates KERNELS ASKED MADE`.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from host_tools.extras.speed.kernels.space import Access, Axis, Nest, Point
from host_tools.support import plain
from trace_format.files import read_file

KERNELS, DESCRIBED, CHOSEN = "kernels", "described", "chosen"  # files in the folder that schedule.py is given
Opts = list[tuple[str, int, int]]  # tinygrad's optimisations: which, of which axis, how much


@dataclass(frozen=True)
class Kernel:
    """A kernel of a plan.

    Attributes:
        key: hash of what it computes, as tinygrad has it.
        name: for people.
        calls: numbers of the plan's calls.
        opts: what the compiler chose.
        nest: its loops; None: it is left as it is.
        types: NumPy's names of the elements of its bindings.
    """

    key: str
    name: str
    calls: list[int]
    opts: Opts
    nest: Nest | None
    types: list[str]


@dataclass(frozen=True)
class Asked:
    """Candidates of a kernel: schedules, and whether the kernel without any optimisation is wanted."""

    key: str
    points: list[Point]
    plain: bool


@dataclass(frozen=True)
class Candidate:
    """A kernel with a schedule.

    Attributes:
        point: the schedule; None: without optimisations.
        opts: the same in tinygrad's words.
        source: GLSL; empty where it cannot be made.
        groups: workgroups.
        why: the reason, if there is no source.
    """

    point: Point | None
    opts: Opts
    source: str
    groups: tuple[int, int, int]
    why: str = ""


def written(opts: Sequence[Any]) -> Opts:
    """tinygrad's optimisations as plain data."""
    return [(opt.op.name, -1 if opt.axis is None else int(opt.axis), int(opt.arg or 0)) for opt in opts]


def read(opts: Opts) -> tuple[Any, ...]:
    """The opposite of `written`."""
    from tinygrad.codegen.opt import Opt, OptOps

    return tuple(Opt(OptOps[name], axis if axis >= 0 else None, arg) for name, axis, arg in opts)


def nest_of(kernel: Any) -> Nest | None:
    """Loops of tinygrad's kernel before it is optimised; None where their sizes or indices are no numbers."""
    from tinygrad.uop.ops import AxisType, Ops, UOp, ssimplify

    ranges = kernel.rngs
    summed = (AxisType.REDUCE,)
    if not ranges or any(kind not in (AxisType.GLOBAL, *summed) for kind in kernel.axis_types):
        return None
    if not all(isinstance(size, int) for size in kernel.full_shape):
        return None
    # In the middle, since an index may be cut at the edges.
    middle = {axis: UOp.const((int(axis.vmax)) // 2, axis.dtype) for axis in ranges}
    stores = {store.src[0] for store in kernel.ast.backward_slice_with_self if store.op is Ops.STORE}
    accesses = []
    for buffer in kernel.bufs:
        index = buffer.src[1].get_idx()
        start = ssimplify(index.substitute(middle))
        strides = []
        for axis in ranges:
            other = middle | {axis: UOp.const(int(axis.vmax) // 2 + 1, axis.dtype)}
            moved = ssimplify(index.substitute(other))
            if not (isinstance(start, int) and isinstance(moved, int)):
                return None  # an index that is loaded
            strides.append(moved - start)
        accesses.append(Access(int(buffer.dtype.itemsize), tuple(strides), buffer in stores))
    axes = [
        Axis(tuple(map(int, axis.arg[:-1])), int(size), kind in summed)
        for axis, size, kind in zip(ranges, kernel.full_shape, kernel.axis_types, strict=True)
    ]
    return Nest(tuple(axes), tuple(accesses))


def apply(kernel: Any, nest: Nest, point: Point) -> list[Any]:
    """Optimise tinygrad's kernel, and return the optimisations.

    Raises:
        KernelOptError: tinygrad does not do this.
    """
    from tinygrad.codegen.opt import KernelOptError, Opt, OptOps
    from tinygrad.uop.ops import AxisType

    def act(op: Any, at: int, amount: int) -> None:
        if amount == 1:
            return
        place = next((i for i, axis in enumerate(kernel.rngs) if axis.arg[:-1] == nest.axes[at].number), None)
        if place is None:
            raise KernelOptError("the axis is used up")
        if op is OptOps.UNROLL:
            place = kernel.unrollable_dims.index(place)
        elif op is OptOps.GROUPTOP:
            place = kernel.axes_of(AxisType.REDUCE).index(place)
        kernel.apply_opt(Opt(op, place, amount))

    order = [point.lanes, *(at for at in range(len(nest.axes)) if at != point.lanes)]
    results = [at for at in order if not nest.axes[at].summed]
    sums = [at for at in order if nest.axes[at].summed]
    if point.swapped:
        kernel.apply_opt(Opt(OptOps.SWAP, 0, 1))
        numbers = [nest.axes[at].number for at in range(len(nest.axes))]
        numbers[0], numbers[1] = numbers[1], numbers[0]  # tinygrad swaps the numbers, and leaves the loops
        swapped = [replace(axis, number=number) for axis, number in zip(nest.axes, numbers, strict=True)]
        nest = Nest(tuple(swapped), nest.accesses)
    for at in sums:
        act(OptOps.GROUPTOP, at, point.items[at])
    first, second = (
        ((OptOps.LOCAL, point.items), (OptOps.UPCAST, point.steps))
        if point.apart
        else ((OptOps.UPCAST, point.steps), (OptOps.LOCAL, point.items))
    )
    for op, amounts in (first, second):
        for at in results:
            act(op, at, amounts[at])
    for at in reversed(sums):
        act(OptOps.UNROLL, at, point.steps[at])
    return list(kernel.applied_opts)


def _made(asts: dict[str, Any], asked: Asked, wide: bool) -> list[Candidate]:
    from tinygrad.codegen import to_program
    from tinygrad.codegen.opt import heuristic

    from host_tools.record.compiled.glsl import Glsl

    ast, renderer = asts[asked.key], Glsl(wide)
    seen: list[Any] = []

    def spy(kernel: Any) -> Any:
        seen.append(kernel.copy())
        return kernel

    kept = heuristic.hand_coded_optimizations
    heuristic.hand_coded_optimizations = spy
    try:
        whole = to_program(ast, renderer)  # without optimisations
    finally:
        heuristic.hand_coded_optimizations = kept
    found = [_candidate(None, [], lambda: whole)] if asked.plain else []
    nest = nest_of(seen[0]) if seen else None
    if nest is None:
        return found
    for point in asked.points:
        try:
            opts = apply(seen[0].copy(), nest, point)
        except Exception as error:  # KernelOptError, and what tinygrad trips over
            found.append(Candidate(point, [], "", (0, 0, 0), f"{type(error).__name__}: {error}"[:200]))
            continue
        wanted = ast.replace(arg=replace(ast.arg, opts_to_apply=tuple(opts)))
        found.append(_candidate(point, written(opts), partial(to_program, wanted, renderer)))
    return found


def _candidate(point: Point | None, opts: Opts, program: Callable[[], Any]) -> Candidate:
    from tinygrad.uop.ops import Ops

    from host_tools.record.compiled import loops

    try:
        made = program()
        info = made.arg
        rounds = loops.rounds(next(part.src for part in made.src if part.op is Ops.LINEAR))
        if rounds > loops.JUDGED:
            return Candidate(point, opts, "", (0, 0, 0), f"goes round loops {rounds} times")
        if list(info.globals) != list(range(len(info.globals))):
            return Candidate(point, opts, "", (0, 0, 0), "has other buffers")
        source = next(str(part.arg) for part in made.src if part.op is Ops.SOURCE)
        x, y, z = (*(int(size) for size in info.global_size), 1, 1)[:3]
    except Exception as error:  # whatever tinygrad raises for optimisations that it cannot carry out
        return Candidate(point, opts, "", (0, 0, 0), f"{type(error).__name__}: {error}"[:200])
    return Candidate(point, opts, source, (x, y, z))


def main() -> int:
    """Make what is asked for."""
    from host_tools.record.compiled import schedule  # noqa: F401 - sets what tinygrad reads when it is imported

    kernels, asked, made = map(Path, sys.argv[1:])
    asts, wide = pickle.loads(read_file(kernels))
    found = [_made(asts, one, wide) for one in plain.loads(list[Asked], read_file(asked))]
    made.write_bytes(plain.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
