# SPDX-License-Identifier: BSD-2-Clause
"""Hostile operators: operands that are not there, of other types and shapes, over each other, in the image."""

from __future__ import annotations

import dataclasses

import numpy as np

from tests.support.hostile_rows import HUGE, MIN_SECURITY_VERSIONS, V3D, Hostile, Row, Unseen, at, rows
from tests.support.hostile_runs import FREE_VA, IN, OUT, REMAP, WAIT, WORK, code, job, slots, stopped
from tests.support.operator_samples import slots_of, trace_of
from tests.support.replayer_samples import PAGE, VA, Parts
from trace_format import errors
from trace_format.actions import FLAG_BESIDE, MAP_READ, Action, Op, action
from trace_format.operators import OPERATORS, Operator
from trace_format.policy import PlaceError
from trace_format.schema import DType, SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace

ALL = tuple(OPERATORS)
META = {"name": "small", "security_version": MIN_SECURITY_VERSIONS[V3D]}
TO, LEFT, RIGHT, BIAS = range(4)  # operands of one sample
WORKING = 2  # one of the other's
WEIGHTS, FROM, SUMS, LIMITS = range(1, 5)  # of the third's
WRONG, RANGE, RESERVED = errors.ActionError, errors.ActionRangeError, errors.ReservedError


def _made(operator: Operator, *shapes: tuple[int, ...]) -> Trace:
    arrays = [np.zeros(shape, "int32" if shape == (1,) else "float32") for shape in shapes]
    found = [dataclasses.replace(slot, bound=slot.kind == SlotKind.INPUT) for slot in slots_of(operator, arrays)]
    return trace_of(operator, found).with_(meta=dict(META))


def product() -> Trace:
    """Nothing is wrong with it: a product of matrices."""
    return _made(Operator.MATMUL, (2, 3), (2, 4), (4, 3), (3,))


def boxes(numbers: int = 7, operator: Operator = Operator.YOLO_DETECTION_OUTPUT) -> Trace:
    """Nor with this: boxes of two heads, of so many numbers for each box; with less than 6 there is no class."""
    head, anchors = (2, numbers, 2, 2), (2, 2)
    return _made(operator, (4, 6), (1,), (16, 7), (2,), head, anchors, head, anchors)


def boxes_of_version_3() -> Trace:
    """Nor with this: the same heads, another operator."""
    return boxes(operator=Operator.YOLOV3_DETECTION_OUTPUT)


def priors() -> Trace:
    """Nor with this: boxes of an SSD."""
    return _made(Operator.DETECTION_OUTPUT, (4, 6), (1,), (8, 7), (3,), (8, 4), (8, 3), (2, 8, 4))


def _index(sample: Trace) -> int:
    return int(np.flatnonzero(sample.actions["op"] == Op.OPERATE)[0])


def pointwise() -> Trace:
    """Nor with this: a pointwise convolution: weights in dense and aligned rows, pictures in packed ones."""
    return _made(Operator.CONV1X1, (8, 4), (8, 12), (12, 4), (8,), (2,))


PRODUCT, BOXES, POINTWISE = _index(product()), _index(boxes()), _index(pointwise())


def _same(parts: Parts) -> Parts:
    return parts


def operand(name: str, device: str, host: type[errors.TraceError], index: int, *fields: tuple[str, int]) -> Row:
    """A row with other fields of an operand's slot."""

    def edit(parts: Parts) -> Parts:
        for field, value in fields:
            parts.slot(index, field, value)
        return parts

    return name, edit, device, host


def _dims(*sizes: int) -> int:
    return sum(size << 32 * i for i, size in enumerate(sizes))


_TABLE = [
    at("an operator that is not there", "ACTION", WRONG, PRODUCT, value=max(OPERATORS) + 1),
    at("operator zero", "ACTION", WRONG, PRODUCT, value=0),
    at("an operator far away", "ACTION", WRONG, PRODUCT, value=HUGE),
    at("an operator without operands", "ACTION", WRONG, PRODUCT, a=0),
    at("an operator with an operand too few", "ACTION", WRONG, PRODUCT, a=2),
    at("an operator with an operand too many", "ACTION", WRONG, PRODUCT, a=5),
    at("an operator with very many operands", "ACTION", WRONG, PRODUCT, a=HUGE),
    at("operands of another operator", "ACTION", WRONG, PRODUCT, value=int(Operator.DETECTION_OUTPUT)),
    at("operands that end after the last slot", "RANGE", RANGE, PRODUCT, arg=1),
    at("operands after the last slot", "RANGE", RANGE, PRODUCT, arg=4),
    at("operands far away", "RANGE", RANGE, PRODUCT, arg=0xFFFF),
    at("an operator with a flag", "ACTION", RESERVED, PRODUCT, flags=2),
    at("an operator beside no job, whose result is an output", "ACTION", WRONG, PRODUCT, flags=FLAG_BESIDE),
    at("an operator with an offset", "ACTION", RESERVED, PRODUCT, b=1),
    operand("an operand of another element type", "ACTION", WRONG, LEFT, ("dtype", int(DType.INT32))),
    operand("an operand of another size", "ACTION", WRONG, LEFT, ("dims", _dims(2, 3))),
    operand(
        "an operand of another rank",
        *("ACTION", WRONG, BIAS),
        *(("rank", 2), ("dims", _dims(3, 1)), ("strides", _dims(4, 4))),
    ),
    operand("a result that callers give", "ACTION", WRONG, TO, ("kind", int(SlotKind.INPUT))),
    operand("a result over an operand", "RANGE", RANGE, TO, ("address", VA * PAGE + 64)),
    operand("an operand over the result", "RANGE", RANGE, RIGHT, ("address", VA * PAGE)),
    operand("a result whose last row lies over an operand", "RANGE", RANGE, TO, ("strides", _dims(64, 4))),
]
_BOXES = [
    operand("too few rows for candidates", "ACTION", WRONG, WORKING, ("dims", _dims(15, 7))),
    at("half a repetition of operands", "ACTION", WRONG, BOXES, a=7),
    at("no repetition of operands", "ACTION", WRONG, BOXES, a=4),
]


