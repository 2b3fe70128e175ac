# SPDX-License-Identifier: BSD-2-Clause
"""Committed inputs for operators (c/operators.c): each operator with operands that fit, and what is refused."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from trace_format.operators import OPERATORS, ROW_ALIGNMENT, OperandType, Operator, OperatorType
from trace_format.schema import DType, SlotKind

PAGE, IMAGE_PAGES, VA_PAGES = 4096, 2, 16
FRAMES = bytes(range(IMAGE_PAGES, 12)).ljust(VA_PAGES, b"\xff")
# Of the named sizes; a YOLO's cells are box * height * width, of which there are no more than rows.
SIZES = {"keep": 3, "rows": 8, "prior": 6, "class": 3, "box": 2, "attributes": 7, "height": 2, "width": 2}
SIZES |= {"out": 9, "in": 6, "pixels": 12}
SEED = 1
BESIDE, NOT_WAITED_FOR = 128, 192  # added to an operator's number


@dataclass(frozen=True)
class Case:
    """An input: the operator, its operands' rows, and what the rest of it says."""

    operator: int
    rows: tuple[bytes, ...]
    data: bytes
    first: int = 0
    operands: int | None = None
    clock_step: int = 1
    frames: bytes = FRAMES

    def packed(self) -> bytes:
        """The bytes that c/operators.c takes apart."""
        operands = len(self.rows) if self.operands is None else self.operands
        setup = bytes([self.operator, self.first, operands, len(self.rows), IMAGE_PAGES, self.clock_step])
        return setup + self.frames + b"".join(self.rows) + self.data


def row(kind: SlotKind, dtype: DType, shape: tuple[int, ...], address: int, gap: int = 0) -> bytes:
    """A slot."""
    sizes = bytes(size - 1 for size in shape).ljust(6, b"\0")
    return struct.pack("<4BH6s4B", kind - 1, dtype - 1, len(shape) - 1, 0, address, sizes, gap, 0, 0, 0)


def values(type: OperandType, shape: tuple[int, ...], numbers: np.random.Generator) -> bytes:
    """What lies in an operand: numbers that lead to a few boxes."""
    if type.name == "parameters":
        return np.array([0.2, 0.6, 4], np.float32)[: shape[0]].tobytes()
    if type.dtype is DType.INT32:
        return numbers.integers(-1, 6, shape, np.int32).tobytes()
    return numbers.normal(0.4, 0.5, shape).astype(np.float32).tobytes()


