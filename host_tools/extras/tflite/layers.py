# SPDX-License-Identifier: BSD-2-Clause
"""TensorFlow Lite's layers as ONNX: convolutions, pools, products, pictures.

What they compute: TensorFlow's tensorflow/lite/kernels/internal/reference, one file an operator.
"""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.extras.tflite.file import Operator, Steps
from host_tools.extras.tflite.graph import FILE, PICTURE, Build, option, tflite
from host_tools.record.onnx_graph import Name
from host_tools.record.preflight import NetworkError

SAME, VALID = 0, 1


def _pads(padding: int, sizes: tuple[int, int], made: tuple[int, int], steps: Any, spans: Any) -> list[int]:
    """ONNX's pads of rows and columns: what SAME lacks is halved, the larger half behind."""
    if padding == VALID:
        return [0, 0, 0, 0]
    if padding != SAME:
        raise NetworkError(f"the padding {padding}, which is not taken")
    lacks = [max((o - 1) * step + span - i, 0) for i, o, step, span in zip(sizes, made, steps, spans, strict=True)]
    return [lack // 2 for lack in lacks] + [lack - lack // 2 for lack in lacks]


def _weights(b: Build, operator: Operator, at: int, order: tuple[int, ...]) -> Name:
    """Weights in another order of dimensions."""
    content, steps = b.content(b.number(operator, at)), b.value(operator, at).steps
    if content is None:
        return b.g.node("Transpose", b.x(operator, at), perm=order)
    name = b.g.constant(content.transpose(order))
    return name if steps is None else b.dequantized(name, Steps(steps.scale, steps.zero, order.index(steps.axis)))


def _bias(b: Build, operator: Operator, at: int) -> Name | None:
    return b.x(operator, at) if b.has(operator, at) else None


def _spatial(b: Build, operator: Operator, at: int = 0) -> tuple[int, int]:
    shape = b.value(operator, at).shape
    if len(shape) != 4:
        raise NetworkError(f"input {at}: expected 4 dimensions, found {len(shape)}")
    return shape[1], shape[2]


def _made(b: Build, operator: Operator) -> tuple[int, int]:
    return b.result(operator).shape[1], b.result(operator).shape[2]


@tflite("CONV_2D", "DEPTHWISE_CONV_2D")
def _convolution(b: Build, operator: Operator) -> None:
    is_depthwise = operator.kind == "DEPTHWISE_CONV_2D"
    shape = b.value(operator, 1).shape
    if len(shape) != 4:
        raise NetworkError(f"weights of {len(shape)} dimensions")
    channels = b.value(operator, 0).shape[3]
    if is_depthwise:  # 1, rows, columns, channels: one filter each
        weights = _weights(b, operator, 1, (3, 0, 1, 2))
        group = channels
    else:
        weights = _weights(b, operator, 1, (0, 3, 1, 2))
        group = channels // shape[3]
    strides = [option(operator, "strideH", 1), option(operator, "strideW", 1)]
    dilations = [option(operator, "dilationHFactor", 1), option(operator, "dilationWFactor", 1)]
    spans = [(size - 1) * by + 1 for size, by in zip(shape[1:3], dilations, strict=True)]
    pads = _pads(option(operator, "padding"), _spatial(b, operator), _made(b, operator), strides, spans)
    how = {"pads": pads, "strides": strides, "dilations": dilations, "group": group}
    b.put(operator, b.g.node("Conv", b.picture(operator), weights, _bias(b, operator, 2), **how), PICTURE)


@tflite("TRANSPOSE_CONV")
def _transposed(b: Build, operator: Operator) -> None:
    how = option(operator, "padding"), (option(operator, "strideH", 1), option(operator, "strideW", 1))
    _transposed_convolution(b, operator, 2, 1, 3, *how)


@tflite("CUSTOM:Convolution2DTransposeBias")  # MediaPipe's: util/tflite/operations/transpose_conv_bias.cc
def _transposed_bias(b: Build, operator: Operator) -> None:
    if len(operator.custom) < 12:
        raise NetworkError(f"{len(operator.custom)} bytes of options, where it has 12")
    padding, width, height = struct.unpack_from("<3i", operator.custom)
    if padding not in (1, 2):  # TfLitePadding: same, valid
        raise NetworkError(f"the padding {padding}, which is not taken")
    _transposed_convolution(b, operator, 0, 1, 2, padding - 1, (height, width))


def _transposed_convolution(
    b: Build, operator: Operator, data: int, weights: int, bias: int, padding: int, strides: tuple[int, int]
) -> None:
    shape = b.value(operator, weights).shape
    sizes, made = _spatial(b, operator, data), _made(b, operator)
    pads = _pads(padding, made, sizes, strides, shape[1:3])
    full = [(i - 1) * step + span for i, step, span in zip(sizes, strides, shape[1:3], strict=True)]
    more = [o - f + pads[at] + pads[at + 2] for at, (o, f) in enumerate(zip(made, full, strict=True))]
    how = {"pads": pads, "strides": list(strides), "output_padding": more}
    turned = _weights(b, operator, weights, (3, 0, 1, 2))
    inputs = (b.picture(operator, data), turned, _bias(b, operator, bias))
    b.put(operator, b.g.node("ConvTranspose", *inputs, **how), PICTURE)


@tflite("FULLY_CONNECTED")
def _connected(b: Build, operator: Operator) -> None:
    if option(operator, "weightsFormat"):
        raise NetworkError("weights that are shuffled, which are not taken")
    data, weights = b.value(operator, 0), b.value(operator, 1)
    name = b.x(operator)
    if len(data.shape) != 2 or data.shape[1] != weights.shape[1]:
        name = b.g.reshaped(name, [-1, weights.shape[1]])
    made = b.g.node("MatMul", name, _weights(b, operator, 1, (1, 0)))
    if bias := _bias(b, operator, 2):
        made = b.g.node("Add", made, bias)
    shape = b.result(operator).shape
    if len(shape) != 2:
        made = b.g.reshaped(made, shape)
    b.put(operator, made)


@tflite("BATCH_MATMUL")
def _product(b: Build, operator: Operator) -> None:
    names = []
    for at, flag in enumerate(("adjX", "adjY")):
        name, rank = b.x(operator, at), len(b.value(operator, at).shape)
        if option(operator, flag, False):
            name = b.g.node("Transpose", name, perm=[*range(rank - 2), rank - 1, rank - 2])
        names.append(name)
    b.put(operator, b.g.node("MatMul", *names))


@tflite("MAX_POOL_2D", "AVERAGE_POOL_2D", "L2_POOL_2D")
def _pool(b: Build, operator: Operator) -> None:
    spans = [option(operator, "filterHeight"), option(operator, "filterWidth")]
    strides = [option(operator, "strideH"), option(operator, "strideW")]
    pads = _pads(option(operator, "padding"), _spatial(b, operator), _made(b, operator), strides, spans)
    how = {"kernel_shape": spans, "strides": strides, "pads": pads}
    x = b.picture(operator)
    if operator.kind == "MAX_POOL_2D":
        made = b.g.node("MaxPool", x, **how)
    elif operator.kind == "AVERAGE_POOL_2D":
        made = b.g.node("AveragePool", x, **how)
    else:
        made = b.g.node("Sqrt", b.g.node("AveragePool", b.g.node("Mul", x, x), **how))
    b.put(operator, made, PICTURE)


@tflite("RESIZE_BILINEAR")
def _resized(b: Build, operator: Operator) -> None:
    corners, half = option(operator, "alignCorners", False), option(operator, "halfPixelCenters", False)
    place = "align_corners" if corners else "half_pixel" if half else "asymmetric"
    b.put(operator, _resize(b, operator, mode="linear", coordinate_transformation_mode=place), PICTURE)


def _resize(b: Build, operator: Operator, **how: str) -> Name:
    shape = b.result(operator).shape
    sizes = b.g.constant([shape[axis] for axis in PICTURE])
    return b.g.node("Resize", b.picture(operator), None, None, sizes, **how)


@tflite("RESIZE_NEAREST_NEIGHBOR")
def _resized_nearest(b: Build, operator: Operator) -> None:
    """By whole factors as Resize, which ncnn knows; else by rows and columns, whose numbers are constants."""
    corners, half = option(operator, "alignCorners", False), option(operator, "halfPixelCenters", False)
    sizes, made = _spatial(b, operator), _made(b, operator)
    if not corners and all(out % size == 0 for size, out in zip(sizes, made, strict=True)):
        how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        b.put(operator, _resize(b, operator, **how), PICTURE)
        return
    x = b.picture(operator)
    for axis, size, out in zip((2, 3), sizes, made, strict=True):
        x = b.g.node("Gather", x, b.g.constant(_nearest(size, out, corners, half)), axis=axis)
    b.put(operator, x, PICTURE)


def _nearest(size: int, out: int, corners: bool, half: bool) -> list[int]:
    """Which of `size` rows each of `out` is (resize_nearest_neighbor.h, in float32)."""
    scale = (
        np.float32(size - 1) / np.float32(out - 1) if corners and out > 1 else np.float32(size) / np.float32(out)
    )
    places = (np.arange(out, dtype=np.float32) + np.float32(0.5 if half else 0)) * scale
    rows = np.floor(places + np.float32(0.5)) if corners else np.floor(places)
    return [int(row) for row in np.clip(rows, 0, size - 1)]


@tflite("DEPTH_TO_SPACE", "SPACE_TO_DEPTH")
def _blocks(b: Build, operator: Operator) -> None:
    size = option(operator, "blockSize")
    if operator.kind == "DEPTH_TO_SPACE":
        made = b.g.node("DepthToSpace", b.picture(operator), blocksize=size, mode="DCR")
    else:
        made = b.g.node("SpaceToDepth", b.picture(operator), blocksize=size)
    b.put(operator, made, PICTURE)


@tflite("BATCH_TO_SPACE_ND", "SPACE_TO_BATCH_ND")
def _batches(b: Build, operator: Operator) -> None:
    block = [int(size) for size in b.constant(operator, 1)]
    edges: NDArray[Any] = b.constant(operator, 2)
    shape, rank = b.value(operator, 0).shape, len(block)
    rest = list(shape[1 + rank :])
    order = [*range(1, 1 + rank)]
    x = b.x(operator)
    if operator.kind == "SPACE_TO_BATCH_ND":
        pads = [0, *edges[:, 0], *[0] * len(rest), 0, *edges[:, 1], *[0] * len(rest)]
        x = b.g.node("Pad", x, b.g.constant([int(at) for at in pads]))
        padded = [size + int(edges[at].sum()) for at, size in enumerate(shape[1 : 1 + rank])]
        parts = [part for at, size in enumerate(padded) for part in (size // block[at], block[at])]
        x = b.g.reshaped(x, [shape[0], *parts, *rest])
        inner, outer = [2 * at for at in order], [2 * at - 1 for at in order]
        x = b.g.node("Transpose", x, perm=[*inner, 0, *outer, *range(1 + 2 * rank, 1 + 2 * rank + len(rest))])
        b.put(operator, b.g.reshaped(x, b.result(operator).shape))
        return
    batch = shape[0] // math.prod(block)
    x = b.g.reshaped(x, [*block, batch, *shape[1:]])
    pairs = [axis for at in range(rank) for axis in (1 + rank + at, at)]
    x = b.g.node("Transpose", x, perm=[rank, *pairs, *range(1 + 2 * rank, 1 + 2 * rank + len(rest))])
    sizes = [size * by for size, by in zip(shape[1 : 1 + rank], block, strict=True)]
    x = b.g.reshaped(x, [batch, *sizes, *rest])
    starts = b.g.constant([int(at) for at in edges[:, 0]])
    ends = b.g.constant([size - int(edges[at, 1]) for at, size in enumerate(sizes)])
    b.put(operator, b.g.node("Slice", x, starts, ends, b.g.constant(order)))


@tflite("SOFTMAX", "LOG_SOFTMAX")
def _softmax(b: Build, operator: Operator) -> None:
    x = b.x(operator)
    beta = option(operator, "beta", 1.0) if operator.kind == "SOFTMAX" else 1.0
    if beta != 1:
        x = b.g.node("Mul", x, b.number_of(beta))
    b.put(operator, b.g.node("Softmax" if operator.kind == "SOFTMAX" else "LogSoftmax", x, axis=-1))


@tflite("L2_NORMALIZATION")
def _normalized(b: Build, operator: Operator) -> None:
    x = b.x(operator)
    squares = b.g.node("ReduceSum", b.g.node("Mul", x, x), b.g.constant([-1]), keepdims=1)
    least = b.number_of(1e-6)  # l2normalization.h
    b.put(operator, b.g.node("Div", x, b.g.node("Max", b.g.node("Sqrt", squares), least)))


@tflite("LOCAL_RESPONSE_NORMALIZATION")
def _local(b: Build, operator: Operator) -> None:
    radius = option(operator, "radius")
    size, alpha = 2 * radius + 1, option(operator, "alpha")
    how = {"size": size, "alpha": alpha * size, "beta": option(operator, "beta"), "bias": option(operator, "bias")}
    b.put(operator, b.g.node("LRN", b.picture(operator), **how), PICTURE)


@tflite("PRELU")
def _prelu(b: Build, operator: Operator) -> None:
    layout = b.layout(operator, [0, 1])
    b.put(operator, b.g.node("PRelu", *(b.operand(operator, at, layout) for at in (0, 1))), layout)


@tflite("QUANTIZE", "DEQUANTIZE")
def _changed_steps(b: Build, operator: Operator) -> None:
    value, made = b.value(operator, 0), b.result(operator)
    content = b.content(operator.inputs[0])
    if content is not None and value.steps is None and made.steps is None:  # halves, as weights are stored
        b.put_constant(operator, content.astype(made.dtype))
        return
    layout = PICTURE if len(value.shape) == 4 and b.layout(operator, [0]) == PICTURE else FILE
    x = b.x(operator, 0, layout)
    if value.dtype == "float16":
        x = b.cast(x, made.dtype)
    b.put(operator, x, layout)
