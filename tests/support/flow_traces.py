# SPDX-License-Identifier: BSD-2-Clause
"""Random traces in which callers, operators, jobs and the replayer write over each other, or over a part."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.support.small_jobs import IMAGE_PAGES, INPUT, job_rows, small
from trace_format.actions import MAP_READ, MAP_WRITE, Action, Op, action, actions_of, array_of
from trace_format.operators import OPERATORS, ROW_ALIGNMENT, OperandType, Operator
from trace_format.schema import DTYPE_BYTES, PAGE_BYTES, DType, SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace

OWN, MORE = 3, 3  # pages of memory, and addresses by which some of them are mapped once more
CELL, CELLS = 0x100, 3  # memory is small, so that much meets: so many cells of a page are used
PLACES = [INPUT + PAGE_BYTES * page + CELL * cell for page in range(OWN + MORE) for cell in range(CELLS)]
FIRST = IMAGE_PAGES * PAGE_BYTES
SHADERS = ["add", "select"]  # that read and write at the same addresses, whatever the data are


def _sizes(draw: st.DrawFn, operator: Operator) -> dict[str, int]:
    """Of the sizes with names: so small that each operand fits into a cell."""
    found = {name: draw(st.integers(1, 4)) for name in _names(operator)}
    found |= {name: draw(st.integers(1, 2)) for name in ("box", "height", "width") if name in found}
    if "attributes" in found:
        found["attributes"] = draw(st.integers(5, 7))
        found["rows"] = found["box"] * found["height"] * found["width"]
    return found


def _names(operator: Operator) -> list[str]:
    row = OPERATORS[operator]
    types = [*row.operands, *row.repeated]
    return list(dict.fromkeys(size for type in types for size in type.shape or () if isinstance(size, str)))


def _strides(draw: st.DrawFn, shape: tuple[int, ...], element: int, type: OperandType | None) -> tuple[int, ...]:
    """With gaps between rows, where they fit into a cell."""
    strides = [element]
    gap = draw(st.sampled_from([0, 0, element, 2 * element]))
    for axis in range(len(shape) - 1, 0, -1):
        step = strides[0] * shape[axis] + gap * (axis == len(shape) - 1)
        if type and type.whole and not type.packed:
            step += -step % ROW_ALIGNMENT
        strides.insert(0, step)
    span = element + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    return (
        tuple(strides) if span <= CELL else tuple(element * math.prod(shape[i + 1 :]) for i in range(len(shape)))
    )


def _shaped(draw: st.DrawFn, elements: int) -> tuple[int, ...]:
    first = draw(st.sampled_from([n for n in range(1, elements + 1) if elements % n == 0]))
    return draw(st.sampled_from([(elements,), (first, elements // first)]))


def _slot(draw: st.DrawFn, name: str, kind: SlotKind, dtype: DType, shape: tuple[int, ...], **more: Any) -> Slot:
    strides = _strides(draw, shape, DTYPE_BYTES[dtype], more.pop("type", None))
    return Slot(name, kind, dtype, shape, strides, more.pop("at"), bound=more.pop("bound", False))


def _operands(draw: st.DrawFn, number: int) -> tuple[Operator, list[Slot]]:
    operator = draw(st.sampled_from(list(Operator)))
    row = OPERATORS[operator]
    repetitions = draw(st.integers(row.least, min(row.most, row.least + 1)))
    if "rows" in _names(operator):
        repetitions = 1
    types = row.types(len(row.operands) + repetitions * len(row.repeated))
    sizes, places = _sizes(draw, operator), draw(st.permutations(PLACES))
    copied = draw(st.sampled_from([DType.UINT8, DType.INT16, DType.FLOAT32])), draw(st.integers(1, 40))
    slots: list[Slot] = []
    for place, type in zip(places, types, strict=False):
        shape = tuple(sizes[size] if isinstance(size, str) else size for size in type.shape or ())
        kind = SlotKind.OUTPUT if type.written and not type.scratch and draw(st.booleans()) else SlotKind.INTERNAL
        slots.append(
            _slot(
                draw,
                f"{row.name}{number}.{len(slots)}",
                *(kind, type.dtype or copied[0], shape or _shaped(draw, copied[1])),
                type=type,
                at=place,
            )
        )
    return operator, slots


def _filled(draw: st.DrawFn) -> Action:
    """Some bytes that the replayer clears, or uploads."""
    target = FIRST + PAGE_BYTES * draw(st.integers(0, OWN - 1)) + draw(st.integers(0, CELL * CELLS - 1))
    size = draw(st.integers(1, CELL * CELLS))
    if draw(st.booleans()):
        return action(Op.CLEAR, bytes=size, target=target)
    return action(Op.UPLOAD, bytes=size, target=target, source=draw(st.integers(0, PAGE_BYTES)))


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """A trace; none of its inputs decides an address or a branch."""
    places = st.sampled_from(PLACES)
    kinds = draw(st.lists(st.sampled_from(["operate", "operate", "job", "fill", "input"]), min_size=2, max_size=7))
    slots: list[Slot] = []
    steps: list[Any] = []
    jobs: list[tuple[str, int, int, int]] = []
    for number, kind in enumerate(["input", *kinds]):
        if kind == "operate":
            operator, found = _operands(draw, number)
            steps.append(action(Op.OPERATE, slot=len(slots), operator=operator, operands=len(found)))
            slots += found
        elif kind == "job":
            at = [draw(places) + 4 * draw(st.integers(0, 8)) for _ in range(3)]
            jobs.append((draw(st.sampled_from(SHADERS)), at[0], at[1], at[2]))
            steps.append(len(jobs) - 1)
        elif kind == "fill":
            steps.append(_filled(draw))
        else:
            dtype, shape = (
                draw(st.sampled_from([DType.UINT8, DType.FLOAT32])),
                _shaped(draw, draw(st.integers(8, 40))),
            )
            bound = draw(st.booleans())
            slots.append(_slot(draw, f"in{number}", SlotKind.INPUT, dtype, shape, at=draw(places), bound=bound))
            steps.append(action(Op.COPY_TO_GPU, slot=len(slots) - 1))
    for number in range(2):
        shape = _shaped(draw, draw(st.integers(16, 64)))
        slots.append(_slot(draw, f"out{number}", SlotKind.OUTPUT, DType.INT32, shape, at=draw(places)))
    frames = [IMAGE_PAGES + draw(st.integers(0, OWN - 1)) for _ in range(MORE)]
    return _assembled(draw(st.booleans()), frames, steps, jobs, slots)


def _assembled(
    clears: bool, frames: list[int], steps: list[Any], jobs: list[tuple[str, int, int, int]], slots: list[Slot]
) -> Trace:
    """steps: actions, or numbers of jobs."""
    made = small(*jobs, first=(), slots=())
    own = list(actions_of(made.actions))
    start = next(i for i, row in enumerate(own) if row.op == Op.REPLAY_START)
    rows = own[:start]
    for i, frame in enumerate(frames):
        page = INPUT // PAGE_BYTES + OWN + i
        rows.append(action(Op.MAP_GPU_MEM, flags=MAP_READ | MAP_WRITE, pages=1, va_page=page, frame=frame))
    rows.append(own[start])
    if clears:
        rows.append(action(Op.CLEAR, bytes=CELL, target=FIRST))
    for step in steps:
        rows += [step] if isinstance(step, Action) else job_rows(step, jobs[step][0])
    rows += [action(Op.COPY_FROM_GPU, slot=i) for i, slot in enumerate(slots) if slot.kind == SlotKind.OUTPUT]
    # With retries nothing is state: what is left of a caller's data is left.
    return made.with_(actions=array_of(rows), slots=slots, meta={**made.meta, "retry_limit": 1})


def given(trace: Trace, seed: int) -> dict[str, NDArray[Any]]:
    """What a caller gives: numbers of which operators make something, or any bits."""
    numbers = np.random.default_rng(seed)
    found = {}
    for slot in trace.slots:
        if slot.kind == SlotKind.INPUT:
            words = np.where(
                numbers.random(64) < 0.8, numbers.normal(0, 1.5, 64), numbers.integers(-9, 9, 64)
            ).astype(np.float32)
            data = words.view(np.uint8)[: slot.dense_bytes].view(slot.numpy_dtype)
            found[slot.name] = data.reshape(slot.shape).copy()
    return found
