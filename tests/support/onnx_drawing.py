# SPDX-License-Identifier: BSD-2-Clause
"""Small random ONNX networks: pictures, sequences, tables of numbers, with layers, shapes and weights by a seed.

Several seeds make one file of networks side by side, whose names begin with the seed's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

OPSET = 18
Shape = tuple[int, ...]
MOST = 6000  # elements of a value


class Drawing:
    """A network in the making: its latest value, and earlier ones by shape."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng([20261125, seed])
        self.prefix = f"n{seed}_"
        self.nodes: list[Any] = []
        self.constants: dict[str, NDArray[Any]] = {}
        self.inputs: dict[str, tuple[str, Shape]] = {}
        self.outputs: dict[str, str] = {}
        self.earlier: dict[Shape, list[str]] = {}
        kind = self.one_of(PICTURE, SEQUENCE, TABLE)
        sizes: Callable[[Drawing], Shape] = SIZES[id(kind)]
        self.shape: Shape = sizes(self)
        self.value = self.given("float32", self.shape)
        for _ in range(int(self.random.integers(3, 9))):
            self.earlier.setdefault(self.shape, []).append(self.value)
            layer = kind[self.random.integers(len(kind))]
            layer(self)
        if self.random.random() < 0.3 and self.earlier.get(self.shape):
            self.leave(self.one_of(*self.earlier[self.shape]))
        self.leave(self.value)

    def one_of(self, *choices: Any) -> Any:
        """One of them, each as likely."""
        return choices[int(self.random.integers(len(choices)))]

    def below(self, first: int, end: int) -> int:
        """A whole number, `first` or more, and less than `end`."""
        return int(self.random.integers(first, end))

    def given(self, kind: str, shape: Shape) -> str:
        """A new input."""
        name = f"{self.prefix}in{len(self.inputs)}"
        self.inputs[name] = (kind, shape)
        return name

    def constant(self, value: Any, kind: Any = np.float32) -> str:
        """A new constant."""
        name = f"{self.prefix}c{len(self.constants)}"
        self.constants[name] = np.asarray(value, kind)
        return name

    def weights(self, *shape: int) -> str:
        """Random ones, by which values keep their size."""
        scale = 1 / np.sqrt(max(int(np.prod(shape[1:])), 1))
        return self.constant(self.random.normal(0, scale, shape))

    def add(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        """A node; its first output."""
        names = [f"{self.prefix}v{len(self.nodes)}_{at}" for at in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, names[0], **attributes))
        return names[0]

    def to(self, value: str, shape: Sequence[int]) -> None:
        """Go on with a value, or with every other one of it, if it is large."""
        self.value, self.shape = value, tuple(shape)
        while int(np.prod(self.shape)) > MOST:
            at = int(np.argmax(self.shape))
            ends = [self.constant([number], np.int64) for number in (0, self.shape[at], at, 2)]
            self.value = self.add("Slice", self.value, *ends)
            self.shape = (*self.shape[:at], -(-self.shape[at] // 2), *self.shape[at + 1 :])

    def leave(self, value: str, kind: str = "float32") -> None:
        """Make an output of a value."""
        name = f"{self.prefix}out{len(self.outputs)}"
        self.nodes.append(helper.make_node("Identity", [value], [name], name))
        self.outputs[name] = kind


# ---- layers of any value ----


def activation(d: Drawing) -> None:
    kind = d.one_of("Relu", "Sigmoid", "Tanh", "LeakyRelu", "Elu", "HardSwish", "Softplus", "Erf", "Mish", "Celu")
    d.to(d.add(kind, d.value), d.shape)


def softmax(d: Drawing) -> None:
    d.to(d.add(d.one_of("Softmax", "LogSoftmax"), d.value, axis=d.below(0, len(d.shape))), d.shape)


def with_numbers(d: Drawing) -> None:
    """Arithmetic with a constant of the whole shape, or of one axis, or with another input."""
    kept = tuple(size if d.random.random() < 0.5 else 1 for size in d.shape)
    other = (
        d.given("float32", d.shape) if d.random.random() < 0.15 else d.constant(d.random.uniform(0.5, 1.5, kept))
    )
    d.to(
        d.add(d.one_of("Add", "Mul", "Sub", "Div" if "_in" not in other else "Mul", "Max", "Min"), d.value, other),
        d.shape,
    )


def with_earlier(d: Drawing) -> None:
    others = d.earlier.get(d.shape, [d.value])
    d.to(d.add(d.one_of("Add", "Sub", "Max"), d.value, d.one_of(*others)), d.shape)


def chosen(d: Drawing) -> None:
    """One of two values, by a comparison, or by an input of whole numbers."""
    zero = d.constant(0.0)
    if d.random.random() < 0.5:
        mask = d.add(d.one_of("Greater", "Less", "GreaterOrEqual"), d.value, zero)
    else:
        numbers = d.given("int32", (d.shape[-1],))
        left = d.add("Mod", numbers, d.constant(d.below(2, 5), np.int32))
        mask = d.add("Equal", left, d.constant(1, np.int32))
    d.to(d.add("Where", mask, d.value, d.add("Mul", d.value, d.constant(-0.25))), d.shape)


def turned(d: Drawing) -> None:
    order = [0, *(1 + d.random.permutation(len(d.shape) - 1)).tolist()]
    d.to(d.add("Transpose", d.value, perm=order), [d.shape[at] for at in order])


def sliced(d: Drawing) -> None:
    axis = d.below(1, len(d.shape))
    size, step = d.shape[axis], d.one_of(1, 2, -1)
    if size < 4:
        return
    first, last = d.below(0, size // 2), d.below(size // 2 + 1, size + 1)
    start, end = (first, last) if step > 0 else (last - 1, first - 1 if first else -size - 1)
    count = len(range(first, last, abs(step)))
    ends = [d.constant([number], np.int64) for number in (start, end, axis, step)]
    d.to(d.add("Slice", d.value, *ends), [*d.shape[:axis], count, *d.shape[axis + 1 :]])


def joined(d: Drawing) -> None:
    axis = d.below(1, len(d.shape))
    other = d.one_of(*d.earlier.get(d.shape, [d.value]))
    d.to(d.add("Concat", d.value, other, axis=axis), [*d.shape[:axis], 2 * d.shape[axis], *d.shape[axis + 1 :]])


def reduced(d: Drawing) -> None:
    """A sum along an axis, spread again over what it was of."""
    axis = d.below(1, len(d.shape))
    kind = d.one_of("ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceSum")
    sums = d.add(kind, d.value, d.constant([axis], np.int64), keepdims=1)
    d.to(d.add("Sub", d.value, sums), d.shape)


def padded(d: Drawing) -> None:
    sizes = np.zeros((2, len(d.shape)), np.int64)
    sizes[:, d.below(1, len(d.shape))] = d.below(0, 3), d.below(0, 3)
    shape = [size + int(more) for size, more in zip(d.shape, sizes.sum(0), strict=True)]
    inputs = [d.value, d.constant(sizes.reshape(-1), np.int64)]
    if d.random.random() < 0.7 or min(d.shape) < 4:
        d.to(d.add("Pad", *inputs, d.constant(d.random.normal())), shape)
    else:
        d.to(d.add("Pad", *inputs, mode=d.one_of("reflect", "edge")), shape)


def summed_up(d: Drawing) -> None:
    d.to(d.add("CumSum", d.value, d.constant(len(d.shape) - 1, np.int64)), d.shape)


# ---- layers of pictures: (1, channels, height, width) ----


def convolution(d: Drawing) -> None:
    _, channels, height, width = d.shape
    group = d.one_of(1, 1, channels) if channels > 1 else 1
    out = channels if group > 1 else d.one_of(1, 3, 4, 8, 10)
    kernel, stride, dilation = d.one_of(1, 3, 5), d.one_of(1, 1, 2), d.one_of(1, 1, 2)
    pad = d.below(0, kernel)
    sizes = [(size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1 for size in (height, width)]
    if min(sizes) < 1:
        return
    weights = d.weights(out, channels // group, kernel, kernel)
    inputs = [d.value, weights] + ([d.constant(d.random.normal(0, 0.3, out))] if d.random.random() < 0.7 else [])
    how: dict[str, Any] = {"strides": [stride] * 2, "pads": [pad] * 4, "dilations": [dilation] * 2, "group": group}
    d.to(d.add("Conv", *inputs, **how), (1, out, *sizes))


def back(d: Drawing) -> None:
    _, channels, height, width = d.shape
    out, kernel, stride = d.one_of(2, 4, 6), d.one_of(2, 3), d.one_of(1, 2)
    weights = d.weights(channels, out, kernel, kernel)
    sizes = [(size - 1) * stride + kernel for size in (height, width)]
    d.to(d.add("ConvTranspose", d.value, weights, strides=[stride] * 2), (1, out, *sizes))


def pooled(d: Drawing) -> None:
    _, channels, height, width = d.shape
    if min(height, width) < 3:
        return
    kernel, stride = d.one_of(2, 3), d.one_of(1, 2)
    sizes = [(size - kernel) // stride + 1 for size in (height, width)]
    kind = d.one_of("MaxPool", "AveragePool")
    d.to(d.add(kind, d.value, kernel_shape=[kernel] * 2, strides=[stride] * 2), (1, channels, *sizes))


def resized(d: Drawing) -> None:
    _, channels, height, width = d.shape
    scales = d.constant([1, 1, 2, 2])
    mode = d.one_of("nearest", "linear")
    how = d.one_of("asymmetric", "half_pixel", "align_corners")
    more: dict[str, Any] = {"nearest_mode": "floor"} if mode == "nearest" else {}
    value = d.add("Resize", d.value, "", scales, mode=mode, coordinate_transformation_mode=how, **more)
    d.to(value, (1, channels, 2 * height, 2 * width))


def normalised(d: Drawing) -> None:
    channels = d.shape[1]
    scale, shift = (d.constant(d.random.uniform(0.5, 1.5, channels)) for _ in range(2))
    if d.random.random() < 0.5:
        mean, square = (
            d.constant(d.random.normal(0, 0.3, channels)),
            d.constant(d.random.uniform(0.5, 2, channels)),
        )
        d.to(d.add("BatchNormalization", d.value, scale, shift, mean, square), d.shape)
    elif d.shape[2] * d.shape[3] > 3:
        d.to(d.add("InstanceNormalization", d.value, scale, shift), d.shape)


def gated(d: Drawing) -> None:
    """Squeeze and excite."""
    channels = d.shape[1]
    mean = d.add("GlobalAveragePool", d.value)
    gate = d.add("Sigmoid", d.add("Conv", mean, d.weights(channels, channels, 1, 1)))
    d.to(d.add("Mul", d.value, gate), d.shape)


def shuffled(d: Drawing) -> None:
    _, channels, height, width = d.shape
    if channels % 4 == 0:
        d.to(d.add("DepthToSpace", d.value, blocksize=2), (1, channels // 4, 2 * height, 2 * width))
    elif height % 2 == width % 2 == 0:
        d.to(d.add("SpaceToDepth", d.value, blocksize=2), (1, channels * 4, height // 2, width // 2))


# ---- layers of sequences: (steps, 1, width) ----


def dense(d: Drawing) -> None:
    out = d.below(2, 24)
    value = d.add("MatMul", d.value, d.weights(d.shape[-1], out))
    d.to(d.add("Add", value, d.constant(d.random.normal(0, 0.3, out))), (*d.shape[:-1], out))


def recurrent(d: Drawing) -> None:
    steps, batch, width = d.shape
    kind, gates = d.one_of(("LSTM", 4), ("GRU", 3), ("RNN", 1))
    hidden, way = d.below(2, 9), d.one_of("forward", "reverse", "bidirectional")
    ways = 2 if way == "bidirectional" else 1
    if steps > 8:
        return
    weights = [d.weights(ways, gates * hidden, size) for size in (width, hidden)]
    more: dict[str, Any] = {"linear_before_reset": d.below(0, 2)} if kind == "GRU" else {}
    bias = d.constant(d.random.normal(0, 0.3, (ways, 2 * gates * hidden)))
    value = d.add(kind, d.value, *weights, bias, hidden_size=hidden, direction=way, **more)
    turned_ = d.add("Transpose", value, perm=[0, 2, 1, 3])
    d.to(d.add("Reshape", turned_, d.constant([steps, batch, -1], np.int64)), (steps, batch, ways * hidden))


def attention(d: Drawing) -> None:
    width = d.shape[2]
    orders = [1, 0, 2], [1, 2, 0], [1, 0, 2]
    rows, columns, values = (
        d.add("Transpose", d.add("MatMul", d.value, d.weights(width, width)), perm=order) for order in orders
    )
    scores = d.add("Softmax", d.add("MatMul", rows, columns), axis=2)
    d.to(d.add("Transpose", d.add("MatMul", scores, values), perm=[1, 0, 2]), d.shape)


def layer_norm(d: Drawing) -> None:
    width = d.shape[-1]
    if width > 2:
        gain, shift = d.constant(d.random.uniform(0.5, 1.5, width)), d.constant(d.random.normal(0, 0.3, width))
        d.to(d.add("LayerNormalization", d.value, gain, shift, epsilon=1e-3), d.shape)


def embedded(d: Drawing) -> None:
    """Rows of a table, by whole numbers that a caller gives, which are below 256."""
    steps = d.shape[0]
    numbers = d.given("int64", (steps, 1))
    d.to(d.add("Add", d.value, d.add("Gather", d.weights(256, d.shape[-1]), numbers, axis=0)), d.shape)


# ---- layers of tables: (rows, columns) ----


def product(d: Drawing) -> None:
    out = d.below(2, 24)
    value = d.add("Gemm", d.value, d.weights(out, d.shape[1]), d.constant(d.random.normal(0, 0.3, out)), transB=1)
    d.to(value, (d.shape[0], out))


def best(d: Drawing) -> None:
    """Whole numbers as an output, besides: where it is positive, how often."""
    marks = d.add("Greater", d.value, d.constant(0.03125))
    ones = d.add("Cast", marks, to=onnx.TensorProto.INT32)
    counts = d.add("ReduceSum", ones, d.constant([1], np.int64), keepdims=0)
    d.to(d.add("Add", d.value, d.add("Mul", d.value, d.constant(0.5))), d.shape)
    if d.random.random() < 0.5:
        d.leave(counts, "int32")


ANY = (activation, softmax, with_numbers, with_earlier, chosen, sliced, joined, reduced, padded)
PICTURE = (*ANY, convolution, convolution, convolution, back, pooled, resized, normalised, gated, shuffled, turned)
SEQUENCE = (*ANY, dense, dense, recurrent, recurrent, attention, layer_norm, embedded, summed_up)
TABLE = (*ANY, product, product, best, summed_up, turned)
SIZES: dict[int, Callable[[Drawing], Shape]] = {
    id(PICTURE): lambda d: (1, d.one_of(1, 3, 4, 7), d.below(5, 17), d.below(5, 17)),
    id(SEQUENCE): lambda d: (d.below(2, 7), 1, d.below(3, 17)),
    id(TABLE): lambda d: (d.below(1, 9), d.below(3, 33)),
}


def drawn(seeds: Sequence[int]) -> bytes:
    """One ONNX file of these networks, side by side."""
    all_of = [Drawing(seed) for seed in seeds]

    def infos(named: Sequence[tuple[str, str, Shape | None]]) -> list[Any]:
        return [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(kind)), shape)
            for name, kind, shape in named
        ]

    graph = helper.make_graph(
        [node for each in all_of for node in each.nodes],
        "random",
        infos([(name, *of) for each in all_of for name, of in each.inputs.items()]),
        infos([(name, kind, None) for each in all_of for name, kind in each.outputs.items()]),
        [numpy_helper.from_array(value, name) for each in all_of for name, value in each.constants.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
    return bytes(made.SerializeToString())
