# SPDX-License-Identifier: BSD-2-Clause
"""Writes networks of published shape with random weights, layer by layer, for the table of what runs (breadth.py).

Batch normalisation is folded into the convolutions, as ncnn's tools do. Source of the layers' parameters: ncnn's
docs/developer-guide/operators.md.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from docs.examples.models import NcnnWriter

RECTIFIED = 2.0  # of weights before a ReLU, so that the scale stays: K. He et al., arXiv 1502.01852
GATED = 4.0  # of those after a gate, which halves
# Activations that are a part of a convolution: its options 9 and 10.
FUSED = {
    "": "",
    "ReLU": " 9=1",
    "LeakyReLU": " 9=2 -23310=1,1.000000e-01",
    "ReLU6": " 9=3 -23310=2,0.000000e+00,6.000000e+00",
    "Sigmoid": " 9=4",
}


class Graph(NcnnWriter):
    """A writer with more layers; each takes the last blob, or the one that is named.

    Weights are drawn when the files are asked for.

    Attributes:
        parameters: number of weights and biases.
    """

    def __init__(self, seed: int, channels: int, size: int) -> None:
        super().__init__(seed, channels, size)
        self.parameters = 0
        self._draws: list[Callable[[], None]] = []

    def _weights(self, count: int, fan_in: int, biases: int, gain: float) -> None:
        self.parameters += count + biases
        self._draws.append(functools.partial(super()._weights, count, fan_in, biases, gain))

    def plain(self, count: int, mean: float = 0.0) -> None:
        """Values without a tag before them, close to a mean: of the last layer, in its order."""
        self.parameters += count
        self._draws.append(
            lambda: self._chunks.append(self._random.normal(mean, 0.02, count).astype("<f4").tobytes())
        )

    def matrix(self, inputs: int, outputs: int) -> None:
        """A matrix and biases: of the last layer, in its order."""
        self._weights(inputs * outputs, inputs, outputs, 1)

    def files(self) -> tuple[bytes, bytes]:
        """The `.param` and the `.bin`."""
        for draw in self._draws:
            draw()
        self._draws.clear()
        return super().files()

    def source(self, name: str, width: int, height: int) -> str:
        """A matrix that is part of the network."""
        self._add("MemoryData", name, [], [name], f"0={width} 1={height}")
        self.plain(width * height)
        return name

    def text(self) -> str:
        """The layers, one a line."""
        return "\n".join(self._lines)

    def layer(self, kind: str, name: str, bottoms: Sequence[str] = (), parameters: str = "") -> str:
        """A layer without weights and with one output."""
        self._add(kind, name, list(bottoms) or [self.blob], [name], parameters)
        return name

    def conv(
        self,
        name: str,
        out: int,
        kernel: int,
        stride: int = 1,
        act: str = "",
        *,
        groups: int = 1,
        bottom: str = "",
        gain: float = 1.0,
    ) -> str:
        """A convolution with a border of half its kernel; an activation that is not FUSED is a layer of its own.

        Args:
            gain: of the weights' variance, beside the activation's.
        """
        inputs = self.channels // groups
        count = out * inputs * kernel * kernel
        kind, group = ("ConvolutionDepthWise", f" 7={groups}") if groups > 1 else ("Convolution", "")
        parameters = f"0={out} 1={kernel} 3={stride} 4={kernel // 2} 5=1 6={count}{group}{FUSED.get(act, '')}"
        self._add(kind, name, [bottom or self.blob], [name], parameters)
        self._weights(count, inputs * kernel * kernel, out, gain * (RECTIFIED if act else 1))
        self.channels = out
        return name if act in FUSED else self.activation(act, f"{name}_act")

    def separable(
        self, name: str, out: int, kernel: int, acts: tuple[str, str], *, stride: int = 1, bottom: str = ""
    ) -> str:
        """A convolution channel by channel, then one of 1x1, each with its activation."""
        self.conv(f"{name}_dw", self.channels, kernel, stride, acts[0], groups=self.channels, bottom=bottom)
        return self.conv(f"{name}_pw", out, 1, 1, acts[1])

    def twice_as_large(self, name: str, bottom: str = "", *, linear: bool = False) -> str:
        """Each place becomes four."""
        kind = 2 if linear else 1
        return self.layer("Interp", name, [bottom] if bottom else (), f"0={kind} 1=2.000000e+00 2=2.000000e+00")

    def fork(self, name: str, ways: int) -> list[str]:
        """So many names for the last blob."""
        tops = [f"{name}_{at}" for at in range(ways)]
        self._add("Split", name, [self.blob], tops)
        return tops

    def activation(self, kind: str, name: str) -> str:
        """ReLU, HardSwish, Swish or a sigmoid, in place."""
        return self.layer(kind, name)

    def binary(self, name: str, operation: int, first: str, second: str) -> str:
        """An element-wise operation of two blobs: 0 adds, 2 multiplies."""
        self._add("BinaryOp", name, [first, second], [name], f"0={operation}")
        return name

    def max_pool_padded(self, name: str) -> str:
        """Maximum over windows of 3, every 2, with a border of 1, none beyond it."""
        self._add("Pooling", name, [self.blob], [name], "0=0 1=3 2=2 3=1 5=1")
        return name

    def squeeze_excite(self, name: str, width: int = 0, kinds: tuple[str, str] = ("ReLU", "HardSigmoid")) -> str:
        """Channels scaled by what a small network, `width` channels wide (0: a quarter), makes of their means."""
        channels = self.channels
        whole, means = self.split(f"{name}_split")
        self._add("Pooling", f"{name}_pool", [means], [f"{name}_pool"], "0=1 4=1")
        for suffix, out, activation in (("1", width or channels // 4, kinds[0]), ("2", channels, kinds[1])):
            self.inner_product(f"{name}_fc{suffix}", out)
            self.activation(activation, f"{name}_act{suffix}")
        self._add("Reshape", f"{name}_shape", [self.blob], [f"{name}_shape"], f"0=1 1=1 2={channels}")
        return self.binary(name, 2, whole, f"{name}_shape")

    def shuffle(self, name: str, groups: int = 2) -> str:
        """Channels of so many groups, one of each in turn."""
        return self.layer("ShuffleChannel", name, (), f"0={groups}")

    def slices(self, name: str, first: int) -> tuple[str, str]:
        """The first channels, and the others."""
        self._add("Slice", name, [self.blob], [f"{name}_a", f"{name}_b"], f"-23300=2,{first},-233 1=0")
        return f"{name}_a", f"{name}_b"

    def halves(self, name: str) -> tuple[str, str]:
        """The first and the second half of the channels."""
        self._add("Slice", name, [self.blob], [f"{name}_a", f"{name}_b"], "-23300=2,-233,-233 1=0")
        self.channels //= 2
        return f"{name}_a", f"{name}_b"

    def classes(self) -> Graph:
        """The end: 1000 classes."""
        self.average_pool("pool")
        self.inner_product("fc", 1000)
        self.softmax("prob")
        return self
