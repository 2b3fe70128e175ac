# SPDX-License-Identifier: BSD-2-Clause
"""Layers of ncnn as operators: what each takes and gives.

Options of layers are those of ncnn's sources (src/layer/detectionoutput.cpp, yolodetectionoutput.cpp,
yolov3detectionoutput.cpp, matmul.cpp, expanddims.cpp, squeeze.cpp, glu.cpp, cumulativesum.cpp, flip.cpp at
github.com/Tencent/ncnn).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from host_tools.record.ncnn.equivalents import hint
from host_tools.record.ncnn.param import Layer, WrongError
from trace_format.operators import BOX, OPERATORS, Operator
from trace_format.schema import DType

Shape = tuple[int, ...]
Index = tuple[int | slice, ...]
Shapes = Mapping[str, Shape]
MOST_PRODUCTS = 16  # of matrices in one layer: each takes three of a trace's slots
MOST_BOXES = 300  # rows for boxes of a YOLO, whose layers in ncnn have no limit
COUNT = ".count"  # the slot of the number of boxes is called as the boxes, and this
LONGEST_NAME = 32 - len(COUNT)  # of boxes
CANDIDATE = len(BOX) + 1  # numbers that operators keep of one
MXNET = -233  # in place of the number of classes (detectionoutput.cpp)


@dataclass(frozen=True)
class View:
    """An operand that is a blob, or a part of it.

    Attributes:
        blob: which.
        shape: its elements in C order are taken for a tensor of this shape.
        axes: of the part, in another order; () for the same.
        index: the part, as NumPy's; () for all.
    """

    blob: str
    shape: Shape
    axes: tuple[int, ...] = ()
    index: Index = ()


@dataclass(frozen=True)
class Result:
    """An operand that an operator writes.

    Attributes:
        blob: which it is, "" for working memory.
        shape: of the blob.
        dtype: of its elements.
        index: the part that is written, as of a View.
        taken_as: the shape that the operator takes its elements for, in C order; () for the same.
    """

    blob: str
    shape: Shape
    dtype: DType = DType.FLOAT32
    index: Index = ()
    taken_as: Shape = ()


Operand = View | Result | NDArray[np.float32]


@dataclass(frozen=True)
class Step:
    """One layer: an operator and what it works on, in the order of its operands."""

    layer: Layer
    operator: Operator
    operands: tuple[Operand, ...]

    @property
    def results(self) -> list[str]:
        """Blobs that it writes."""
        return [operand.blob for operand in self.operands if isinstance(operand, Result) and operand.blob]


Steps = tuple[Step, ...]


def _copied(layer: Layer, shapes: Shapes) -> Steps:
    (top,), (bottom,) = layer.tops, layer.bottoms
    return (Step(layer, Operator.COPY, (Result(top, shapes[top]), View(bottom, shapes[bottom]))),)


def _matmul(layer: Layer, shapes: Shapes) -> Steps:
    """A product for each pair of matrices in the outer dimensions, of which those of size 1 are repeated."""
    (top,), blobs = layer.tops, layer.bottoms
    left, right = (shapes[blob] for blob in blobs)
    outer = np.broadcast_shapes(left[:-2], right[:-2])
    products = math.prod(outer)
    if min(len(left), len(right)) < 2 or products > MOST_PRODUCTS:
        found = " and ".join("x".join(map(str, shape)) for shape in (left, right))
        raise WrongError(
            f"{layer.place}: expected two matrices, or at most {MOST_PRODUCTS} products of such; "
            f"found tensors of {found}{hint(layer.type)}"
        )
    axes = (1, 0) if layer.number(0, 0) else ()
    return tuple(
        Step(
            layer,
            Operator.MATMUL,
            (
                Result(top, shapes[top], index=at),
                View(blobs[0], left, (), _repeated(at, left[:-2])),
                View(blobs[1], right, axes, _repeated(at, right[:-2])),
            ),
        )
        for at in np.ndindex(outer)
    )


def _repeated(at: tuple[int, ...], outer: Shape) -> Index:
    """Which matrix of a tensor with these outer dimensions belongs to a product."""
    return tuple(0 if size == 1 else i for i, size in zip(at[len(at) - len(outer) :], outer, strict=True))


def _axis(layer: Layer, axis: int, shape: Shape) -> int:
    found = axis + len(shape) if axis < 0 else axis
    if not 0 <= found < len(shape):
        raise WrongError(f"{layer.place}: expected an axis of {len(shape)}, found {axis}")
    return found


def _along(shape: Shape, axis: int) -> Shape:
    """A shape of three dimensions, of which one is the middle one."""
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


def _glu(layer: Layer, shapes: Shapes) -> Steps:
    (top,), (bottom,) = layer.tops, layer.bottoms
    axis = _axis(layer, layer.number(0, 0), shapes[bottom])
    whole, half = _along(shapes[bottom], axis), shapes[top][axis]
    halves = (View(bottom, whole, (), (slice(None), slice(at, at + half))) for at in (0, half))
    return (Step(layer, Operator.GLU, (Result(top, shapes[top], taken_as=_along(shapes[top], axis)), *halves)),)


def _one_axis(operator: Operator) -> Callable[[Layer, Shapes], Steps]:
    """Of a layer whose result has its input's shape, and whose one option is an axis, or a list of one."""

    def made(layer: Layer, shapes: Shapes) -> Steps:
        (top,), (bottom,) = layer.tops, layer.bottoms
        axes = layer.numbers(0) if operator is Operator.FLIP else [layer.number(0, 0)]
        if len(axes) != 1:
            raise WrongError(f"{layer.place}: expected one axis, found {len(axes)}")
        shape = _along(shapes[bottom], _axis(layer, axes[0], shapes[bottom]))
        return (Step(layer, operator, (Result(top, shapes[top], taken_as=shape), View(bottom, shape))),)

    return made


