# SPDX-License-Identifier: BSD-2-Clause
"""MobileNet v1, SqueezeNet 1.1 and ResNet-18 as ONNX files of random weights, batch normalisation folded, for
searches of kernels. The layers are those of the papers (arXiv 1704.04861; arXiv 1602.07360 and its repository's
v1.1; arXiv 1512.03385)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.support.onnx_graphs import graph, node

SEED = 20261127
SIDE = {"mobilenet": 224, "squeezenet": 227, "resnet18": 224}  # as ncnn's benchmark has them
CLASSES = 1000
# Depthwise layers of MobileNet: stride, and channels of the pointwise layer behind.
PAIRS = ((1, 64), (2, 128), (1, 128), (2, 256), (1, 256), (2, 512), *[(1, 512)] * 5, (2, 1024), (1, 1024))
FIRES = ((16, 64), (16, 64), None, (32, 128), (32, 128), None, (48, 192), (48, 192), (64, 256), (64, 256))


STAGES = (64, 128, 256, 512)  # channels of ResNet-18, two blocks each


@dataclass
class _Writer:
    """Layers one after another; `at` is the tensor that the next one takes."""

    at: str
    channels: int
    generator: np.random.Generator
    nodes: list[Any] = field(default_factory=list)
    constants: dict[str, NDArray[np.float32]] = field(default_factory=dict)

    def conv(
        self,
        to: int,
        size: int,
        *,
        stride: int = 1,
        pad: int = 0,
        group: int = 1,
        source: str = "",
        relu: bool = True,
    ) -> str:
        """A convolution, with ReLU; its result is what the next layer takes."""
        name = f"t{len(self.nodes)}"
        each = (self.channels if not source else self.constants[f"{source}.w"].shape[0]) // group
        deviation = (2 / (each * size * size)) ** 0.5
        weights = self.generator.normal(0, deviation, (to, each, size, size))
        self.constants[f"{name}.w"] = weights.astype(np.float32)
        self.constants[f"{name}.b"] = self.generator.normal(0, 0.1, to).astype(np.float32)
        settings = {"strides": [stride] * 2, "pads": [pad] * 4, "group": group}
        left = f"{name}.c" if relu else name
        self.nodes.append(node("Conv", f"{source or self.at} {name}.w {name}.b", left, **settings))
        if relu:
            self.nodes.append(node("Relu", left, name))
        self.at, self.channels = name, to
        return name

    def added(self, other: str) -> None:
        """The sum with another tensor, with ReLU."""
        name = f"t{len(self.nodes)}"
        self.nodes.append(node("Add", f"{self.at} {other}", f"{name}.s"))
        self.nodes.append(node("Relu", f"{name}.s", name))
        self.at = name

    def pool(self, pad: int = 0) -> None:
        """Largest of 3 by 3, of which two are one apart."""
        name = f"t{len(self.nodes)}"
        settings = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [pad] * 4}
        self.nodes.append(node("MaxPool", self.at, name, **settings))
        self.at = name


def _mobilenet(to: _Writer) -> None:
    to.conv(32, 3, stride=2, pad=1)
    for stride, channels in PAIRS:
        to.conv(to.channels, 3, stride=stride, pad=1, group=to.channels)
        to.conv(channels, 1)
    to.nodes.append(node("GlobalAveragePool", to.at, "mean"))
    to.at = "mean"
    to.conv(CLASSES, 1)


def _squeezenet(to: _Writer) -> None:
    to.conv(64, 3, stride=2)
    to.pool()
    for fire in FIRES:
        if fire is None:
            to.pool()
            continue
        squeeze, expand = fire
        source = to.conv(squeeze, 1)
        parts = [to.conv(expand, 1, source=source), to.conv(expand, 3, pad=1, source=source)]
        to.at, to.channels = f"{parts[0]}.both", 2 * expand
        to.nodes.append(node("Concat", " ".join(parts), to.at, axis=1))
    to.conv(CLASSES, 1)
    to.nodes.append(node("GlobalAveragePool", to.at, "mean"))
    to.at = "mean"


def _resnet18(to: _Writer) -> None:
    to.conv(64, 7, stride=2, pad=3)
    to.pool(pad=1)
    for channels in STAGES:
        for block in range(2):
            before, had = to.at, to.channels
            stride = 2 if had != channels else 1
            to.conv(channels, 3, stride=stride, pad=1)
            to.conv(channels, 3, pad=1, relu=False)
            if block == 0 and had != channels:
                left = to.at
                to.at, to.channels = before, had
                before = to.conv(channels, 1, stride=stride, relu=False)
                to.at = left
            to.added(before)
    to.nodes.append(node("GlobalAveragePool", to.at, "mean"))
    to.at = "mean"
    to.conv(CLASSES, 1, relu=False)


NETWORKS = {"mobilenet": _mobilenet, "squeezenet": _squeezenet, "resnet18": _resnet18}


def written(name: str, path: Path, side: int = 0) -> Path:
    """The network's file at a path; `side` of the picture, if not that of ncnn's benchmark."""
    to = _Writer("data", 3, np.random.default_rng(SEED))
    NETWORKS[name](to)
    to.nodes.append(node("Softmax", to.at, "prob", axis=1))
    side = side or SIDE[name]
    return graph(path, to.nodes, {"data": ("float32", [1, 3, side, side])}, {"prob": "float32"}, to.constants)
