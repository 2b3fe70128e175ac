# SPDX-License-Identifier: BSD-2-Clause
"""Networks of published shape with random weights, as ncnn models: to test and to measure, not to predict.

Sources of the layer lists: MobileNetV1: A. Howard et al., arXiv 1704.04861, table 1. SqueezeNet v1.1: F. Iandola
et al., arXiv 1602.07360, and the authors' note on v1.1 (3x3 first convolution of 64 channels, earlier pooling).
Source of the file formats: ncnn's docs/developer-guide/param-and-model-file-structure.md and operators.md. In a
`.bin`, each layer has a 32-bit flag (0: float32), its weights, then its biases without a flag.
"""

from collections.abc import Callable

import numpy as np

PARAM_MAGIC = 7767517
# Output channels and stride of each depthwise-separable block of MobileNetV1.
MOBILENET_V1 = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1))


class NcnnWriter:
    """Writes a network layer by layer, as ncnn's text and binary files.

    Weights are normal with a variance of 2 / fan-in (K. He et al., arXiv 1502.01852), which keeps the scale of
    activations through layers that end in a ReLU; biases are small and normal.

    Attributes:
        channels: of the blob written last.
        blob: name of the blob written last.
    """

    def __init__(self, seed: int, channels: int, size: int) -> None:
        self._random = np.random.default_rng(seed)
        self._lines: list[str] = []
        self._blobs: set[str] = set()
        self._chunks: list[bytes] = []
        self.channels, self.blob = channels, "data"
        self._add("Input", "data", [], ["data"], f"0={size} 1={size} 2={channels}")

    def _add(self, kind: str, name: str, bottoms: list[str], tops: list[str], parameters: str = "") -> None:
        self._lines.append(
            " ".join([kind, name, str(len(bottoms)), str(len(tops)), *bottoms, *tops, parameters]).rstrip()
        )
        self._blobs.update(tops)
        self.blob = tops[-1]

    def _weights(self, count: int, fan_in: int, biases: int, gain: float) -> None:
        weights = self._random.normal(0, np.sqrt(gain / fan_in), count)
        bias = self._random.normal(0, 0.01, biases)
        self._chunks += [bytes(4), weights.astype("<f4").tobytes(), bias.astype("<f4").tobytes()]

    def convolution(
        self,
        name: str,
        out: int,
        kernel: int,
        stride: int = 1,
        pad: int = 0,
        *,
        bottom: str = "",
        relu: bool = True,
    ) -> str:
        """A convolution with bias over `bottom` (default: the last blob) and `channels` input channels."""
        count = out * self.channels * kernel * kernel
        self._add(
            "Convolution",
            name,
            [bottom or self.blob],
            [name],
            f"0={out} 1={kernel} 3={stride} 4={pad} 5=1 6={count} 9={int(relu)}",
        )
        self._weights(count, self.channels * kernel * kernel, out, 2 if relu else 1)
        self.channels = out
        return name

    def depthwise(self, name: str, kernel: int, stride: int, pad: int) -> str:
        """A depthwise convolution with bias and ReLU over the last blob."""
        count = self.channels * kernel * kernel
        self._add(
            "ConvolutionDepthWise",
            name,
            [self.blob],
            [name],
            f"0={self.channels} 1={kernel} 3={stride} 4={pad} 5=1 6={count} 7={self.channels} 9=1",
        )
        self._weights(count, kernel * kernel, self.channels, 2)
        return name

    def max_pool(self, name: str, kernel: int, stride: int) -> str:
        """Maximum over windows; a window that hangs over the edge counts (ncnn's pad mode 0, as in Caffe)."""
        self._add("Pooling", name, [self.blob], [name], f"0=0 1={kernel} 2={stride}")
        return name

    def average_pool(self, name: str) -> str:
        """Mean of each channel: the blob becomes a vector."""
        self._add("Pooling", name, [self.blob], [name], "0=1 4=1")
        return name

    def split(self, name: str) -> tuple[str, str]:
        """Two names for the last blob: in ncnn a blob has one consumer."""
        tops = f"{name}_a", f"{name}_b"
        self._add("Split", name, [self.blob], list(tops))
        return tops

    def concat(self, name: str, bottoms: list[str], channels: int) -> str:
        """Blobs one after the other along the channels, of which there are then `channels`."""
        self._add("Concat", name, bottoms, [name], "0=0")
        self.channels = channels
        return name

    def inner_product(self, name: str, out: int) -> str:
        """A fully connected layer with bias over a vector."""
        count = out * self.channels
        self._add("InnerProduct", name, [self.blob], [name], f"0={out} 1=1 2={count}")
        self._weights(count, self.channels, out, 1)
        self.channels = out
        return name

    def softmax(self, name: str) -> str:
        """Probabilities over a vector."""
        self._add("Softmax", name, [self.blob], [name], "0=0 1=1")
        return name

    def files(self) -> tuple[bytes, bytes]:
        """The `.param` and the `.bin`."""
        text = "\n".join([str(PARAM_MAGIC), f"{len(self._lines)} {len(self._blobs)}", *self._lines, ""])
        return text.encode(), b"".join(self._chunks)


