# SPDX-License-Identifier: BSD-2-Clause
"""More networks of published shape with random weights, for the table of what runs (breadth.py).

From the papers' tables: ResNet-18: K. He et al., arXiv 1512.03385, table 1. MobileNetV2: M. Sandler et al.,
arXiv 1801.04381, table 2. MobileNetV3-Small: A. Howard et al., 1905.02244, table 2. ShuffleNet v2: N. Ma et al.,
arXiv 1807.11164, table 5. Batch normalisation is folded into the convolutions, as ncnn's tools do.
"""

from __future__ import annotations

from collections.abc import Callable

from host_tools.demo.models import MODELS, NcnnWriter


class Graph(NcnnWriter):
    """A writer with layers of residual networks; each takes the last blob."""

    def activation(self, kind: str, name: str) -> str:
        """ReLU, HardSwish or HardSigmoid, in place; ReLU6 is a Clip."""
        parameters = {"Clip": "0=0.000000e+00 1=6.000000e+00"}.get(kind, "")
        self._add(kind, name, [self.blob], [name], parameters)
        return name

    def binary(self, name: str, operation: int, first: str, second: str) -> str:
        """An element-wise operation of two blobs: 0 adds, 2 multiplies."""
        self._add("BinaryOp", name, [first, second], [name], f"0={operation}")
        return name

    def max_pool_padded(self, name: str) -> str:
        """Maximum over windows of 3, every 2, with a border of 1, none beyond it."""
        self._add("Pooling", name, [self.blob], [name], "0=0 1=3 2=2 3=1 5=1")
        return name

    def plain_depthwise(self, name: str, kernel: int, stride: int) -> str:
        """A depthwise convolution without an activation."""
        count = self.channels * kernel * kernel
        parameters = f"0={self.channels} 1={kernel} 3={stride} 4={kernel // 2} 5=1 6={count} 7={self.channels}"
        self._add("ConvolutionDepthWise", name, [self.blob], [name], parameters)
        self._weights(count, kernel * kernel, self.channels, 1)
        return name

    def squeeze_excite(self, name: str) -> str:
        """Channels scaled by what a small network makes of their means."""
        channels = self.channels
        whole, means = self.split(f"{name}_split")
        self._add("Pooling", f"{name}_pool", [means], [f"{name}_pool"], "0=1 4=1")
        for suffix, out, activation in (("1", channels // 4, "ReLU"), ("2", channels, "HardSigmoid")):
            self.inner_product(f"{name}_fc{suffix}", out)
            self.activation(activation, f"{name}_act{suffix}")
        self._add("Reshape", f"{name}_shape", [self.blob], [f"{name}_shape"], f"0=1 1=1 2={channels}")
        return self.binary(name, 2, whole, f"{name}_shape")

    def shuffle(self, name: str) -> str:
        """Channels of two groups, one of each in turn."""
        self._add("ShuffleChannel", name, [self.blob], [name], "0=2")
        return name

    def halves(self, name: str) -> tuple[str, str]:
        """The first and the second half of the channels."""
        self._add("Slice", name, [self.blob], [f"{name}_a", f"{name}_b"], "-23300=2,-233,-233 1=0")
        self.channels //= 2
        return f"{name}_a", f"{name}_b"

    def classes(self) -> tuple[bytes, bytes]:
        """The end: 1000 classes, and the files."""
        self.average_pool("pool")
        self.inner_product("fc", 1000)
        self.softmax("prob")
        return self.files()


def resnet18(seed: int) -> tuple[bytes, bytes]:
    """ResNet-18 at 224 x 224."""
    net = Graph(seed, 3, 224)
    net.convolution("conv1", 64, 7, 2, 3)
    net.max_pool_padded("pool1")
    for stage, channels in enumerate((64, 128, 256, 512), 2):
        for block in (1, 2):
            name = f"conv{stage}_{block}"
            stride = 2 if stage > 2 and block == 1 else 1
            before = net.channels
            short, long = net.split(f"{name}_split")
            net.convolution(f"{name}_a", channels, 3, stride, 1, bottom=long)
            net.convolution(f"{name}_b", channels, 3, 1, 1, relu=False)
            if stride == 2:
                net.channels = before
                short = net.convolution(f"{name}_short", channels, 1, stride, bottom=short, relu=False)
            net.binary(f"{name}_add", 0, f"{name}_b", short)
            net.activation("ReLU", name)
    return net.classes()


def _inverted(
    net: Graph, name: str, expand: int, out: int, kernel: int, stride: int, kind: str, *, excite: bool = False
) -> None:
    """Widen by 1x1, convolve by channel, narrow by 1x1; with a short cut where that is possible."""
    before = net.channels
    residual = stride == 1 and before == out
    short = ""
    if residual:
        short, net.blob = net.split(f"{name}_split")
    if expand != before:
        net.convolution(f"{name}_wide", expand, 1, relu=False)
        net.activation(kind, f"{name}_act1")
    net.plain_depthwise(f"{name}_dw", kernel, stride)
    net.activation(kind, f"{name}_act2")
    if excite:
        net.squeeze_excite(f"{name}_se")
    net.convolution(f"{name}_narrow", out, 1, relu=False)
    if residual:
        net.binary(f"{name}_add", 0, short, f"{name}_narrow")


# Of each stage of MobileNetV2: how much it widens, output channels, blocks, stride of the first.
_V2 = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def mobilenet_v2(seed: int) -> tuple[bytes, bytes]:
    """MobileNetV2 1.0 at 224 x 224."""
    net = Graph(seed, 3, 224)
    net.convolution("conv1", 32, 3, 2, 1, relu=False)
    net.activation("Clip", "act1")
    stages = (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    )
    for number, (widen, out, repeats, stride) in enumerate(stages, 2):
        for repeat in range(repeats):
            name = f"conv{number}_{repeat}"
            _inverted(net, name, widen * net.channels, out, 3, stride if repeat == 0 else 1, "Clip")
    net.convolution("conv9", 1280, 1, relu=False)
    net.activation("Clip", "act9")
    return net.classes()


# Of each block of MobileNetV3-Small: kernel, expanded and output channels, squeeze-and-excite, activation, stride.
_V3 = (
    (3, 16, 16, True, "ReLU", 2),
    (3, 72, 24, False, "ReLU", 2),
    (3, 88, 24, False, "ReLU", 1),
    (5, 96, 40, True, "HardSwish", 2),
    (5, 240, 40, True, "HardSwish", 1),
    (5, 240, 40, True, "HardSwish", 1),
    (5, 120, 48, True, "HardSwish", 1),
    (5, 144, 48, True, "HardSwish", 1),
    (5, 288, 96, True, "HardSwish", 2),
    (5, 576, 96, True, "HardSwish", 1),
    (5, 576, 96, True, "HardSwish", 1),
)


def mobilenet_v3_small(seed: int) -> tuple[bytes, bytes]:
    """MobileNetV3-Small 1.0 at 224 x 224."""
    net = Graph(seed, 3, 224)
    net.convolution("conv1", 16, 3, 2, 1, relu=False)
    net.activation("HardSwish", "act1")
    for number, (kernel, expand, out, excite, kind, stride) in enumerate(_V3, 1):
        _inverted(net, f"block{number}", expand, out, kernel, stride, kind, excite=excite)
    net.convolution("conv2", 576, 1, relu=False)
    net.activation("HardSwish", "act2")
    net.average_pool("pool")
    net.inner_product("fc1", 1024)
    net.activation("HardSwish", "act3")
    net.inner_product("fc", 1000)
    net.softmax("prob")
    return net.files()


def shufflenet_v2(seed: int) -> tuple[bytes, bytes]:
    """ShuffleNet v2 1.0 at 224 x 224."""
    net = Graph(seed, 3, 224)
    net.convolution("conv1", 24, 3, 2, 1)
    net.max_pool_padded("pool1")
    for stage, (channels, repeats) in enumerate(((116, 4), (232, 8), (464, 4)), 2):
        for unit in range(repeats):
            name, half, before = f"stage{stage}_{unit}", channels // 2, net.channels
            one, two = net.split(f"{name}_split") if unit == 0 else net.halves(f"{name}_split")
            if unit == 0:
                net.blob = one
                net.plain_depthwise(f"{name}_left_dw", 3, 2)
                one = net.convolution(f"{name}_left", half, 1)
                net.channels = before
            net.convolution(f"{name}_a", half, 1, bottom=two)
            net.plain_depthwise(f"{name}_dw", 3, 2 if unit == 0 else 1)
            other = net.convolution(f"{name}_b", half, 1)
            net.concat(f"{name}_concat", [one, other], channels)
            net.shuffle(name)
    net.convolution("conv5", 1024, 1)
    return net.classes()


SHAPE = (3, 224, 224)
GRAPHS: dict[str, tuple[Callable[[int], tuple[bytes, bytes]], tuple[int, int, int]]] = {
    **MODELS,
    "shufflenet_v2": (shufflenet_v2, SHAPE),
    "mobilenet_v2": (mobilenet_v2, SHAPE),
    "mobilenet_v3_small": (mobilenet_v3_small, SHAPE),
    "resnet18": (resnet18, SHAPE),
}
