# SPDX-License-Identifier: BSD-2-Clause
"""Products of matrices in single precision, each multiply-addition fused, in the order of a device's operators."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
LANES = 4  # sums that a dense layer has at once


def fused(total: Array, a: Array, b: Array) -> Array:
    """total + a * b, rounded once, to single precision.

    The product is exact as a double. The sum is rounded to the neighbour whose last bit is odd, unless it is
    exact; rounded again, it is then what one rounding would have made of it.
    """
    product, addend = a.astype(np.float64) * b.astype(np.float64), total.astype(np.float64)
    found = product + addend
    part = found - product
    error = (product - (found - part)) + (addend - part)
    bits = found.view(np.int64)
    inexact = ((error < 0) | (error > 0)) & (bits & 1 == 0)
    bits += np.where(inexact, np.where((error > 0) == (found > 0), 1, -1), 0)
    result: Array = found.astype(np.float32)
    return result


def conv1x1(weights: Array, given: Array, bias: Array, clamp: Array) -> Array:
    """A pointwise convolution: a row for each row of weights."""
    total = np.repeat(bias.astype(np.float32)[:, None], given.shape[1], axis=1)
    for k in range(weights.shape[1]):
        total = fused(total, weights[:, k : k + 1], given[k : k + 1])
    return _clamped(total, clamp)


def dense(weights: Array, given: Array, bias: Array, clamp: Array) -> Array:
    """A fully connected layer."""
    more = -len(given) % LANES
    rows = np.pad(weights, ((0, 0), (0, more))).reshape(len(weights), -1, LANES)
    parts = np.pad(given, (0, more)).reshape(-1, LANES)
    total = np.zeros((len(weights), LANES), np.float32)
    for k in range(len(parts)):
        total = fused(total, rows[:, k], parts[k : k + 1])
    return _clamped((total[:, 0] + total[:, 2]) + (total[:, 1] + total[:, 3]) + bias, clamp)


def _clamped(x: Array, clamp: Array) -> Array:
    low, high = clamp
    x = np.where(x < low, low, x)
    result: Array = np.where(x > high, high, x).astype(np.float32)
    return result
