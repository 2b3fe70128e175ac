# SPDX-License-Identifier: BSD-2-Clause
"""A network's weights as the recorder varies them: what code is made of stays, what is data differs.

ncnn makes the scale of a quantised input part of the shader's code (src/layer/vulkan/quantize_vulkan.cpp), so all
that belongs to an int8 layer beside its matrix stays as it is in every boot.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

WEIGHT_SEED = 3
INT8_MAX = 127  # ncnn's int8 weights are symmetric: -128 is none (tools/quantize/ncnn2int8.cpp)

Span = tuple[int, int]


@dataclass(frozen=True)
class ModelWeights:
    """The content of a `.bin` file, its float16 values as float32.

    Attributes:
        data: the file.
        int8: first byte and end of each array of int8 weights.
        fixed: of all else that belongs to a layer with int8 weights: the tag before them, biases, scales.
    """

    data: bytes
    int8: tuple[Span, ...] = ()
    fixed: tuple[Span, ...] = ()

    def other(self) -> bytes:
        """The same file with other weights: float32 changed by up to a quarter, zeros stay; int8 by one."""
        words = np.frombuffer(self.data[: len(self.data) // 4 * 4], "<f4").copy()
        with np.errstate(invalid="ignore"):
            plausible = np.isfinite(words) & (np.abs(words) > 1e-30) & (np.abs(words) < 1e30)
        factors = np.random.default_rng(WEIGHT_SEED).uniform(0.75, 1.25, len(words)).astype(np.float32)
        words[plausible] *= factors[plausible]
        changed = bytearray(words.tobytes() + self.data[len(words) * 4 :])
        for start, end in self.fixed:
            changed[start:end] = self.data[start:end]
        for start, end in self.int8:
            changed[start:end] = _stepped(np.frombuffer(self.data[start:end], "i1")).tobytes()
        return bytes(changed)

    def blank(self) -> bytes:
        """The same file with zeros as weights: what shaders are made of is the same, and no more."""
        zeros = bytearray(len(self.data))
        for start, end in self.fixed:
            zeros[start:end] = self.data[start:end]
        return bytes(zeros)


def _stepped(weights: NDArray[np.int8]) -> NDArray[np.int8]:
    """Each a step up or down, at the ends of the range inwards."""
    steps = np.random.default_rng(WEIGHT_SEED).choice(np.array([-1, 1], np.int8), len(weights))
    steps[weights >= INT8_MAX] = -1
    steps[weights <= -INT8_MAX] = 1
    changed: NDArray[np.int8] = weights + steps
    return changed
