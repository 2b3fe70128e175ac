# SPDX-License-Identifier: BSD-2-Clause
"""TensorFlow Lite's operators that take numbers one by one, or reduce them, as ONNX."""

from __future__ import annotations

from functools import partial

import numpy as np

from host_tools.extras.tflite.file import COMPLEX, Operator
from host_tools.extras.tflite.graph import FILE, PICTURE, Build, axes_in, counted, option, tflite
from host_tools.extras.tflite.spectra import part
from host_tools.record.onnx_graph import Name
from host_tools.record.preflight import NetworkError

PLAIN = "ABS CEIL COS EXP FLOOR LOG NEG ROUND SIGN SIN SQRT TANH RELU ELU"
UNARY = {**{name: name.capitalize() for name in PLAIN.split()}, "LOGISTIC": "Sigmoid", "LOGICAL_NOT": "Not"}
BINARY = {
    "ADD": "Add",
    "SUB": "Sub",
    "MUL": "Mul",
    "DIV": "Div",
    "MAXIMUM": "Max",
    "MINIMUM": "Min",
    "POW": "Pow",
    "EQUAL": "Equal",
    "GREATER": "Greater",
    "GREATER_EQUAL": "GreaterOrEqual",
    "LESS": "Less",
    "LESS_EQUAL": "LessOrEqual",
    "LOGICAL_AND": "And",
    "LOGICAL_OR": "Or",
}
REDUCED = {"MEAN": "ReduceMean", "SUM": "ReduceSum", "REDUCE_MAX": "ReduceMax", "REDUCE_MIN": "ReduceMin"}
REDUCED |= {"REDUCE_PROD": "ReduceProd"}


def _unary(kind: str, b: Build, operator: Operator) -> None:
    layout = b.layout(operator, [0])
    b.put(operator, b.g.node(kind, b.operand(operator, 0, layout)), layout, activation=0)


def _binary(kind: str, b: Build, operator: Operator) -> None:
    layout = b.layout(operator, [0, 1])
    b.put(operator, b.g.node(kind, *(b.operand(operator, at, layout) for at in (0, 1))), layout)


for name, kind in UNARY.items():
    tflite(name)(partial(_unary, kind))
for name, kind in BINARY.items():
    tflite(name)(partial(_binary, kind))


@tflite("NOT_EQUAL")
def _not_equal(b: Build, operator: Operator) -> None:
    layout = b.layout(operator, [0, 1])
    equal = b.g.node("Equal", *(b.operand(operator, at, layout) for at in (0, 1)))
    b.put(operator, b.g.node("Not", equal), layout)


@tflite("RELU6", "RELU_N1_TO_1", "RELU_0_TO_1")
def _clipped(b: Build, operator: Operator) -> None:
    least, most = {"RELU6": (0, 6), "RELU_N1_TO_1": (-1, 1), "RELU_0_TO_1": (0, 1)}[operator.kind]
    layout = b.layout(operator, [0])
    bounds = (b.number_of(least), b.number_of(most))
    b.put(operator, b.g.node("Clip", b.operand(operator, 0, layout), *bounds), layout)


@tflite("LEAKY_RELU")
def _leaky(b: Build, operator: Operator) -> None:
    layout = b.layout(operator, [0])
    alpha = float(option(operator, "alpha"))
    b.put(operator, b.g.node("LeakyRelu", b.operand(operator, 0, layout), alpha=alpha), layout)


@tflite("HARD_SWISH", "GELU", "RSQRT", "SQUARE")
def _composed(b: Build, operator: Operator) -> None:
    layout = b.layout(operator, [0])
    x = b.operand(operator, 0, layout)
    if operator.kind == "HARD_SWISH":
        made = b.g.node("HardSwish", x)
    elif operator.kind == "RSQRT":
        made = b.g.node("Reciprocal", b.g.node("Sqrt", x))
    elif operator.kind == "SQUARE":
        made = b.g.node("Mul", x, x)
    else:
        made = _gelu(b, x, option(operator, "approximate", False))
    b.put(operator, made, layout)


def _gelu(b: Build, x: Name, is_approximate: bool) -> Name:
    if is_approximate:
        cube = b.g.node("Mul", b.g.node("Mul", b.g.node("Mul", x, x), x), b.number_of(0.044715))
        inner = b.g.node("Mul", b.g.node("Add", x, cube), b.number_of(np.sqrt(2 / np.pi)))
        inner = b.g.node("Tanh", inner)
    else:
        inner = b.g.node("Erf", b.g.node("Mul", x, b.number_of(np.sqrt(0.5))))
    half = b.g.node("Mul", x, b.number_of(0.5))
    return b.g.node("Mul", half, b.g.node("Add", inner, b.number_of(1)))


@tflite("SQUARED_DIFFERENCE")
def _squared(b: Build, operator: Operator) -> None:
    layout = b.layout(operator, [0, 1])
    difference = b.g.node("Sub", *(b.operand(operator, at, layout) for at in (0, 1)))
    b.put(operator, b.g.node("Mul", difference, difference), layout)