def fitting(operator: Operator, row_of: OperatorType, repetitions: int, sizes: Mapping[str, int] = SIZES) -> Case:
    """An operator with operands that fit."""
    numbers = np.random.default_rng(SEED)
    count = len(row_of.operands) + repetitions * len(row_of.repeated)
    rows, data = [], b""
    for type in row_of.types(count):
        shape = tuple(size if isinstance(size, int) else sizes.get(size, 4) for size in type.shape or (2, 3))
        kind = SlotKind.INTERNAL if type.scratch else SlotKind.OUTPUT if type.written else SlotKind.INPUT
        gap = 0
        if type.whole:
            data = data.ljust(-(-len(data) // ROW_ALIGNMENT) * ROW_ALIGNMENT, b"\0")
            gap = -shape[-1] % (ROW_ALIGNMENT // 4) if len(shape) > 1 and not type.packed else 0
        rows.append(row(kind, type.dtype or DType.FLOAT32, shape, len(data), gap))
        data += values(type, (*shape[:-1], shape[-1] + gap), numbers)
    return Case(operator, tuple(rows), data)


def operator_inputs() -> Iterator[tuple[str, bytes]]:
    """By name."""
    cases: dict[str, Case] = {}
    for operator, found in OPERATORS.items():
        for repetitions in sorted({found.least, min(found.most, found.least + 1)}):
            cases[f"{found.name}-{repetitions}"] = fitting(operator, found, repetitions)
    copy, argmax, matmul = cases["copy-0"], cases["argmax-0"], cases["matmul-0"]
    yolo = cases["yolo_detection_output-1"]
    to, source = row(SlotKind.OUTPUT, DType.INT16, (4, 3), 64, 3), row(SlotKind.INPUT, DType.INT16, (2, 6), 0)
    cases["copy-strides"] = replace(copy, rows=(to, source))
    # Apart by address, and eight bytes from each other in one page.
    near = row(SlotKind.OUTPUT, DType.INT32, (12,), 0), row(SlotKind.INPUT, DType.INT32, (12,), 4096 + 8)
    cases["copy-one-page"] = replace(copy, rows=near, frames=bytes([3]) * 2 + FRAMES[2:])
    cases["copy-long"] = replace(
        copy,
        rows=tuple(
            row(kind, DType.UINT8, (12, 12, 12, 2), at)
            for kind, at in ((SlotKind.OUTPUT, 3), (SlotKind.INPUT, 3 * PAGE))
        ),
        clock_step=255,
    )
    shifted = row(SlotKind.OUTPUT, DType.INT16, (12,), 2)
    cases["overlap"] = replace(copy, rows=(shifted, row(SlotKind.INPUT, DType.INT16, (12,), 0)))
    cases["written-input"] = replace(copy, rows=(row(SlotKind.INPUT, DType.INT16, (12,), 64), source))
    cases["other-type"] = replace(copy, rows=(row(SlotKind.OUTPUT, DType.INT32, (12,), 64), source))
    cases["other-count"] = replace(copy, rows=(row(SlotKind.OUTPUT, DType.INT16, (11,), 64), source))
    cases["other-shape"] = replace(argmax, rows=(argmax.rows[0], row(SlotKind.INPUT, DType.FLOAT32, (2, 2), 64)))
    narrow = row(SlotKind.INPUT, DType.FLOAT32, (2, 4), 2 * PAGE)
    cases["other-size"] = replace(matmul, rows=(*matmul.rows[:2], narrow))
    sized = {
        "few-rows": (Operator.YOLO_DETECTION_OUTPUT, {"rows": 5}),
        "few-numbers": (Operator.YOLOV3_DETECTION_OUTPUT, {"attributes": 3}),
        "few-boxes": (Operator.YOLOV3_DETECTION_OUTPUT, {"keep": 12}),
    }
    for name, (operator, sizes) in sized.items():
        cases[name] = fitting(operator, OPERATORS[operator], 1, {**SIZES, **sizes})
    conv = cases["conv1x1-0"]
    cases["odd-sizes"] = fitting(
        Operator.CONV1X1, OPERATORS[Operator.CONV1X1], 0, {"out": 3, "in": 5, "pixels": 11}
    )
    cases["packed-rows"] = fitting(
        Operator.CONV1X1, OPERATORS[Operator.CONV1X1], 0, {"out": 9, "in": 6, "pixels": 9}
    )
    cases["scattered"] = replace(
        conv,
        rows=(*conv.rows[:2], row(SlotKind.INPUT, DType.FLOAT32, (6, 12), 4096 - 64), *conv.rows[3:]),
        frames=bytes([2, 4, 3]) + FRAMES[3:],
    )
    cases["half-in-the-image"] = replace(cases["scattered"], frames=bytes([1, 2, 3]) + FRAMES[3:])
    cases["not-aligned"] = replace(conv, rows=(row(SlotKind.OUTPUT, DType.FLOAT32, (9, 12), 8), *conv.rows[1:]))
    cases["no-time-for-products"] = replace(cases["dense-0"], clock_step=255)
    inner = replace(conv, rows=(row(SlotKind.INTERNAL, DType.FLOAT32, (9, 12), 0), *conv.rows[1:]))
    cases["beside"] = replace(inner, operator=BESIDE + Operator.CONV1X1)
    cases["beside-an-output"] = replace(conv, operator=BESIDE + Operator.CONV1X1)
    cases["beside-and-not-waited-for"] = replace(inner, operator=NOT_WAITED_FOR + Operator.CONV1X1)
    work = row(SlotKind.OUTPUT, DType.FLOAT32, (SIZES["rows"], 7), 4 * PAGE)
    cases["scratch-given-away"] = replace(yolo, rows=(*yolo.rows[:2], work, *yolo.rows[3:]))
    cases["no-operator"] = replace(copy, operator=0)
    cases["one-operand"] = replace(copy, operands=1)
    cases["no-such-slot"] = replace(copy, first=1)
    cases["half-a-head"] = replace(yolo, operands=5)
    cases["no-time"] = replace(yolo, clock_step=255, data=bytes(4) + yolo.data)
    cases["nothing-mapped"] = replace(copy, frames=b"\xff" * VA_PAGES)
    cases["into-the-image"] = replace(copy, frames=bytes(VA_PAGES))
    cases["outside"] = replace(argmax, frames=b"\x0c" * VA_PAGES)
    cases["not-a-number"] = replace(argmax, data=b"\xff" * 16 + argmax.data)
    for name, case in cases.items():
        yield name, case.packed()