def _given_away(operator: str) -> list[Row]:
    """Scratch that is a caller's: it holds what others' pictures show."""
    return [
        operand(f"scratch of {operator} as an {name}", "ACTION", WRONG, WORKING, ("kind", int(kind)))
        for name, kind in (("output", SlotKind.OUTPUT), ("input", SlotKind.INPUT))
    ]


_WHOLE = [
    operand("an operand that is not aligned", "ACTION", WRONG, WEIGHTS, ("address", VA * PAGE + 132)),
    operand("a result that is not aligned", "ACTION", WRONG, TO, ("address", VA * PAGE + 8)),
    operand("a picture that is not aligned", "ACTION", WRONG, FROM, ("address", VA * PAGE + 1028)),
    operand("rows that are not aligned", "ACTION", WRONG, WEIGHTS, ("strides", _dims(52, 4))),
    operand("rows with gaps in them", "ACTION", WRONG, FROM, ("strides", _dims(64, 8))),
    operand("weights of fewer channels", "ACTION", WRONG, WEIGHTS, ("dims", _dims(8, 8))),
    operand("a picture of fewer channels", "ACTION", WRONG, FROM, ("dims", _dims(8, 4))),
    operand("a picture of fewer pixels", "ACTION", WRONG, FROM, ("dims", _dims(12, 3))),
    operand("fewer sums than there are results", "ACTION", WRONG, SUMS, ("dims", _dims(7))),
    operand("limits of which there are three", "ACTION", WRONG, LIMITS, ("dims", _dims(3))),
    operand("a picture of whole numbers", "ACTION", WRONG, FROM, ("dtype", int(DType.INT32))),
    operand("a convolution over what it reads", "RANGE", RANGE, FROM, ("address", VA * PAGE)),
    operand("a convolution to what callers give", "ACTION", WRONG, TO, ("kind", int(SlotKind.PARAMETER))),
    at("a convolution with the operands of a dense layer", "ACTION", WRONG, POINTWISE, value=int(Operator.DENSE)),
]


OPERATE = action(Op.OPERATE, slot=0, operator=Operator.COPY, operands=2)
BESIDE = OPERATE.with_(flags=FLAG_BESIDE)


def copied(to: int, source: int) -> list[Slot]:
    """Slots of a copy, by their virtual pages."""
    return [
        Slot("to", SlotKind.INTERNAL, DType.UINT32, (8,), (4,), to * PAGE),
        Slot("from", SlotKind.INTERNAL, DType.UINT32, (8,), (4,), source * PAGE, bound=True),
    ]


def _beside(name: str, *actions: Action) -> Hostile:
    """A trace that has an operator work beside a job where none is started, or nothing waits for it."""
    made = stopped(name, "ACTION", WORK, *actions, slots=copied(VA, VA + 1))
    return dataclasses.replace(made, host=PlaceError)


_JOB = job()
_BESIDE = (
    _beside("an operator beside a job before there is one", BESIDE, WAIT),
    _beside("an operator beside a job that is not started", *_JOB[:-1], BESIDE, WAIT),
    _beside("an operator beside a job that nothing waits for", *_JOB, BESIDE),
    _beside("an operator beside a job that is waited for later", *_JOB, BESIDE, OUT, WAIT),
    _beside("an operator beside a job that has been waited for", *_JOB, WAIT, BESIDE, WAIT),
    _beside("two operators, of which one is beside a job", *_JOB, OPERATE, BESIDE, WAIT),
    _beside("an operator beside a job between two that are not", *_JOB, BESIDE, OPERATE, WAIT),
    _beside("a job that a masked write of nothing starts", *_JOB[:-1], _JOB[-1].with_(value=0), BESIDE, WAIT),
)


