# SPDX-License-Identifier: BSD-2-Clause
"""Random TensorFlow Lite networks, of float32 or of 8 bits: layers of pictures, then layers of vectors."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.support.tflite_file import File

SAME, VALID = 0, 1
ACTIVATIONS = (0, 1, 3)  # none, RELU, RELU6


@dataclass
class Network:
    """A network that grows.

    Attributes:
        random: what decides.
        is_quantized: whether it is of 8 bits.
        file: the file.
        at: number of the last tensor.
        shape: its shape.
        steps: scale and zero point of it, if it is quantised.
        before: numbers of earlier tensors, by shape.
    """

    random: np.random.Generator
    is_quantized: bool
    file: File = field(default_factory=File)
    at: int = 0
    shape: tuple[int, ...] = ()
    steps: tuple[float, int] | None = None
    before: dict[tuple[int, ...], int] = field(default_factory=dict)

    def some(self, least: int, most: int) -> int:
        """A whole number, both ends included."""
        return int(self.random.integers(least, most + 1))

    def new_steps(self) -> tuple[float, int] | None:
        """Scale and zero point for another tensor."""
        return (float(self.random.uniform(0.02, 0.1)), self.some(-20, 20)) if self.is_quantized else None

    def tensor(self, shape: tuple[int, ...], steps: tuple[float, int] | None) -> int:
        """A tensor of the network's type."""
        return self.file.tensor(shape, "int8" if self.is_quantized else "float32", steps)

    def weights(self, shape: tuple[int, ...], axis: int) -> tuple[int, Any]:
        """Number of a constant with weights, and their scales."""
        if not self.is_quantized:
            return self.file.constant(self.random.normal(0, 0.3, shape).astype(np.float32)), None
        scales = self.random.uniform(0.002, 0.01, shape[axis]).astype(np.float32)
        content = self.random.integers(-127, 128, shape).astype(np.int8)
        return self.file.constant(content, (scales, np.zeros(shape[axis])), axis), scales

    def bias(self, count: int, scales: Any) -> int:
        """Number of a constant with a layer's bias."""
        if scales is None:
            return self.file.constant(self.random.normal(0, 0.3, count).astype(np.float32))
        assert self.steps is not None
        content = self.random.integers(-500, 500, count).astype(np.int32)
        return self.file.constant(content, (scales * np.float32(self.steps[0]), np.zeros(count)))

    def to(
        self,
        shape: tuple[int, ...],
        kind: str,
        more: list[int],
        options: str = "",
        keeps: bool = False,
        **how: Any,
    ) -> None:
        """An operator on the last tensor and others; `keeps`: it keeps the scale."""
        steps = self.steps if keeps else self.new_steps()
        made = self.tensor(shape, steps)
        self.file.add(kind, [self.at, *more], [made], options, **how)
        self.before[self.shape] = self.at
        self.at, self.shape, self.steps = made, shape, steps


def network(seed: int, is_quantized: bool = False) -> tuple[bytes, list[str]]:
    """A file, and the kinds of its operators."""
    net = Network(np.random.default_rng(seed), is_quantized)
    net.shape = (1, net.some(5, 12), net.some(5, 12), net.some(1, 5))
    net.steps = net.new_steps()
    first = net.at = net.tensor(net.shape, net.steps)
    for _ in range(net.some(2, 6)):
        net.random.choice(np.array(PICTURES, object))(net)
    if net.some(0, 1):
        net.to((1, math.prod(net.shape)), "RESHAPE", _shape(net, [1, -1]), "ReshapeOptions", keeps=True)
        for _ in range(net.some(1, 3)):
            net.random.choice(np.array(VECTORS, object))(net)
    from ai_edge_litert import schema_py_generated as schema

    names = {number: name for name, number in vars(schema.BuiltinOperator).items() if isinstance(number, int)}
    kinds = [names[code.builtinCode] for code in net.file.model.operatorCodes]
    return net.file.data([first], [net.at]), kinds


def _shape(net: Network, sizes: list[int]) -> list[int]:
    return [net.file.constant(np.array(sizes, np.int32))]