@tflite("FLOOR_DIV", "FLOOR_MOD")
def _floored(b: Build, operator: Operator) -> None:
    x, y = (b.x(operator, at) for at in (0, 1))
    is_whole = np.dtype(b.value(operator, 0).dtype).kind in "iu"
    if is_whole:
        rest = b.g.node("Mod", x, y)
        made = rest if operator.kind == "FLOOR_MOD" else b.g.node("Div", b.g.node("Sub", x, rest), y)
    else:
        made = b.g.node("Floor", b.g.node("Div", x, y))
        if operator.kind == "FLOOR_MOD":
            made = b.g.node("Sub", x, b.g.node("Mul", made, y))
    b.put(operator, made)


@tflite("ADD_N")
def _sum(b: Build, operator: Operator) -> None:
    b.put(operator, b.g.node("Sum", *(b.x(operator, at) for at in range(len(operator.inputs)))))


@tflite("SELECT", "SELECT_V2", "WHERE")
def _selected(b: Build, operator: Operator) -> None:
    if len(operator.inputs) != 3:
        raise NetworkError("as a search for what is true, whose result has no fixed size")
    b.put(operator, b.g.node("Where", *(b.x(operator, at) for at in range(3))))


@tflite("CAST")
def _cast(b: Build, operator: Operator) -> None:
    before, after = b.value(operator, 0).dtype, b.result(operator).dtype
    if after == COMPLEX:
        raise NetworkError("to complex numbers, which it is not taken with")
    if before == COMPLEX:
        b.put(operator, b.cast(part(0, b, b.x(operator)), after))
        return
    layout = b.layout(operator, [0])
    b.put(operator, b.cast(b.operand(operator, 0, layout), after), layout)


def _reduced(kind: str, b: Build, operator: Operator) -> None:
    rank = len(b.value(operator, 0).shape)
    axes = sorted({counted(int(axis), rank) for axis in np.atleast_1d(b.constant(operator, 1))})
    keeps = bool(option(operator, "keepDims", False))
    layout = PICTURE if keeps and b.layout(operator, [0]) == PICTURE else FILE
    if not axes:
        b.put(operator, b.x(operator))
        return
    where = axes_in(axes, layout) if layout == PICTURE else axes
    x = b.x(operator, 0, layout)
    if kind == "ReduceSum":
        made = b.g.node(kind, x, b.g.constant(where), keepdims=int(keeps))
    else:
        made = b.g.node(kind, x, axes=where, keepdims=int(keeps))
    b.put(operator, made, layout)


for name, kind in REDUCED.items():
    tflite(name)(partial(_reduced, kind))


@tflite("UNSORTED_SEGMENT_SUM")
def _segments(b: Build, operator: Operator) -> None:
    """A product with a matrix that has a one where a row is of a segment; rows of no segment are left out."""
    shape, where = b.value(operator, 0).shape, b.value(operator, 1).shape
    made = b.result(operator)
    count, rows = int(b.constant(operator, 2)), int(np.prod(where))
    segments = b.g.constant(np.arange(count, dtype=b.value(operator, 1).dtype).reshape(count, 1))
    of = b.cast(b.g.node("Equal", segments, b.g.reshaped(b.x(operator, 1), [1, rows])), made.dtype)
    data = b.g.reshaped(b.x(operator), [rows, int(np.prod(shape[len(where) :]))])
    b.put(operator, b.g.reshaped(b.g.node("MatMul", of, data), made.shape))


@tflite("REDUCE_ANY", "REDUCE_ALL")
def _any(b: Build, operator: Operator) -> None:
    rank = len(b.value(operator, 0).shape)
    axes = [counted(int(axis), rank) for axis in np.atleast_1d(b.constant(operator, 1))]
    whole = b.cast(b.x(operator), "int32")
    kind = "ReduceMax" if operator.kind == "REDUCE_ANY" else "ReduceMin"
    made = b.g.node(kind, whole, axes=axes, keepdims=int(option(operator, "keepDims", False)))
    b.put(operator, b.cast(made, "bool"))


@tflite("ARG_MAX", "ARG_MIN")
def _arg(b: Build, operator: Operator) -> None:
    axis = counted(int(b.constant(operator, 1)), len(b.value(operator, 0).shape))
    kind = "ArgMax" if operator.kind == "ARG_MAX" else "ArgMin"
    made = b.g.node(kind, b.x(operator), axis=axis, keepdims=0)
    b.put(operator, b.cast(made, b.result(operator).dtype))


@tflite("CUMSUM")
def _cumulated(b: Build, operator: Operator) -> None:
    how = {name: int(option(operator, name, False)) for name in ("exclusive", "reverse")}
    axis = b.number_of(int(b.constant(operator, 1)), "int64")
    b.put(operator, b.g.node("CumSum", b.x(operator), axis, **how))


@tflite("TOPK_V2")
def _top(b: Build, operator: Operator) -> None:
    count = b.g.constant([int(b.constant(operator, 1))])
    values, indices = b.g.nodes_of("TopK", 2, b.x(operator), count, axis=-1)
    b.put(operator, values)
    b.put(operator, b.cast(indices, b.result(operator, 1).dtype), at=1)
