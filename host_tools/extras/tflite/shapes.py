# SPDX-License-Identifier: BSD-2-Clause
"""TensorFlow Lite's operators that move numbers, as ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np

from host_tools.extras.tflite.file import COMPLEX, Operator
from host_tools.extras.tflite.graph import FILE, PICTURE, Build, Layout, axes_in, counted, option, tflite
from host_tools.record.onnx_graph import Name
from host_tools.record.preflight import NetworkError

END = np.iinfo(np.int64).max


def _put_moved(b: Build, operator: Operator, kind: str, *more: Name | None, **how: Any) -> None:
    """A node that only moves the numbers of the first input."""
    if stored := b.moved(operator):
        b.put_stored(operator.outputs[0], b.g.node(kind, stored(operator.inputs[0]), *more, **how))
    else:
        b.put(operator, b.g.node(kind, b.x(operator), *more, **how))


@tflite("RESHAPE", "SQUEEZE", "EXPAND_DIMS")
def _reshape(b: Build, operator: Operator) -> None:
    made = b.result(operator)
    _put_moved(b, operator, "Reshape", b.g.constant([*made.shape, *[2] * (made.dtype == COMPLEX)]))


@tflite("TRANSPOSE")
def _transpose(b: Build, operator: Operator) -> None:
    _put_moved(b, operator, "Transpose", perm=[int(axis) for axis in b.constant(operator, 1)])


@tflite("CONCATENATION")
def _concatenated(b: Build, operator: Operator) -> None:
    every = range(len(operator.inputs))
    layout = b.layout(operator, [*every])
    axis = counted(option(operator, "axis"), len(b.result(operator).shape))
    axis = layout.index(axis) if layout == PICTURE else axis
    names = (b.x(operator, at, layout) for at in every)
    b.put(operator, b.g.node("Concat", *names, axis=axis), layout)


@tflite("PACK")
def _packed(b: Build, operator: Operator) -> None:
    axis = counted(option(operator, "axis"), len(b.result(operator).shape))
    names = [b.g.node("Unsqueeze", b.x(operator, at), b.g.constant([axis])) for at in range(len(operator.inputs))]
    b.put(operator, b.g.node("Concat", *names, axis=axis))


@tflite("UNPACK")
def _unpacked(b: Build, operator: Operator) -> None:
    axis = counted(option(operator, "axis"), len(b.value(operator, 0).shape))
    x = b.x(operator)
    for at in range(len(operator.outputs)):
        b.put(operator, b.g.node("Gather", x, b.number_of(at, "int64"), axis=axis), at=at)


@tflite("SPLIT", "SPLIT_V")
def _split(b: Build, operator: Operator) -> None:
    data, where = (1, 0) if operator.kind == "SPLIT" else (0, 2)
    axis = counted(int(b.constant(operator, where)), len(b.value(operator, data).shape))
    sizes = [b.result(operator, at).shape[axis] for at in range(len(operator.outputs))]
    parts = b.g.nodes_of("Split", len(sizes), b.x(operator, data), b.g.constant(sizes), axis=axis)
    for at, part in enumerate(parts):
        b.put(operator, part, at=at)


@tflite("PAD", "PADV2", "MIRROR_PAD")
def _padded(b: Build, operator: Operator) -> None:
    layout = b.layout(operator, [0])
    edges = b.constant(operator, 1).astype(np.int64)
    if layout == PICTURE:
        edges = edges[list(layout)]
    pads = b.g.constant([*map(int, edges[:, 0]), *map(int, edges[:, 1])])
    x = b.x(operator, 0, layout)
    if operator.kind == "MIRROR_PAD":
        if option(operator, "mode"):
            raise NetworkError("the mode SYMMETRIC, which is not taken")
        b.put(operator, b.g.node("Pad", x, pads, mode="reflect"), layout)
        return
    fill = b.x(operator, 2) if operator.kind == "PADV2" else None
    if fill is not None and b.value(operator, 2).shape:
        fill = b.g.reshaped(fill, [])
    b.put(operator, b.g.node("Pad", x, pads, fill), layout)


@tflite("SLICE")
def _slice(b: Build, operator: Operator) -> None:
    starts = [int(at) for at in b.constant(operator, 1)]
    shape = b.result(operator).shape
    ends = [start + size for start, size in zip(starts, shape, strict=True)]
    axes = list(range(len(shape)))
    _put_moved(b, operator, "Slice", *(b.g.constant(part) for part in (starts, ends, axes)))


@tflite("STRIDED_SLICE")
def _strided(b: Build, operator: Operator) -> None:
    """With masks by axis: begin and end that do not count, axes that go, dimensions that are new (op_macros of
    strided_slice_logic.h)."""
    begins, ends, steps = ([int(at) for at in b.constant(operator, at)] for at in (1, 2, 3))
    masks = {
        name: option(operator, f"{name}Mask") for name in ("begin", "end", "ellipsis", "newAxis", "shrinkAxis")
    }
    if masks["ellipsis"] or masks["newAxis"]:
        raise NetworkError("an ellipsis or a new axis, which is not taken")
    if option(operator, "offset", False):
        ends = [begin + end for begin, end in zip(begins, ends, strict=True)]
    shape = b.value(operator, 0).shape
    gone = [at for at in range(len(begins)) if masks["shrinkAxis"] >> at & 1]
    for at in range(len(begins)):
        if at in gone:
            begins[at] += shape[at] if begins[at] < 0 else 0
            ends[at], steps[at] = begins[at] + 1, 1
            continue
        if masks["begin"] >> at & 1:
            begins[at] = 0 if steps[at] > 0 else END
        if masks["end"] >> at & 1:
            ends[at] = END if steps[at] > 0 else -END
    layout = PICTURE if not gone and len(shape) == 4 and b.layout(operator, [0]) == PICTURE else FILE
    axes = axes_in(range(len(begins)), layout) if layout == PICTURE else list(range(len(begins)))
    _put_sliced(b, operator, layout, (begins, ends, axes, steps), gone)


def _put_sliced(
    b: Build, operator: Operator, layout: Layout, parts: tuple[list[int], ...], gone: list[int]
) -> None:
    stored = b.moved(operator)
    source = b.stored(operator.inputs[0], layout) if stored else b.x(operator, 0, layout)
    made = b.g.node("Slice", source, *(b.g.constant(part) for part in parts))
    if gone:
        made = b.g.node("Squeeze", made, b.g.constant(gone))
    if stored:
        b.put_stored(operator.outputs[0], made, layout)
    else:
        b.put(operator, made, layout)


@tflite("GATHER")
def _gathered(b: Build, operator: Operator) -> None:
    if option(operator, "batchDims"):
        raise NetworkError("batch dimensions, which are not taken")
    axis = counted(option(operator, "axis"), len(b.value(operator, 0).shape))
    _put_moved(b, operator, "Gather", b.stored(operator.inputs[1]), axis=axis)


@tflite("GATHER_ND")
def _gathered_nd(b: Build, operator: Operator) -> None:
    _put_moved(b, operator, "GatherND", b.cast(b.stored(operator.inputs[1]), "int64"))


@tflite("TILE")
def _tiled(b: Build, operator: Operator) -> None:
    _put_moved(b, operator, "Tile", b.g.constant([int(count) for count in b.constant(operator, 1)]))


@tflite("BROADCAST_TO")
def _broadcast(b: Build, operator: Operator) -> None:
    _put_moved(b, operator, "Expand", b.g.constant(b.result(operator).shape))


@tflite("REVERSE_V2")
def _reversed(b: Build, operator: Operator) -> None:
    rank = len(b.value(operator, 0).shape)
    axes = [counted(int(axis), rank) for axis in b.constant(operator, 1)]
    many = len(axes)
    parts = ([-1] * many, [-END] * many, axes, [-1] * many)
    _put_moved(b, operator, "Slice", *(b.g.constant(part) for part in parts))


@tflite("SHAPE")
def _shape(b: Build, operator: Operator) -> None:
    b.put_constant(operator, np.array(b.value(operator, 0).shape, b.result(operator).dtype))


@tflite("FILL")
def _filled(b: Build, operator: Operator) -> None:
    b.put(operator, b.g.node("Expand", b.x(operator, 1), b.g.constant(b.result(operator).shape)))


@tflite("ZEROS_LIKE")
def _zeros(b: Build, operator: Operator) -> None:
    made = b.result(operator)
    b.put_constant(operator, np.zeros(made.shape, made.dtype))


@tflite("ONE_HOT")
def _one_hot(b: Build, operator: Operator) -> None:
    depth = b.g.constant([int(b.constant(operator, 1))])
    pair = [b.g.reshaped(b.x(operator, at), [1]) for at in (3, 2)]  # off, on
    values = b.g.node("Concat", *pair, axis=0)
    b.put(operator, b.g.node("OneHot", b.x(operator), depth, values, axis=option(operator, "axis", -1)))


@tflite("DENSIFY")
def _dense(b: Build, operator: Operator) -> None:
    b.put_constant(operator, b.constant(operator, 0))
