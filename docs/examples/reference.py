# SPDX-License-Identifier: BSD-2-Clause
"""A network that host_tools/extras/importers/networks describes, in double precision: what its jobs must give."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from docs.examples.lenet import Array, convolve, relu, softmax
from host_tools.extras.importers.networks.file import STATISTICS, Buffer, Network
from host_tools.extras.importers.networks.layers import (
    BatchNorm,
    Clip,
    Convolution,
    Dense,
    Flatten,
    GlobalAveragePool,
    Layer,
    LocalResponseNorm,
    MaxPool,
    Relu,
    Softmax,
)
from trace_format.schema import SlotKind

AXES = ("channel", "y", "x")  # of what lies between layers, after the batch's


def forward(network: Network, tensors: Mapping[str, NDArray[np.float32]], inputs: Array) -> Array:
    """The network's results, float64 (n, outputs).

    Args:
        network: its description.
        tensors: by name of the slot, with the slots' shapes; batch norms are not folded into weights.
        inputs: (n, then the shape of the input's slot).
    """
    slots = network.slots
    given = next(slot for slot in network.buffers if slot.kind == SlotKind.INPUT)
    x = _ordered(inputs.astype(np.float64), ("batch", *given.axes), ("batch", *AXES))
    for layer in network.layers:
        x = _apply(layer, _Tensors(slots, tensors), x)
    return x


class _Tensors:
    """Parameters as layers take them."""

    def __init__(self, slots: Mapping[str, Buffer], tensors: Mapping[str, NDArray[np.float32]]) -> None:
        self._slots, self._tensors = slots, tensors

    def get(self, name: str, *axes: str) -> Array:
        """A tensor with these axes, in this order, in double precision."""
        return _ordered(self._tensors[name].astype(np.float64), self._slots[name].axes, axes)

    def by_channel(self, layer: BatchNorm | Convolution, part: str) -> Array:
        """A number for each channel, as (channels, 1, 1)."""
        return self.get(f"{layer.name}.{part}", "out", "y", "x")

    def bias(self, layer: Convolution | Dense, *axes: str) -> Array:
        """A layer's bias, 0 where it has none."""
        name = f"{layer.name}.bias"
        return self.get(name, *axes) if name in self._slots else np.zeros(1)


def _ordered(values: Array, axes: tuple[str, ...], wanted: tuple[str, ...]) -> Array:
    """Axes in another order; those that are wanted and not there have one element."""
    there = [axis for axis in wanted if axis in axes]
    ordered = values.transpose([axes.index(axis) for axis in there])
    return np.expand_dims(ordered, [i for i, axis in enumerate(wanted) if axis not in axes])


def _apply(layer: Layer, tensors: _Tensors, x: Array) -> Array:
    """A layer's result for x (batch, channel, y, x), or (batch, values) after the pictures."""
    match layer:
        case Convolution():
            return _convolution(layer, tensors.get(f"{layer.name}.weight", "out", "in", "y", "x"), x) + (
                tensors.bias(layer, "out", "y", "x")
            )
        case BatchNorm():
            center, variance, beta, gamma = (tensors.by_channel(layer, part) for part in STATISTICS)
            normal: Array = (x - center) * layer.scale(gamma, variance) + beta
            return normal
        case Relu():
            return relu(x)
        case Clip():
            clipped: Array = x.clip(layer.low, layer.high)
            return clipped
        case LocalResponseNorm():
            around = (layer.size // 2, (layer.size - 1) // 2)
            squares = np.pad(x**2, ((0, 0), around, (0, 0), (0, 0)))
            sums = np.lib.stride_tricks.sliding_window_view(squares, layer.size, axis=1).sum(-1)
            scaled: Array = x / (layer.k + layer.alpha / layer.size * sums) ** layer.beta
            return scaled
        case MaxPool():
            windows = np.lib.stride_tricks.sliding_window_view(x, (layer.size, layer.size), axis=(2, 3))
            largest: Array = windows[:, :, :: layer.stride, :: layer.stride].max((4, 5))
            return largest
        case GlobalAveragePool():
            mean: Array = x.mean((2, 3))
            return mean
        case Flatten():
            axes = ("batch", *layer.order.split())
            return _ordered(x, ("batch", *AXES), axes).reshape(len(x), -1)
        case Dense():
            return x @ tensors.get(f"{layer.name}.weight", "in", "out") + tensors.bias(layer, "out")
        case Softmax():
            return softmax(x)


def _convolution(layer: Convolution, weight: Array, x: Array) -> Array:
    pad = (layer.pad_before, layer.pad_after)
    padded = np.pad(x, ((0, 0), (0, 0), pad, pad))
    parts = zip(np.split(weight, layer.groups), np.split(padded, layer.groups, axis=1), strict=True)
    return np.concatenate([convolve(part, own, layer.stride) for own, part in parts], axis=1)
