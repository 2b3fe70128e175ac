# SPDX-License-Identifier: BSD-2-Clause
"""PyTorch's operators that reduce and sort, as ONNX. Argument names as in arithmetic.py."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from host_tools.extras.pytorch.graph import aten, axes_of, axis_of
from host_tools.record.onnx_graph import Graph, Name, Number, Tensor
from host_tools.record.preflight import NetworkError

Dims = int | Sequence[int] | None


def _reduced(g: Graph, kind: str, x: Name, rank: int, dim: Dims, keepdim: bool) -> Name:
    axes = axes_of(dim, rank)
    if not axes:
        return g.node("Identity", x)
    if kind == "ReduceSum":  # its axes are an input since opset 13
        return g.node(kind, x, g.constant(axes), keepdims=int(keepdim))
    return g.node(kind, x, axes=axes, keepdims=int(keepdim))


def _reduction(kind: str, g: Graph, x: Tensor, dim: Dims = None, keepdim: bool = False, dtype: Any = None) -> Name:
    return _reduced(g, kind, g.of(x, g.results[0].dtype), len(x.shape), dim, keepdim)


aten("sum")(partial(_reduction, "ReduceSum"))
aten("mean")(partial(_reduction, "ReduceMean"))
aten("prod")(partial(_reduction, "ReduceProd"))
aten("amax")(partial(_reduction, "ReduceMax"))
aten("amin")(partial(_reduction, "ReduceMin"))
aten("logsumexp")(partial(_reduction, "ReduceLogSumExp"))


def _extreme(g: Graph, kind: str, x: Tensor, dim: Any, keepdim: bool, other: Tensor | None) -> Any:
    if isinstance(dim, Tensor) or other is not None:  # max(x, other)
        return g.binary(kind, x, dim if other is None else other)
    if dim is None:
        return _reduced(g, f"Reduce{kind}", x.name, len(x.shape), None, False)
    value = _reduced(g, f"Reduce{kind}", x.name, len(x.shape), dim, keepdim)
    return [value, g.node(f"Arg{kind}", x.name, axis=axis_of(dim, len(x.shape)), keepdims=int(keepdim))]


@aten("max")
def _max(g: Graph, x: Tensor, dim: Any = None, keepdim: bool = False, other: Tensor | None = None) -> Any:
    return _extreme(g, "Max", x, dim, keepdim, other)


@aten("min")
def _min(g: Graph, x: Tensor, dim: Any = None, keepdim: bool = False, other: Tensor | None = None) -> Any:
    return _extreme(g, "Min", x, dim, keepdim, other)


def _place(kind: str, g: Graph, x: Tensor, dim: int | None = None, keepdim: bool = False) -> Name:
    if dim is None:
        flat = g.reshaped(x.name, [-1])
        return g.reshaped(g.node(kind, flat, axis=0, keepdims=0), g.results[0].shape)
    return g.node(kind, x.name, axis=axis_of(dim, len(x.shape)), keepdims=int(keepdim))


aten("argmax")(partial(_place, "ArgMax"))
aten("argmin")(partial(_place, "ArgMin"))


def _truth(kind: str, g: Graph, x: Tensor, dim: Dims = None, keepdim: bool = False) -> Name:
    numbers = g.node("Cast", g.of(x, "bool"), to=6)  # ONNX's int32
    return g.node("Cast", _reduced(g, kind, numbers, len(x.shape), dim, keepdim), to=9)  # and its bool


aten("any")(partial(_truth, "ReduceMax"))
aten("all")(partial(_truth, "ReduceMin"))


def _variance(
    g: Graph, x: Tensor, dim: Any, unbiased: bool, correction: Number | None, keepdim: bool
) -> tuple[Name, Name]:
    """Variance and mean."""
    if isinstance(dim, bool):  # var(x, unbiased)
        dim, unbiased = None, dim
    axes = axes_of(dim, len(x.shape))
    less = correction if correction is not None else int(unbiased)
    count = int(np.prod([x.shape[axis] for axis in axes]))
    mean = g.node("ReduceMean", x.name, axes=axes, keepdims=1)
    centred = g.node("Sub", x.name, mean)
    summed = g.node("ReduceSum", g.node("Mul", centred, centred), g.constant(axes), keepdims=int(keepdim))
    variance = g.node("Div", summed, g.constant(np.array(max(count - less, 0), x.dtype)))
    return variance, mean if keepdim else g.reshaped(mean, g.results[-1].shape)


@aten("var")
def _var(
    g: Graph,
    x: Tensor,
    dim: Any = None,
    unbiased: bool = True,
    correction: Number | None = None,
    keepdim: bool = False,
) -> Name:
    return _variance(g, x, dim, unbiased, correction, keepdim)[0]


@aten("std")
def _std(
    g: Graph,
    x: Tensor,
    dim: Any = None,
    unbiased: bool = True,
    correction: Number | None = None,
    keepdim: bool = False,
) -> Name:
    return g.node("Sqrt", _variance(g, x, dim, unbiased, correction, keepdim)[0])


@aten("var_mean")
def _var_mean(
    g: Graph,
    x: Tensor,
    dim: Any = None,
    unbiased: bool = True,
    correction: Number | None = None,
    keepdim: bool = False,
) -> tuple[Name, Name]:
    return _variance(g, x, dim, unbiased, correction, keepdim)


@aten("norm", "linalg_vector_norm")
def _norm(
    g: Graph,
    x: Tensor,
    ord: Number | None = None,
    dim: Dims = None,
    keepdim: bool = False,
    p: Number | None = None,
    dtype: Any = None,
) -> Name:
    power = next((value for value in (ord, p) if value is not None), 2)
    kinds: dict[Number, str] = {1: "ReduceL1", 2: "ReduceL2"}
    if power in kinds:
        return _reduced(g, kinds[power], x.name, len(x.shape), dim, keepdim)
    if power == float("inf"):
        return _reduced(g, "ReduceMax", g.node("Abs", x.name), len(x.shape), dim, keepdim)
    raise NetworkError(f"a norm of order {power}")


@aten("softmax", "_softmax")
def softmax(g: Graph, x: Tensor, dim: int, dtype: Any = None, half_to_float: bool = False) -> Name:
    return g.unary("Softmax", x, axis=axis_of(dim, len(x.shape)))


@aten("log_softmax", "_log_softmax")
def _log_softmax(g: Graph, x: Tensor, dim: int, dtype: Any = None, half_to_float: bool = False) -> Name:
    return g.unary("LogSoftmax", x, axis=axis_of(dim, len(x.shape)))


@aten("cumsum")
def _cumsum(g: Graph, x: Tensor, dim: int, dtype: Any = None) -> Name:
    axis = g.constant(np.array(axis_of(dim, len(x.shape))))
    return g.node("CumSum", g.of(x, g.results[0].dtype), axis)


@aten("topk")
def _topk(g: Graph, x: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> list[Name]:
    axis = axis_of(dim, len(x.shape))
    return g.nodes_of("TopK", 2, x.name, g.constant([k]), axis=axis, largest=int(largest), sorted=int(sorted))


@aten("sort")
def _sort(g: Graph, x: Tensor, dim: int = -1, descending: bool = False, stable: bool | None = None) -> list[Name]:
    return _topk(g, x, x.shape[axis_of(dim, len(x.shape))], dim, descending)


@aten("argsort")
def _argsort(g: Graph, x: Tensor, dim: int = -1, descending: bool = False, stable: bool | None = None) -> Name:
    return _sort(g, x, dim, descending)[1]


@aten("cosine_similarity")
def _cosine(g: Graph, x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Name:
    axis = axis_of(dim, max(len(x1.shape), len(x2.shape))) - max(len(x1.shape), len(x2.shape))
    least = g.constant(np.array(eps, x1.dtype))
    norms = [g.node("Max", g.node("ReduceL2", of.name, axes=[axis], keepdims=1), least) for of in (x1, x2)]
    scaled = [g.node("Div", of.name, norm) for of, norm in zip((x1, x2), norms, strict=True)]
    return g.node("ReduceSum", g.node("Mul", *scaled), g.constant([axis]), keepdims=0)
