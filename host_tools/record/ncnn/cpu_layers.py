# SPDX-License-Identifier: BSD-2-Clause
"""The layers of a network that ncnn computes on the CPU: which these are, and the operators that do the same.

They stand between those on the GPU, whose input they compute, or at the network's end.

Options of layers are those of ncnn's sources (src/layer/detectionoutput.cpp, yolodetectionoutput.cpp,
yolov3detectionoutput.cpp, matmul.cpp, expanddims.cpp, squeeze.cpp at github.com/Tencent/ncnn).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import ncnn
import numpy as np
from numpy.typing import NDArray

from host_tools.record.ncnn.param import Layer, WrongError, leading_to
from trace_format.operators import BOX, OPERATORS, Operator
from trace_format.schema import DType

Shape = tuple[int, ...]
Shapes = Mapping[str, Shape]
MOST_BOXES = 300  # rows for boxes of a YOLO, whose layers in ncnn have no limit
COUNT = ".count"  # the slot of the number of boxes is called as the boxes, and this
LONGEST_NAME = 32 - len(COUNT)  # of boxes
CANDIDATE = len(BOX) + 1  # numbers that operators keep of one
# Layers that compute nothing by themselves.
WITHOUT_WORK = ("Input",)
INPUT = "Input"
MXNET = -233  # in place of the number of classes (detectionoutput.cpp)


@dataclass(frozen=True)
class View:
    """An operand that is a blob: in C order of this shape, then with its axes in another order."""

    blob: str
    shape: Shape
    axes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Result:
    """An operand that an operator writes; the blob that it is, "" for working memory."""

    blob: str
    shape: Shape
    dtype: DType = DType.FLOAT32


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


@dataclass(frozen=True)
class Between:
    """What the CPU computes for the GPU.

    Attributes:
        steps: in order.
        taken: blobs that these read and none of them writes.
        returned: blobs that these write and the GPU reads.
    """

    steps: tuple[Step, ...] = ()
    taken: tuple[str, ...] = ()
    returned: tuple[str, ...] = ()

    @property
    def written(self) -> tuple[str, ...]:
        """All blobs that these write."""
        return tuple(blob for step in self.steps for blob in step.results)


@dataclass(frozen=True)
class CpuEnd:
    """What is left to the CPU.

    Attributes:
        steps: at the end, in order; none where the GPU computes what comes last.
        outputs: blobs that are the network's, or were asked for; empty: all that ncnn gives.
        until: blobs that are there before these steps, `outputs` where there are none.
        between: what the CPU computes before that.
    """

    steps: tuple[Step, ...] = ()
    outputs: tuple[str, ...] = ()
    until: tuple[str, ...] = ()
    between: Between = Between()

    @property
    def asked(self) -> tuple[str, ...]:
        """Blobs that tell all of that, in an order in which nothing but what the network does is done for them.

        What the CPU has read or written ncnn keeps, so what layers read comes after what they write.
        """
        between = [blob for step in self.between.steps for blob in (*step.results, *step.layer.bottoms)]
        return tuple(dict.fromkeys([*between, *self.until])) if self.until else ()


def layers_on_cpu(layers: Sequence[Layer]) -> list[Layer]:
    """The layers that ncnn has no code on GPUs for.

    Raises:
        WrongError: one has no operator, or no trace can have it where it stands; names each such layer.
    """
    slow = [
        layer
        for layer in layers
        if layer.type not in WITHOUT_WORK and not getattr(ncnn.create_layer(layer.type), "support_vulkan", False)
    ]
    given = {top for layer in layers if layer.type == INPUT for top in layer.tops}
    boxes = {top for layer in slow if layer.type in DETECTIONS for top in layer.tops}
    wrong = []
    for layer in slow:
        after = next((x for x in layers if x not in slow and boxes & set(x.bottoms) & set(layer.tops)), None)
        if layer.type not in LAYERS:
            wrong.append(f"{layer.place}, which no operator of a trace computes")
        elif after is not None:
            wrong.append(f"{layer.place}, whose result is of varying size and goes to the GPU, to {after.place}")
        elif taken := sorted(given & set(layer.bottoms)):
            wrong.append(f"{layer.place}, whose input {taken[0]!r} never reaches the GPU")
        elif taken := sorted(boxes & set(layer.bottoms)):
            wrong.append(f"{layer.place}, whose input {taken[0]!r} is of varying size")
    if wrong:
        raise WrongError(
            f"ncnn {ncnn.__version__} computes on the CPU, for lack of Vulkan code, and the GPU's work cannot be "
            f"recorded around it: {'; '.join(wrong[:8])}{'; ...' if len(wrong) > 8 else ''}"
        )
    return slow


def _leading_to_gpu(slow: Sequence[Layer], read_by_gpu: set[str]) -> list[Layer]:
    """Those on the CPU whose results reach the GPU, in order."""
    read = set(read_by_gpu)
    found: list[Layer] = []
    for layer in reversed(slow):
        if read & set(layer.tops):
            found.insert(0, layer)
            read |= set(layer.bottoms)
    return found


def cpu_end(layers: list[Layer], until: Sequence[str], shapes: Shapes) -> CpuEnd:
    """What the CPU has to compute, and up to where the GPU computes.

    Args:
        layers: of the .param file.
        until: blobs that are to be computed; empty: all outputs of the network.
        shapes: of the blobs that `blobs_of_interest` names.

    Raises:
        WrongError: a layer that no operator computes, or an option or shape of one.
    """
    layers = leading_to(layers, list(until))
    slow = layers_on_cpu(layers)
    if not slow:
        return CpuEnd((), tuple(until), tuple(until))
    read = {blob for layer in layers for blob in layer.bottoms}
    outputs = list(until) or [top for layer in layers for top in layer.tops if top not in read]
    by_gpu = {blob for layer in layers if layer not in slow for blob in layer.bottoms}
    middle = _leading_to_gpu(slow, by_gpu)
    last = [layer for layer in slow if layer not in middle]
    written = {top for layer in last for top in layer.tops}
    needed = [blob for layer in last for blob in layer.bottoms] + outputs
    before = tuple(dict.fromkeys(blob for blob in needed if blob not in written))
    return CpuEnd(_steps(last, shapes), tuple(outputs), before, _between(middle, by_gpu, shapes))


def _steps(layers: Sequence[Layer], shapes: Shapes) -> tuple[Step, ...]:
    return tuple(LAYERS[layer.type](layer, shapes) for layer in layers)


def _between(middle: Sequence[Layer], read_by_gpu: set[str], shapes: Shapes) -> Between:
    written = [top for layer in middle for top in layer.tops]
    taken = dict.fromkeys(blob for layer in middle for blob in layer.bottoms if blob not in written)
    returned = tuple(blob for blob in written if blob in read_by_gpu)
    return Between(_steps(middle, shapes), tuple(taken), returned)


def blobs_of_interest(slow: Sequence[Layer]) -> list[str]:
    """Blobs whose shapes say what operators work on."""
    tops = [top for layer in slow if layer.type not in DETECTIONS for top in layer.tops]
    return list(dict.fromkeys([blob for layer in slow for blob in layer.bottoms] + tops))


def _copied(layer: Layer, shapes: Shapes) -> Step:
    (top,), (bottom,) = layer.tops, layer.bottoms
    return Step(layer, Operator.COPY, (Result(top, shapes[top]), View(bottom, shapes[bottom])))


def _matmul(layer: Layer, shapes: Shapes) -> Step:
    left, right = (shapes[blob] for blob in layer.bottoms)
    if len(left) != 2 or len(right) != 2:
        found = " and ".join("x".join(map(str, shape)) for shape in (left, right))
        raise WrongError(f"{layer.place}: expected two matrices, found tensors of {found}")
    axes = (1, 0) if layer.number(0, 0) else (0, 1)
    views = View(layer.bottoms[0], left), View(layer.bottoms[1], right, axes)
    return Step(layer, Operator.MATMUL, (Result(layer.tops[0], (left[0], right[axes[1]])), *views))


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


def _detection_output(layer: Layer, shapes: Shapes) -> Step:
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
    return Step(layer, Operator.DETECTION_OUTPUT, (*own, *views))


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


def _yolo(layer: Layer, shapes: Shapes) -> Step:
    biases = layer.array(4)

    def anchors(_: int, width: int, height: int) -> list[float]:
        return [bias / (height if i % 2 else width) for i, bias in enumerate(biases)]

    return Step(layer, Operator.YOLO_DETECTION_OUTPUT, _heads(layer, shapes, anchors))


def _yolov3(layer: Layer, shapes: Shapes) -> Step:
    biases, mask, scales = (layer.array(key) for key in (4, 5, 6))
    boxes = layer.number(1, 5)

    def anchors(number: int, width: int, height: int) -> list[float]:
        try:
            picture = int(scales[number] * width), int(scales[number] * height)
            which = [int(i) for i in mask[number * boxes : (number + 1) * boxes]]
            return [biases[2 * i + side] / picture[side] for i in which for side in (0, 1)]
        except (IndexError, ZeroDivisionError):
            raise WrongError(f"{layer.place}: its anchors, masks and scales do not fit its inputs") from None

    return Step(layer, Operator.YOLOV3_DETECTION_OUTPUT, _heads(layer, shapes, anchors))


DETECTIONS: dict[str, Callable[[Layer, Shapes], Step]] = {
    "DetectionOutput": _detection_output,
    "YoloDetectionOutput": _yolo,
    "Yolov3DetectionOutput": _yolov3,
}
# The layers that have an operator.
LAYERS: dict[str, Callable[[Layer, Shapes], Step]] = {
    **DETECTIONS,
    "ExpandDims": _copied,
    "Squeeze": _copied,
    "MatMul": _matmul,
}


def check_known(layers: Sequence[Layer]) -> None:
    """Raise WrongError if ncnn does not know a layer."""
    for layer in layers:
        if ncnn.layer_to_index(layer.type) < 0:
            raise WrongError(f"{layer}: ncnn {ncnn.__version__} has no layer of this type")