def _linking(found: tuple[Hostile, ...]) -> tuple[Hostile, ...]:
    return tuple(dataclasses.replace(row, operators=ALL) for row in found)


_NOT_LINKED = Unseen("it depends on what the firmware was generated with")
ROWS = (
    *_linking(rows(_TABLE, product)),
    *_linking(rows([*_BOXES, *_given_away("yolo_detection_output")], boxes)),
    *_linking(rows(_given_away("yolov3_detection_output"), boxes_of_version_3)),
    *_linking(rows(_given_away("detection_output"), priors)),
    *_linking(rows(_WHOLE, pointwise)),
    *_linking(_BESIDE),
    *rows([("an operator that no firmware links", _same, "ACTION", _NOT_LINKED)], product),
    *(
        dataclasses.replace(row, operators=(Operator.COPY, Operator.EMBED))
        for row in rows([("an operator that this firmware does not link", _same, "ACTION", _NOT_LINKED)], boxes)
    ),
)


def _scattered() -> Trace:
    shapes = ((8, 4), (8, 300), (300, 4), (8,), (2,))
    found = slots_of(Operator.CONV1X1, [np.zeros(shape, "float32") for shape in shapes])
    bound = [dataclasses.replace(slot, bound=slot.kind == SlotKind.INPUT) for slot in found]
    return trace_of(Operator.CONV1X1, bound, scattered=True).with_(meta=dict(META))


def _running(name: str, sample: Trace, status: str, **meta: int) -> Hostile:
    return stopped(name, status, sample=lambda **_: sample, meta=meta, operators=ALL)


def _mapped(frame: int) -> Action:
    return action(Op.MAP_GPU_MEM, flags=MAP_READ, pages=1, va_page=FREE_VA, frame=frame)


RUNS = (
    stopped(
        "an operand where nothing is mapped", "RANGE", WORK, OPERATE, slots=copied(VA, FREE_VA), operators=ALL
    ),
    stopped(
        "an operator's result where nothing is mapped",
        "RANGE",
        WORK,
        OPERATE,
        slots=copied(FREE_VA, VA),
        operators=ALL,
    ),
    stopped(
        "an operator's result in the image",
        "RANGE",
        WORK,
        _mapped(0),
        OPERATE,
        slots=copied(FREE_VA, VA),
        operators=ALL,
    ),
    stopped(
        "an operator's result as code",
        "RANGE",
        *(WORK, code(), OPERATE, REMAP, *job(FREE_VA)),
        slots=copied(VA, FREE_VA),
        starts=False,
        operators=ALL,
    ),
    stopped(
        "an operator while a job runs",
        "BUSY",
        *(WORK, code(), *job(), OPERATE),
        slots=copied(VA, VA + 1),
        hang=True,
        operators=ALL,
    ),
    stopped(
        "an operator on what a faulted job has left",
        "FAULT",
        *(WORK, *job(), OPERATE),
        slots=copied(VA, VA + 1),
        operators=ALL,
    ),
    stopped(
        "an internal slot that is copied",
        "ACTION",
        *(WORK, IN),
        slots=[dataclasses.replace(slot, kind=SlotKind.INTERNAL) for slot in slots()],
    ),
    stopped(
        "an operator beside a job that faults",
        "FAULT",
        *(WORK, *job(), BESIDE, WAIT),
        slots=copied(VA, VA + 1),
        operators=ALL,
    ),
    stopped(
        "an operator's result beside a job where nothing is mapped",
        "RANGE",
        *(WORK, *job(), BESIDE, WAIT),
        slots=copied(FREE_VA, VA),
        operators=ALL,
    ),
    _running("an operand whose pages do not follow one another", _scattered(), "RANGE"),
    _running("heads without classes or a score", boxes(4), "RANGE"),
    _running(
        "an operator that takes too long",
        _made(Operator.MATMUL, (64, 64), (64, 64), (64, 64)),
        "BUDGET",
        time_budget_us=500,
    ),
)
# What only a device sees: which operators it has, what an operator comes to while it runs.
ONLY_A_DEVICE = {
    "an operator that no firmware links",
    "an operator that this firmware does not link",
    "heads without classes or a score",
    "an operator that takes too long",
}
# What the rows start from.
GOOD = _linking(
    (
        *rows([("good: an operator", _same, "OK", Unseen("nothing is wrong"))], product),
        *rows([("good: a pointwise convolution", _same, "OK", Unseen("nothing is wrong"))], pointwise),
        *rows([("good: an operator with repetitions", _same, "OK", Unseen("nothing is wrong"))], boxes),
        *rows([("good: boxes of an SSD", _same, "OK", Unseen("nothing is wrong"))], priors),
        stopped("good: a copy from the image", "OK", WORK, _mapped(0), OPERATE, slots=copied(VA, FREE_VA)),
    )
)