def mobilenet_v1(seed: int, size: int = 224, width: float = 1.0, classes: int = 1000) -> tuple[bytes, bytes]:
    """MobileNetV1 as `.param` and `.bin`: input "data" (3, size, size), output "prob" (classes).

    Args:
        seed: of the weights.
        size: input height and width.
        width: width multiplier of the paper.
        classes: number of classes.
    """
    net = NcnnWriter(seed, 3, size)
    net.convolution("conv1", int(32 * width), 3, 2, 1)
    for index, (out, stride) in enumerate(MOBILENET_V1, start=2):
        net.depthwise(f"conv{index}_dw", 3, stride, 1)
        net.convolution(f"conv{index}_pw", int(out * width), 1)
    net.average_pool("pool")
    net.inner_product("fc", classes)
    net.softmax("prob")
    return net.files()


def squeezenet_v1_1(seed: int, size: int = 227, classes: int = 1000) -> tuple[bytes, bytes]:
    """SqueezeNet v1.1 as `.param` and `.bin`: input "data" (3, size, size), output "prob" (classes).

    Args:
        seed: of the weights.
        size: input height and width.
        classes: number of classes.
    """
    net = NcnnWriter(seed, 3, size)
    net.convolution("conv1", 64, 3, 2)
    net.max_pool("pool1", 3, 2)
    squeeze = {2: 16, 3: 16, 4: 32, 5: 32, 6: 48, 7: 48, 8: 64, 9: 64}
    for index, narrow in squeeze.items():
        _fire(net, f"fire{index}", narrow, 4 * narrow)
        if index in (3, 5):
            net.max_pool(f"pool{index}", 3, 2)
    net.convolution("conv10", classes, 1)
    net.average_pool("pool10")
    net.softmax("prob")
    return net.files()


def _fire(net: NcnnWriter, name: str, narrow: int, wide: int) -> None:
    """Squeeze to `narrow` channels, expand by 1x1 and 3x3 to `wide` each, side by side."""
    net.convolution(f"{name}_squeeze", narrow, 1)
    first, second = net.split(f"{name}_split")
    one = net.convolution(f"{name}_1x1", wide, 1, bottom=first)
    net.channels = narrow
    three = net.convolution(f"{name}_3x3", wide, 3, pad=1, bottom=second)
    net.concat(f"{name}_concat", [one, three], 2 * wide)


MODELS: dict[str, tuple[Callable[[int], tuple[bytes, bytes]], tuple[int, int, int]]] = {
    "mobilenet_v1": (mobilenet_v1, (3, 224, 224)),
    "squeezenet_v1.1": (squeezenet_v1_1, (3, 227, 227)),
}