def _spatial(net: Network, padding: int, spans: tuple[int, int], steps: tuple[int, int]) -> tuple[int, ...]:
    sizes = net.shape[1:3]
    lacks = (0, 0) if padding == SAME else (spans[0] - 1, spans[1] - 1)
    return tuple(-(-(size - lack) // step) for size, lack, step in zip(sizes, lacks, steps, strict=True))


def _window(net: Network) -> tuple[int, tuple[int, int], tuple[int, int]]:
    spans = net.some(1, min(3, net.shape[1])), net.some(1, min(3, net.shape[2]))
    return net.some(SAME, VALID), spans, (net.some(1, 2), net.some(1, 2))


def _convolution(net: Network) -> None:
    padding, spans, steps = _window(net)
    channels = net.some(1, 6)
    weights, scales = net.weights((channels, *spans, net.shape[3]), 0)
    more = [weights, net.bias(channels, scales)]
    how: dict[str, Any] = {"padding": padding, "strideH": steps[0], "strideW": steps[1]}
    how["fusedActivationFunction"] = int(net.random.choice(ACTIVATIONS))
    net.to((1, *_spatial(net, padding, spans, steps), channels), "CONV_2D", more, "Conv2DOptions", **how)


def _depthwise(net: Network) -> None:
    padding, spans, steps = _window(net)
    steps = (steps[0], steps[0])
    by = net.some(1, 2)
    weights, scales = net.weights((1, *spans, net.shape[3] * by), 3)
    more = [weights, net.bias(net.shape[3] * by, scales)]
    how: dict[str, Any] = {"padding": padding, "strideH": steps[0], "strideW": steps[1], "depthMultiplier": by}
    how["fusedActivationFunction"] = int(net.random.choice(ACTIVATIONS))
    shape = (1, *_spatial(net, padding, spans, steps), net.shape[3] * by)
    net.to(shape, "DEPTHWISE_CONV_2D", more, "DepthwiseConv2DOptions", **how)


def _pool(net: Network) -> None:
    padding, spans, steps = _window(net)
    kind = str(net.random.choice(["MAX_POOL_2D", "AVERAGE_POOL_2D"]))
    how = {"filterHeight": spans[0], "filterWidth": spans[1], "strideH": steps[0], "strideW": steps[1]}
    shape = (1, *_spatial(net, padding, spans, steps), net.shape[3])
    net.to(shape, kind, [], "Pool2DOptions", keeps=True, padding=padding, **how)


def _pad(net: Network) -> None:
    edges = np.array(
        [[0, 0], [net.some(0, 2), net.some(0, 2)], [net.some(0, 2), net.some(0, 2)], [0, 0]], np.int32
    )
    sizes = tuple(int(size + edge.sum()) for size, edge in zip(net.shape, edges, strict=True))
    net.to(sizes, "PAD", [net.file.constant(edges)], "PadOptions", keeps=True)


def _resize(net: Network) -> None:
    sizes = net.some(3, 14), net.some(3, 14)
    how: dict[str, Any] = {["alignCorners", "halfPixelCenters", "x"][net.some(0, 2)]: True}
    how.pop("x", None)
    kind, options = [
        ("RESIZE_BILINEAR", "ResizeBilinearOptions"),
        ("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions"),
    ][net.some(0, 1)]
    net.to((1, *sizes, net.shape[3]), kind, _shape(net, [*sizes]), options, keeps=True, **how)


def _add(net: Network) -> None:
    kind, options = [("ADD", "AddOptions"), ("MUL", "MulOptions"), ("SUB", "SubOptions")][net.some(0, 2)]
    other = net.before.get(net.shape)
    if other is None:
        shape = (net.shape[-1],) if net.some(0, 1) else (1,) * len(net.shape)
        if net.is_quantized:
            other = net.file.constant(net.random.integers(-127, 128, shape).astype(np.int8), (0.02, 3))
        else:
            other = net.file.constant(net.random.normal(0, 1, shape).astype(np.float32))
    net.to(net.shape, kind, [other], options, fusedActivationFunction=int(net.random.choice(ACTIVATIONS)))


def _concatenate(net: Network) -> None:
    axis = net.some(1, len(net.shape) - 1)
    shape = tuple(size * 2 if at == axis else size for at, size in enumerate(net.shape))
    net.to(shape, "CONCATENATION", [net.at], "ConcatenationOptions", keeps=True, axis=axis)


def _slice(net: Network) -> None:
    starts = [0, *(net.some(0, size - 1) for size in net.shape[1:])]
    sizes = [1, *(net.some(1, size - start) for start, size in zip(starts[1:], net.shape[1:], strict=True))]
    ends = [start + size for start, size in zip(starts, sizes, strict=True)]
    more = [*_shape(net, starts), *_shape(net, ends), *_shape(net, [1] * len(sizes))]
    net.to(tuple(sizes), "STRIDED_SLICE", more, "StridedSliceOptions", keeps=True)


def _transpose(net: Network) -> None:
    order = [0, *(1 + net.random.permutation(len(net.shape) - 1))]
    shape = tuple(net.shape[axis] for axis in order)
    net.to(shape, "TRANSPOSE", [net.file.constant(np.array(order, np.int32))], "TransposeOptions", keeps=True)


def _mean(net: Network) -> None:
    net.to((1, 1, 1, net.shape[3]), "MEAN", _shape(net, [1, 2]), "ReducerOptions", keepDims=True)


def _unary(kinds: list[str]) -> Callable[[Network], None]:
    def add(net: Network) -> None:
        net.to(net.shape, str(net.random.choice(kinds)), [], keeps=True)

    return add


def _connected(net: Network) -> None:
    count = net.some(1, 12)
    weights, scales = net.weights((count, net.shape[-1]), 0)
    more = [weights, net.bias(count, scales)]
    how = int(net.random.choice(ACTIVATIONS))
    net.to((1, count), "FULLY_CONNECTED", more, "FullyConnectedOptions", fusedActivationFunction=how)


def _sigmoid(net: Network) -> None:
    made = net.tensor(net.shape, (1 / 256, -128) if net.is_quantized else None)
    kind, options, how = [("LOGISTIC", "", {}), ("SOFTMAX", "SoftmaxOptions", {"beta": 1.0})][net.some(0, 1)]
    net.file.add(kind, [net.at], [made], options, **how)
    net.at, net.steps = made, (1 / 256, -128) if net.is_quantized else None


PICTURES: list[Callable[[Network], None]] = [
    _convolution,
    _convolution,
    _depthwise,
    _pool,
    _pad,
    _resize,
    _add,
    _concatenate,
    _slice,
    _transpose,
]
PICTURES += [_mean, _unary(["RELU", "RELU6"])]
VECTORS: list[Callable[[Network], None]] = [
    _connected,
    _connected,
    _add,
    _concatenate,
    _slice,
    _sigmoid,
    _unary(["RELU", "RELU6"]),
]
