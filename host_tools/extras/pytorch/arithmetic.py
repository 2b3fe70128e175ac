# SPDX-License-Identifier: BSD-2-Clause
"""PyTorch's operators that compute element by element, as ONNX.

Argument names and defaults are those of ATen's declarations (aten/src/ATen/native/native_functions.yaml), but for
`x`, which is `self` or `input` there.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from host_tools.extras.pytorch.graph import aten, axis_of, promoted
from host_tools.record.onnx_graph import Graph, Name, Number, Tensor
from host_tools.record.preflight import NetworkError

Operand = Tensor | Number
PLAIN = "abs ceil cos cosh erf exp floor log neg round sigmoid sign sin sinh sqrt tan tanh acos acosh asin asinh"
UNARY = {
    **{name: name.capitalize() for name in f"{PLAIN} atan atanh reciprocal".split()},
    "relu": "Relu",
    "hardswish": "HardSwish",
}


def _unary(kind: str, g: Graph, x: Tensor) -> Name:
    return g.unary(kind, x)


for operator, kind in UNARY.items():
    aten(operator)(partial(_unary, kind))


@aten("trunc", "fix")
def _trunc(g: Graph, x: Tensor) -> Name:
    return g.node("Mul", g.node("Sign", x.name), g.node("Floor", g.node("Abs", x.name)))


@aten("frac")
def _frac(g: Graph, x: Tensor) -> Name:
    return g.node("Sub", x.name, _trunc(g, x))


@aten("rsqrt")
def _rsqrt(g: Graph, x: Tensor) -> Name:
    return g.node("Reciprocal", g.unary("Sqrt", x))


@aten("square")
def _square(g: Graph, x: Tensor) -> Name:
    return g.binary("Mul", x, x)


def _log_of(base: float, g: Graph, x: Tensor) -> Name:
    return g.binary("Mul", g.unary("Log", x), 1 / math.log(base))


aten("log2")(partial(_log_of, 2.0))
aten("log10")(partial(_log_of, 10.0))


@aten("log1p")
def _log1p(g: Graph, x: Tensor) -> Name:
    return g.node("Log", g.binary("Add", x, 1))


@aten("expm1")
def _expm1(g: Graph, x: Tensor) -> Name:
    return g.binary("Sub", g.unary("Exp", x), 1)


@aten("add")
def add(g: Graph, x: Operand, other: Operand, alpha: Number = 1) -> Name:
    if g.results[0].dtype == "bool":
        return g.binary("Or", x, other)
    return g.binary("Add", x, other if alpha == 1 else g.binary("Mul", other, alpha))


@aten("sub", "subtract")
def _sub(g: Graph, x: Operand, other: Operand, alpha: Number = 1) -> Name:
    return g.binary("Sub", x, other if alpha == 1 else g.binary("Mul", other, alpha))


@aten("rsub")
def _rsub(g: Graph, x: Operand, other: Operand, alpha: Number = 1) -> Name:
    return _sub(g, other, x, alpha)


@aten("mul", "multiply")
def _mul(g: Graph, x: Operand, other: Operand) -> Name:
    return g.binary("And" if g.results[0].dtype == "bool" else "Mul", x, other)


@aten("div", "divide", "true_divide")
def _div(g: Graph, x: Operand, other: Operand, rounding_mode: str | None = None) -> Name:
    if rounding_mode == "floor":
        return _floor_divide(g, x, other)
    if rounding_mode == "trunc" and not _whole(g):
        made = g.binary("Div", x, other)
        return g.node("Mul", g.node("Sign", made), g.node("Floor", g.node("Abs", made)))
    return g.binary("Div", x, other)  # of whole numbers, ONNX's cuts off, too


@aten("floor_divide")
def _floor_divide(g: Graph, x: Operand, other: Operand) -> Name:
    if not _whole(g):
        return g.node("Floor", g.binary("Div", x, other))
    rest = g.binary("Mod", x, other)
    return g.binary("Div", g.binary("Sub", x, rest), other)


@aten("remainder")
def _remainder(g: Graph, x: Operand, other: Operand) -> Name:
    if _whole(g):
        return g.binary("Mod", x, other)
    return g.binary("Sub", x, g.binary("Mul", g.node("Floor", g.binary("Div", x, other)), other))


@aten("fmod")
def _fmod(g: Graph, x: Operand, other: Operand) -> Name:
    dtype = g.results[0].dtype
    return g.node("Mod", g.of(x, dtype), g.of(other, dtype), fmod=1)


@aten("pow")
def _pow(g: Graph, x: Operand, exponent: Operand) -> Name:
    if exponent == 2:
        return g.binary("Mul", x, x)
    return g.binary("Pow", x, exponent)


@aten("maximum", "fmax")
def _maximum(g: Graph, x: Tensor, other: Tensor) -> Name:
    return g.binary("Max", x, other)


@aten("minimum", "fmin")
def _minimum(g: Graph, x: Tensor, other: Tensor) -> Name:
    return g.binary("Min", x, other)


@aten("clamp", "clip")
def _clamp(g: Graph, x: Tensor, min: Operand | None = None, max: Operand | None = None) -> Name:
    made: Name | Tensor = x
    if min is not None:
        made = g.binary("Max", made, min)
    if max is not None:
        made = g.binary("Min", made, max)
    return g.of(x, g.results[0].dtype) if isinstance(made, Tensor) else made


@aten("clamp_min")
def _clamp_min(g: Graph, x: Tensor, min: Operand) -> Name:
    return g.binary("Max", x, min)


@aten("clamp_max")
def _clamp_max(g: Graph, x: Tensor, max: Operand) -> Name:
    return g.binary("Min", x, max)


@aten("hardtanh")
def _hardtanh(g: Graph, x: Tensor, min_val: Number = -1, max_val: Number = 1) -> Name:
    dtype = g.results[0].dtype
    return g.node("Clip", x.name, *(g.constant(np.array(at, dtype)) for at in (min_val, max_val)))


@aten("relu6")
def _relu6(g: Graph, x: Tensor) -> Name:
    return _hardtanh(g, x, 0, 6)


@aten("leaky_relu")
def _leaky_relu(g: Graph, x: Tensor, negative_slope: float = 0.01) -> Name:
    return g.unary("LeakyRelu", x, alpha=float(negative_slope))


@aten("elu")
def _elu(g: Graph, x: Tensor, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Name:
    if (scale, input_scale) != (1, 1):
        raise NetworkError("elu with a scale")
    return g.unary("Elu", x, alpha=float(alpha))


@aten("celu")
def _celu(g: Graph, x: Tensor, alpha: float = 1.0) -> Name:
    return g.unary("Celu", x, alpha=float(alpha))


@aten("selu")
def _selu(g: Graph, x: Tensor) -> Name:
    return g.unary("Selu", x)


@aten("gelu")
def _gelu(g: Graph, x: Tensor, approximate: str = "none") -> Name:
    if approximate == "tanh":
        cube = g.binary("Mul", g.binary("Mul", g.binary("Mul", x, x), x), 0.044715)
        inner = g.node("Tanh", g.binary("Mul", g.binary("Add", x, cube), math.sqrt(2 / math.pi)))
    else:
        inner = g.node("Erf", g.binary("Div", x, math.sqrt(2)))
    return g.binary("Mul", g.binary("Mul", x, g.binary("Add", inner, 1)), 0.5)


@aten("silu")
def _silu(g: Graph, x: Tensor) -> Name:
    return g.binary("Mul", x, g.unary("Sigmoid", x))


@aten("mish")
def _mish(g: Graph, x: Tensor) -> Name:
    return g.binary("Mul", x, g.node("Tanh", g.unary("Softplus", x)))


@aten("hardsigmoid")
def _hardsigmoid(g: Graph, x: Tensor) -> Name:
    return g.unary("HardSigmoid", x, alpha=1 / 6, beta=0.5)


@aten("softplus")
def _softplus(g: Graph, x: Tensor, beta: float = 1, threshold: float = 20) -> Name:
    if beta == 1:
        return g.unary("Softplus", x)
    return g.binary("Div", g.node("Softplus", g.binary("Mul", x, beta)), beta)


@aten("log_sigmoid")
def _log_sigmoid(g: Graph, x: Tensor) -> Name:
    return g.node("Neg", g.node("Softplus", g.unary("Neg", x)))


@aten("prelu", "_prelu_kernel")
def _prelu(g: Graph, x: Tensor, weight: Tensor) -> Name:
    slope = (
        g.reshaped(weight.name, [-1] + [1] * max(len(x.shape) - 2, 0)) if weight.shape == (x.shape[1:2]) else None
    )
    return g.node("PRelu", x.name, slope or weight.name)


@aten("softshrink")
def _softshrink(g: Graph, x: Tensor, lambd: float = 0.5) -> Name:
    return g.unary("Shrink", x, bias=float(lambd), lambd=float(lambd))


@aten("hardshrink")
def _hardshrink(g: Graph, x: Tensor, lambd: float = 0.5) -> Name:
    return g.unary("Shrink", x, bias=0.0, lambd=float(lambd))


@aten("threshold")
def _threshold(g: Graph, x: Tensor, threshold: Number, value: Number) -> Name:
    above = g.node("Greater", x.name, g.of(threshold, x.dtype))
    return g.node("Where", above, x.name, g.of(value, x.dtype))


@aten("glu")
def _glu(g: Graph, x: Tensor, dim: int = -1) -> Name:
    left, right = g.nodes_of("Split", 2, x.name, axis=axis_of(dim, len(x.shape)))
    return g.node("Mul", left, g.node("Sigmoid", right))


@aten("addcmul")
def _addcmul(g: Graph, x: Tensor, tensor1: Tensor, tensor2: Tensor, value: Number = 1) -> Name:
    return g.binary("Add", x, g.binary("Mul", g.binary("Mul", tensor1, tensor2), value))


@aten("addcdiv")
def _addcdiv(g: Graph, x: Tensor, tensor1: Tensor, tensor2: Tensor, value: Number = 1) -> Name:
    return g.binary("Add", x, g.binary("Mul", g.binary("Div", tensor1, tensor2), value))


@aten("lerp")
def _lerp(g: Graph, x: Tensor, end: Tensor, weight: Operand) -> Name:
    return g.binary("Add", x, g.binary("Mul", g.binary("Sub", end, x), weight))


def _compared(kind: str, negated: bool, g: Graph, x: Operand, other: Operand) -> Name:
    dtype = promoted(x, other)
    if dtype == "bool" and kind != "Equal":
        dtype = "int32"
    made = g.node(kind, g.of(x, dtype), g.of(other, dtype))
    return g.node("Not", made) if negated else made


for operator, kind, negated in (
    ("eq", "Equal", False),
    ("ne", "Equal", True),
    ("lt", "Less", False),
    ("le", "LessOrEqual", False),
    ("gt", "Greater", False),
    ("ge", "GreaterOrEqual", False),
):
    aten(operator)(partial(_compared, kind, negated))


def _logical(kind: str, g: Graph, x: Operand, other: Operand) -> Name:
    return g.node(kind, g.of(x, "bool"), g.of(other, "bool"))


def _bitwise(kind: str, g: Graph, x: Operand, other: Operand) -> Name:
    if not _bool(g):
        raise NetworkError(f"bitwise {kind.lower()} of whole numbers")
    return _logical(kind, g, x, other)


for name, kind in (("and", "And"), ("or", "Or"), ("xor", "Xor")):
    aten(f"logical_{name}")(partial(_logical, kind))
    aten(f"bitwise_{name}", f"__{name}__")(partial(_bitwise, kind))


@aten("logical_not", "bitwise_not")
def _not(g: Graph, x: Tensor) -> Name:
    return g.node("Not", g.of(x, "bool"))


@aten("isnan")
def _isnan(g: Graph, x: Tensor) -> Name:
    return g.node("IsNaN", x.name)


@aten("isinf")
def _isinf(g: Graph, x: Tensor) -> Name:
    return g.node("IsInf", x.name)


@aten("where")
def _where(g: Graph, condition: Tensor, x: Operand, other: Operand) -> Name:
    dtype = g.results[0].dtype
    return g.node("Where", g.of(condition, "bool"), g.of(x, dtype), g.of(other, dtype))


@aten("masked_fill")
def _masked_fill(g: Graph, x: Tensor, mask: Tensor, value: Operand) -> Name:
    return g.node("Where", mask.name, g.of(value, x.dtype), x.name)


def _whole(g: Graph) -> bool:
    return np.dtype(g.results[0].dtype).kind in "iu"


def _bool(g: Graph) -> bool:
    return g.results[0].dtype == "bool"
