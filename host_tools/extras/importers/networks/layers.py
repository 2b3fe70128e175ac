# SPDX-License-Identifier: BSD-2-Clause
"""The kinds of layers, with what a description says of each. Sizes are the same along both axes of a picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Convolution:
    """Cross-correlation of each of `groups` equal parts of the channels, padded with zeros on both sides."""

    name: str
    stride: int = 1
    pad_before: int = 0
    pad_after: int = 0
    groups: int = 1


@dataclass(frozen=True)
class BatchNorm:
    """(x - mean) * gamma / sqrt(variance + epsilon) + beta, by channel.

    `folded`: the slot of the weights before it must hold weights that are already multiplied by
    gamma / sqrt(variance + epsilon). The recorded jobs rearrange the weights before they multiply them, and use
    what they have rearranged.
    """

    name: str
    epsilon: float
    folded: bool = False

    def scale(self, gamma: NDArray[Any], variance: NDArray[Any]) -> NDArray[np.float64]:
        """What each channel is multiplied by."""
        return gamma / np.sqrt(variance.astype(np.float64) + self.epsilon)


@dataclass(frozen=True)
class Relu:
    """max(x, 0)."""


@dataclass(frozen=True)
class Clip:
    """x, but at least `low` and at most `high`."""

    low: float
    high: float


@dataclass(frozen=True)
class LocalResponseNorm:
    """x / (k + alpha / size * s) ** beta, s: the sum of squares of `size` channels around x's."""

    size: int
    alpha: float
    beta: float
    k: float


@dataclass(frozen=True)
class MaxPool:
    """The largest of `size` x `size` elements."""

    size: int
    stride: int


@dataclass(frozen=True)
class GlobalAveragePool:
    """The mean of each channel."""


@dataclass(frozen=True)
class Flatten:
    """One row of all elements; `order`: the axes "channel", "y" and "x", outermost first."""

    order: str


@dataclass(frozen=True)
class Dense:
    """The product with a matrix."""

    name: str


@dataclass(frozen=True)
class Softmax:
    """Probabilities."""


Layer = (
    Convolution
    | BatchNorm
    | Relu
    | Clip
    | LocalResponseNorm
    | MaxPool
    | GlobalAveragePool
    | Flatten
    | Dense
    | Softmax
)
KINDS: dict[str, type[Layer]] = {
    "convolution": Convolution,
    "batch-norm": BatchNorm,
    "relu": Relu,
    "clip": Clip,
    "local-response-norm": LocalResponseNorm,
    "max-pool": MaxPool,
    "global-average-pool": GlobalAveragePool,
    "flatten": Flatten,
    "dense": Dense,
    "softmax": Softmax,
}
