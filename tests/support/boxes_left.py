# SPDX-License-Identifier: BSD-2-Clause
"""Traces that hand out what operators for boxes note on the way: what one caller's picture shows, to the next."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tests.support.small_jobs import CODE, CONSTANTS, IN, INPUT, OUTPUT, SCRATCH, small
from trace_format.actions import Op, action, actions_of, array_of
from trace_format.operators import OPERATORS, Operator
from trace_format.schema import DType, SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace

FINDERS = [operator for operator, row in OPERATORS.items() if any(type.scratch for type in row.operands)]
ZEROS = CONSTANTS + 0xC00
_AT = CONSTANTS + 0x400  # in the image: numbers that are the same for every caller
_SIZES = {"keep": 4, "rows": 2, "prior": 2, "class": 4, "box": 2, "attributes": 8, "height": 1, "width": 1}
_GIVEN = {"head": 0, "location": 0, "confidence": 8}  # words of what a job has made of the input
_SAME: dict[tuple[str, int], list[float]] = {  # by name and how many they are
    ("parameters", 2): [0.2, 0.5],
    ("parameters", 3): [0.2, 0.5, 9],
    ("anchors", 4): [1] * 4,
    ("priors", 16): [0, 0, 0.5, 0.5, 0.5, 0.5, 1, 1, *[1] * 8],
}


def trace_of(operator: Operator, *, beside: bool) -> Trace:
    """Finds boxes in what a job makes of the input, and gives out its working memory.

    Args:
        beside: that is internal, and an output lies where it lies; else it is an output itself.
    """
    row = OPERATORS[operator]
    slots, image = [IN], bytearray(small(("add", INPUT, ZEROS, SCRATCH)).image)
    written, same = OUTPUT, _AT
    for type in row.types(len(row.operands) + len(row.repeated)):
        shape = tuple(_SIZES[size] if isinstance(size, str) else size for size in type.shape or ())
        strides = tuple(4 * int(np.prod(shape[i + 1 :])) for i in range(len(shape)))
        size = 4 * int(np.prod(shape))
        is_output = type.written and not (type.scratch and beside)
        if type.written:
            at, written = written, written + size
        elif type.name in _GIVEN:
            at = SCRATCH + 4 * _GIVEN[type.name]
        else:
            numbers = np.array(_SAME[type.name, size // 4], "<f4").tobytes()
            at, same = same, same + size
            image[at - CODE : at - CODE + size] = numbers
        kind = SlotKind.OUTPUT if is_output else SlotKind.INTERNAL
        slots.append(Slot(type.name, kind, type.dtype or DType.FLOAT32, shape, strides, at))
    made = small(("add", INPUT, ZEROS, SCRATCH), slots=(IN,))
    operands = len(slots) - 1
    work = next(slot for slot in slots if slot.name == "work")
    if beside:
        slots.append(replace(work, name="more", kind=SlotKind.OUTPUT))
    rows = [*actions_of(made.actions), action(Op.OPERATE, slot=1, operator=operator, operands=operands)]
    rows += [action(Op.COPY_FROM_GPU, slot=i) for i, slot in enumerate(slots) if slot.kind == SlotKind.OUTPUT]
    return made.with_(slots=slots, actions=array_of(rows), image=bytes(image))


def picture(operator: Operator, *, shows: bool) -> NDArray[np.int32]:
    """An input: two boxes that are apart, or nothing."""
    numbers = np.full(16, -9, np.float32)
    if shows and operator is Operator.DETECTION_OUTPUT:
        numbers[:8] = 0
        numbers[8:] = [0, 0.9, 0, 0] * 2
    elif shows:
        numbers[:] = [0, 0, -3, -3, 9, 9, -9, -9, 0, 0, 0, 0, 9, 9, -9, -9]
    return numbers.view(np.int32)