def _boxes(layer: Layer, keep: int, candidates: int, parameters: Sequence[float]) -> tuple[Operand, ...]:
    """The operands that all detection layers have."""
    top = layer.tops[0]
    if len(top.encode()) > LONGEST_NAME:
        raise WrongError(
            f"{layer.place}: expected an output's name of at most {LONGEST_NAME} bytes, found {top!r}"
        )
    if min(keep, candidates) < 1:
        raise WrongError(f"{layer.place}: expected room for a box, found {keep} of {candidates} candidates")
    return (
        Result(top, (keep, len(BOX))),
        Result(top + COUNT, (1,), DType.INT32),
        Result("", (candidates, CANDIDATE)),
        np.array(parameters, np.float32),
    )


def _detection_output(layer: Layer, shapes: Shapes) -> Steps:
    location, confidence, priors = layer.bottoms
    classes, shape = layer.number(0, 0), shapes[priors]
    if classes == MXNET:
        raise WrongError(f"{layer.place}: expected a number of classes, found {MXNET}: boxes as MXNet's")
    count = math.prod(shape) // 8
    sizes = [math.prod(shapes[blob]) for blob in layer.bottoms]
    if shape[0] != 2 or sizes != [4 * count, classes * count, 8 * count]:
        raise WrongError(
            f"{layer.place}: expected four offsets and {classes} scores for each of {count} priors, and for each "
            f"prior two times four numbers; found {', '.join(map(str, sizes))} numbers"
        )
    parameters = layer.real(4, 0.5), layer.real(1, 0.05), layer.number(2, 300)
    own = _boxes(layer, min(layer.number(3, 100), count * (classes - 1)), count, parameters)
    views = (
        View(location, (count, 4)),
        View(confidence, (count, classes)),
        View(priors, (2, count, 4)),
    )
    return (Step(layer, Operator.DETECTION_OUTPUT, (*own, *views)),)


def _heads(layer: Layer, shapes: Shapes, anchors: Callable[[int, int, int], list[float]]) -> tuple[Operand, ...]:
    """Operands of a YOLO; `anchors`: widths and heights of a head's, by its number, width and height."""
    boxes, attributes = layer.number(1, 5), 5 + layer.number(0, 20)
    most = OPERATORS[Operator.YOLO_DETECTION_OUTPUT].most
    if len(layer.bottoms) > most:
        raise WrongError(f"{layer.place}: expected at most {most} inputs, found {len(layer.bottoms)}")
    found: list[Operand] = []
    cells = 0
    for number, blob in enumerate(layer.bottoms):
        shape = shapes[blob]
        if len(shape) != 3 or shape[0] != boxes * attributes:
            size = "x".join(map(str, shape))
            raise WrongError(
                f"{layer.place}: expected {boxes} boxes of {attributes} channels in {blob!r}, found {size}"
            )
        _, height, width = shape
        cells += boxes * height * width
        numbers = anchors(number, width, height)
        if len(numbers) != 2 * boxes:
            raise WrongError(f"{layer.place}: expected {boxes} anchors for {blob!r}, found {len(numbers) / 2:g}")
        found += [
            View(blob, (boxes, attributes, height, width)),
            np.array(numbers, np.float32).reshape(boxes, 2),
        ]
    parameters = layer.real(2, 0.01), layer.real(3, 0.45)
    return (*_boxes(layer, min(MOST_BOXES, cells), cells, parameters), *found)


def _yolo(layer: Layer, shapes: Shapes) -> Steps:
    biases = layer.array(4)

    def anchors(_: int, width: int, height: int) -> list[float]:
        return [bias / (height if i % 2 else width) for i, bias in enumerate(biases)]

    return (Step(layer, Operator.YOLO_DETECTION_OUTPUT, _heads(layer, shapes, anchors)),)


def _yolov3(layer: Layer, shapes: Shapes) -> Steps:
    biases, mask, scales = (layer.array(key) for key in (4, 5, 6))
    boxes = layer.number(1, 5)

    def anchors(number: int, width: int, height: int) -> list[float]:
        try:
            picture = int(scales[number] * width), int(scales[number] * height)
            which = [int(i) for i in mask[number * boxes : (number + 1) * boxes]]
            return [biases[2 * i + side] / picture[side] for i in which for side in (0, 1)]
        except (IndexError, ZeroDivisionError):
            raise WrongError(f"{layer.place}: its anchors, masks and scales do not fit its inputs") from None

    return (Step(layer, Operator.YOLOV3_DETECTION_OUTPUT, _heads(layer, shapes, anchors)),)


DETECTIONS: dict[str, Callable[[Layer, Shapes], Steps]] = {
    "DetectionOutput": _detection_output,
    "YoloDetectionOutput": _yolo,
    "Yolov3DetectionOutput": _yolov3,
}
# The layers that have an operator.
LAYERS: dict[str, Callable[[Layer, Shapes], Steps]] = {
    **DETECTIONS,
    "CumulativeSum": _one_axis(Operator.CUMULATIVE_SUM),
    "ExpandDims": _copied,
    "Flip": _one_axis(Operator.FLIP),
    "GLU": _glu,
    "Squeeze": _copied,
    "MatMul": _matmul,
}
