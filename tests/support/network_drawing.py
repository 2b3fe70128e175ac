# SPDX-License-Identifier: BSD-2-Clause
"""Small random networks, as ncnn's files: layers, shapes, branches, outputs and weights are drawn from a seed.

Several can be one file, which have nothing in common but the input, of which each takes a part: a recording takes
as long for ten as for one.
Sources of the layers' parameters: ncnn's docs/developer-guide/operators.md and operation-param-weight-table.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tests.support import ncnn_text

Shape = tuple[int, ...]
MOST_ELEMENTS = 6000  # of a tensor
LARGEST = (8, 19, 19)  # input
INPUT, INPUT_SEED = "data", 1000
ACTIVATIONS = {
    "ReLU": ("", "0=0.1"),
    "Clip": ("0=-0.5 1=0.5", "0=0 1=6"),
    "Sigmoid": ("",),
    "TanH": ("",),
    "HardSwish": ("",),
    "HardSigmoid": ("",),
    "Swish": ("",),
    "Mish": ("",),
    "AbsVal": ("",),
    "Dropout": ("",),
    "UnaryOp": ("0=1", "0=4"),  # negative, square
    "BinaryOp": ("0=0 1=1 2=0.75", "0=2 1=1 2=-1.5", "0=4 1=1 2=0.1"),  # with a number: add, multiply, maximum
}
# Kernel, stride, dilation, and the layer's own activation. Each makes shaders of its own, which the guest compiles
# for seconds: sizes, channels, branches and weights vary freely instead.
CONVOLUTIONS = (
    (1, 1, 1, ""),
    (3, 1, 1, " 9=1"),
    (3, 2, 1, " 9=2 -23310=1,1.0e-01"),
    (3, 1, 2, " 9=4"),
    (5, 1, 1, ""),
)
DEPTHWISE = ((3, 1, 1, ""), (3, 2, 1, " 9=3 -23310=2,0.0,6.0"))


@dataclass(frozen=True)
class Blob:
    """A tensor of the network: name and shape, outermost dimension first."""

    name: str
    shape: Shape


@dataclass
class Drawn:
    """A network, or several side by side.

    Attributes:
        lines: of the `.param`.
        weights: of the `.bin`, in the order of the layers.
        inputs: shape of each.
    """

    lines: list[str] = field(default_factory=list)
    weights: list[bytes] = field(default_factory=list)
    inputs: dict[str, Shape] = field(default_factory=dict)

    def files(self) -> tuple[bytes, bytes]:
        """The `.param` and the `.bin`."""
        return ncnn_text.param(self.lines), b"".join(self.weights)


class _Network:
    """Draws one network into a `Drawn`."""

    def __init__(self, seed: int, into: Drawn, given: str | None = None) -> None:
        self.random = np.random.default_rng(seed)
        self.prefix = f"n{seed}"
        self.drawn = into
        self.layers = 0
        shape = tuple(int(n) for n in (self.pick(1, 2, 3, 4, 8), *self.random.integers(5, LARGEST[1] + 1, 2)))
        if given is None:
            self.given = self.layer("Input", [], shape, f"0={shape[2]} 1={shape[1]} 2={shape[0]}")
            into.inputs[self.given.name] = shape
        else:
            self.given = self.part(Blob(given, LARGEST), shape)

    def pick(self, *choices: int) -> int:
        return int(choices[self.random.integers(len(choices))])

    def layer(self, kind: str, bottoms: Sequence[Blob], shape: Shape, parameters: str = "") -> Blob:
        """A layer with one output."""
        return self.several(kind, bottoms, [shape], parameters)[0]

    def several(
        self, kind: str, bottoms: Sequence[Blob], shapes: Sequence[Shape], options: str = ""
    ) -> list[Blob]:
        """A layer with outputs of these shapes."""
        name = f"{self.prefix}_{self.layers}"
        self.layers += 1
        tops = [Blob(name if len(shapes) == 1 else f"{name}_{at}", shape) for at, shape in enumerate(shapes)]
        names = " ".join(blob.name for blob in (*bottoms, *tops))
        self.drawn.lines.append(f"{kind} {name} {len(bottoms)} {len(tops)} {names} {options}".rstrip())
        return tops

    def values(self, count: int, width: float, *, tagged: bool = True) -> None:
        """Weights of the last layer."""
        data = self.random.normal(0, width, count).astype("<f4").tobytes()
        self.drawn.weights.append((bytes(4) if tagged else b"") + data)

    def convolution(self, blob: Blob) -> Blob:
        channels, height, width = blob.shape
        depthwise = channels > 1 and self.pick(0, 0, 1)
        kinds = DEPTHWISE if depthwise else CONVOLUTIONS
        kernel, stride, dilation, act = kinds[self.random.integers(len(kinds))]
        pad = (kernel // 2) * dilation
        out = channels if depthwise else self.pick(1, 2, 3, 5, 8, 12, 16)
        fan_in = kernel * kernel * (1 if depthwise else channels)
        shape = (out, (height - 1) // stride + 1, (width - 1) // stride + 1)
        kind, group = ("ConvolutionDepthWise", f" 7={channels}") if depthwise else ("Convolution", "")
        options = f"0={out} 1={kernel} 2={dilation} 3={stride} 4={pad} 5=1 6={out * fan_in}{group}{act}"
        found = self.layer(kind, [blob], shape, options)
        self.values(out * fan_in, (2 / fan_in) ** 0.5)
        self.values(out, 0.1, tagged=False)
        return found

    def pooling(self, blob: Blob) -> Blob:
        channels, height, width = blob.shape
        if min(height, width) < 4:
            return blob
        return self.layer(
            "Pooling", [blob], (channels, height // 2, width // 2), f"0={self.pick(0, 1)} 1=2 2=2 5=1"
        )

    def activation(self, blob: Blob) -> Blob:
        kind = list(ACTIVATIONS)[self.random.integers(len(ACTIVATIONS))]
        options = ACTIVATIONS[kind]
        return self.layer(kind, [blob], blob.shape, options[self.random.integers(len(options))])

    def resized(self, blob: Blob) -> Blob:
        channels, height, width = blob.shape
        if channels * height * width * 4 > MOST_ELEMENTS:
            return blob
        return self.layer("Interp", [blob], (channels, height * 2, width * 2), f"0={self.pick(1, 2)} 1=2.0 2=2.0")

    def padded(self, blob: Blob) -> Blob:
        channels, height, width = blob.shape
        top, bottom, left, right = (self.pick(0, 1, 2) for _ in range(4))
        shape = (channels, height + top + bottom, width + left + right)
        return self.layer("Padding", [blob], shape, f"0={top} 1={bottom} 2={left} 3={right} 4=0 5=0.25")

    def cropped(self, blob: Blob) -> Blob:
        channels, height, width = blob.shape
        if min(height, width) < 4:
            return blob
        return self.part(blob, (channels, height - 2, width - 1), "0=1 1=1 2=0")

    def part(self, blob: Blob, shape: Shape, where: str = "0=0 1=0 2=0") -> Blob:
        """Elements from some place on (columns, rows, channels)."""
        return self.layer("Crop", [blob], shape, f"{where} 3={shape[2]} 4={shape[1]} 5={shape[0]}")

    def normalised(self, blob: Blob) -> Blob:
        channels = blob.shape[0]
        found = self.layer("BatchNorm", [blob], blob.shape, f"0={channels}")
        for low, high in ((0.5, 1.5), (-0.5, 0.5), (0.5, 1.5), (-0.5, 0.5)):  # slope, mean, variance, bias
            self.drawn.weights.append(self.random.uniform(low, high, channels).astype("<f4").tobytes())
        return found

    def joined(self, blob: Blob) -> Blob:
        """Two branches of a blob, together again."""
        one, two = self.several("Split", [blob], [blob.shape, blob.shape])
        left = self.activation(one) if self.pick(0, 1) else self.convolution(one)
        right = two if self.pick(0, 0, 1) else self.activation(two)
        if left.shape == right.shape and self.pick(0, 1):
            return self.layer("BinaryOp", [left, right], left.shape, f"0={self.pick(0, 1, 2, 4, 5)}")
        if left.shape[1:] == right.shape[1:]:
            return self.layer("Concat", [left, right], (left.shape[0] + right.shape[0], *left.shape[1:]), "0=0")
        self.outputs.append(right)
        return left

    def permuted(self, blob: Blob) -> Blob:
        channels, height, width = blob.shape
        return self.layer("Permute", [blob], (height, width, channels), "0=3")

    def shuffled(self, blob: Blob) -> Blob:
        channels, height, width = blob.shape
        if channels % 4:
            return blob
        return self.layer("PixelShuffle", [blob], (channels // 4, 2 * height, 2 * width), "0=2")

    def softmax(self, blob: Blob) -> Blob:
        return self.layer("Softmax", [blob], blob.shape, "0=0 1=1")

    def reshaped(self, blob: Blob) -> Blob:
        channels, height, width = blob.shape
        return self.layer("Reshape", [blob], (channels, height * width, 1), f"0=1 1={height * width} 2={channels}")

    def dense(self, blob: Blob) -> Blob:
        inputs, outputs = int(np.prod(blob.shape)), self.pick(1, 3, 10, 16, 33)
        act = self.pick(0, 1)
        found = self.layer("InnerProduct", [blob], (outputs,), f"0={outputs} 1=1 2={inputs * outputs} 9={act}")
        self.values(inputs * outputs, (2 / inputs) ** 0.5)
        self.values(outputs, 0.1, tagged=False)
        return found

    def saturated(self, blob: Blob) -> Blob:
        """Values that are alike: nearly a mask, a clamp, or few levels."""
        steep = self.layer("BinaryOp", [blob], blob.shape, f"0=2 1=1 2={self.pick(10, 60)}")
        kind, options = (("Clip", "0=0 1=1"), ("HardSigmoid", ""), ("Sigmoid", ""))[self.random.integers(3)]
        return self.layer(kind, [steep], blob.shape, options)

    def draw(self) -> None:
        """The layers."""
        self.outputs: list[Blob] = []
        blob = self.convolution(self.given) if self.pick(0, 1, 1) else self.activation(self.given)
        spatial: list[Callable[[Blob], Blob]] = [
            self.convolution, self.convolution, self.convolution, self.joined, self.joined, self.activation,
            self.activation, self.pooling, self.resized, self.padded, self.cropped, self.normalised, self.permuted,
            self.shuffled, self.softmax, self.reshaped,
        ]  # fmt: skip
        for _ in range(int(self.random.integers(1, 6))):
            if np.prod(blob.shape) > MOST_ELEMENTS:
                break
            blob = spatial[self.random.integers(len(spatial))](blob)
            if self.pick(0, 0, 0, 1):
                blob, other = self.several("Split", [blob], [blob.shape, blob.shape])
                self.outputs.append(self.activation(other))
        if self.pick(0, 0, 1):
            blob = self.dense(blob)
            for _ in range(self.pick(0, 0, 1)):
                blob = self.dense(blob)
        if self.pick(0, 0, 0, 1):
            blob = self.saturated(blob)
        elif self.pick(0, 0, 1):
            blob = self.softmax(blob)
        if blob is self.given:
            self.activation(blob)


def drawn(seeds: Sequence[int]) -> Drawn:
    """The networks of these seeds, side by side."""
    found = Drawn()
    names: list[str | None] = [None]
    if len(seeds) > 1:
        names = [f"{INPUT}_{seed}" for seed in seeds]
        channels, height, width = found.inputs[INPUT] = LARGEST
        found.lines = [
            f"Input {INPUT} 0 1 {INPUT} 0={width} 1={height} 2={channels}",
            f"Split parts 1 {len(names)} {INPUT} {' '.join(map(str, names))}",
        ]
    for seed, name in zip(seeds, names, strict=True):
        _Network(seed, found, name).draw()
    return found
