# SPDX-License-Identifier: BSD-2-Clause
"""ONNX's Resize where tinygrad lacks it: with antialiasing, of a region, or with corners that stay where a scale
leaves no whole number of elements. A product with a matrix of weights along each dimension, which are constants.
Between whole numbers it computes in floats, and truncates.

Sources: the operator's text in ONNX's documentation, docs/Operators.md; of truncation ONNX Runtime 1.32.0: 5,040
values of int8, uint8 and int32 are what its floats give.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from tinygrad import Tensor, dtypes
from tinygrad.nn.onnx import onnx_ops

Numbers = NDArray[np.float64]
REGION, CORNERS = "tf_crop_and_resize", "align_corners"


def resize(
    X: Tensor,
    roi: list[float] | None = None,
    scales: list[float] | None = None,
    sizes: list[int] | None = None,
    **options: Any,
) -> Tensor:
    """Resize."""
    how = options.get("coordinate_transformation_mode", "half_pixel")
    mode = options.get("mode", "nearest")
    policy = options.get("keep_aspect_ratio_policy", "stretch")
    if mode != "nearest" and not dtypes.is_float(X.dtype):
        return resize(X.float(), roi, scales, sizes, **options).trunc().cast(X.dtype)
    ours = options.get("antialias") or how == REGION or (how == CORNERS and scales)
    if not ours or mode == "nearest" or policy != "stretch":
        made: Tensor = onnx_ops["Resize"](X, roi, scales, sizes, **options)
        return made
    axes = [int(axis) % X.ndim for axis in options.get("axes") or range(X.ndim)]
    outside = Tensor(False)
    for at, axis in enumerate(axes):
        size = int(X.shape[axis])
        scale = scales[at] if scales else (sizes or [])[at] / size
        count = int(scale * size) if scales else (sizes or [])[at]
        begin, end = (roi[at], roi[len(axes) + at]) if roi and how == REGION else (0.0, 1.0)
        if count == size and (begin, end) == (0.0, 1.0):
            continue
        places = _places(how, count, size, scale, begin, end)
        matrix = _weights(places, size, scale, mode, options).astype(np.float32)
        weights = Tensor(matrix.T.copy()).realize().cast(X.dtype)
        X = (X.transpose(axis, -1) @ weights).transpose(axis, -1).contiguous()
        if how == REGION:
            beyond = Tensor((places < 0) | (places > size - 1)).realize()
            outside = outside | beyond.reshape(*(-1 if i == axis else 1 for i in range(X.ndim)))
    return outside.where(options.get("extrapolation_value", 0.0), X).cast(X.dtype)


def _places(how: str, count: int, size: int, scale: float, begin: float, end: float) -> Numbers:
    """Where each of `count` elements lies among `size`."""
    x = np.arange(count, dtype=np.float64)
    if how == CORNERS:
        whole = scale * size
        return x * (size - 1) / (whole - 1) if whole != 1 else np.zeros(count)
    if how == REGION:
        if count == 1:
            return np.full(1, (begin + end) * (size - 1) / 2)
        return begin * (size - 1) + x * (end - begin) * (size - 1) / (count - 1)
    if how == "asymmetric":
        return x / scale
    if how == "half_pixel" or (how == "pytorch_half_pixel" and count > 1):
        return (x + 0.5) / scale - 0.5
    if how == "pytorch_half_pixel":
        return np.zeros(count)
    raise NotImplementedError(f"Resize with antialiasing and {how}")


def _weights(places: Numbers, size: int, scale: float, mode: str, options: dict[str, Any]) -> Numbers:
    """[count, size]: how much of each element is in each of the new ones. What is outside is the outermost one, or
    nothing (`exclude_outside`)."""
    antialias = bool(options.get("antialias"))
    narrow = min(scale, 1.0) if antialias else 1.0  # a filter that is wider where elements are left out
    reach = int(np.ceil((1 if mode == "linear" else 2) / narrow)) + 1
    first = np.floor(places).astype(int)
    found = np.zeros((len(places), size))
    for step in range(-reach, reach + 1):
        at = first + step
        distance = np.abs(at - places) * narrow
        if mode == "linear":
            weight = np.clip(1 - distance, 0, None)
        else:
            weight = _cubic(distance, options.get("cubic_coeff_a", -0.75))
        if options.get("exclude_outside"):
            weight = np.where((at >= 0) & (at < size), weight, 0)
        np.add.at(found, (np.arange(len(places)), np.clip(at, 0, size - 1)), weight)
    total: Numbers = found / found.sum(1, keepdims=True)
    return total


def _cubic(t: Numbers, a: float) -> Numbers:
    """Keys' weight of an element at a distance."""
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
    return np.where(t <= 1, near, np.where(t < 2, far, 0))


OPERATORS = {"Resize": resize}
