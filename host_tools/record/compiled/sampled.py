# SPDX-License-Identifier: BSD-2-Clause
"""ONNX's operators that read a picture between its elements: GridSample, DeformConv, RoiAlign.

Source: the operators' text in ONNX's documentation, docs/Operators.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

from tinygrad import Tensor, dtypes

CUBIC = -0.75  # the constant of cubic interpolation, of GridSample
Taps = list[tuple[Tensor, Tensor]]  # indices along a dimension, and their weights


class SamplingError(NotImplementedError):
    """A variant of the operators that is not computed."""


def grid_sample(
    X: Tensor, grid: Tensor, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros"
) -> Tensor:
    """GridSample of X[N, C, D1, .., Dr] at grid[N, P1, .., Pr, r]; its last axis has the last dimension first."""
    choices = []
    for axis, size in enumerate(X.shape[2:]):
        g = grid[..., grid.shape[-1] - 1 - axis]
        x = (g + 1) / 2 * (size - 1) if align_corners else ((g + 1) * size - 1) / 2
        choices.append(_taps(x, int(size), (0.0 if align_corners else -0.5), mode, padding_mode))
    return _sum(_terms(X, choices))


def deform_conv(
    X: Tensor,
    W: Tensor,
    offset: Tensor,
    B: Tensor | None = None,
    mask: Tensor | None = None,
    dilations: list[int] | None = None,
    group: int = 1,
    kernel_shape: list[int] | None = None,
    offset_group: int = 1,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """DeformConv: each element of the kernel reads where its offset says, and outside zeros."""
    kernel = kernel_shape or [int(size) for size in W.shape[2:]]
    rank, elements = len(kernel), math.prod(kernel)
    steps, apart, before = strides or [1] * rank, dilations or [1] * rank, pads or [0] * rank
    batch, channels, *sizes = X.shape
    out = offset.shape[2:]
    moves = offset.reshape(batch * offset_group, elements, rank, *out)
    choices = []
    for axis in range(rank):
        taps = Tensor.arange(kernel[axis]) * apart[axis] - before[axis]
        taps = taps.reshape(*_along(axis, kernel)).expand(kernel).reshape(1, elements, *[1] * rank)
        places = (Tensor.arange(out[axis]) * steps[axis]).reshape(1, 1, *_along(axis, out))
        choices.append(_taps(moves[:, :, axis] + taps + places, int(sizes[axis])))
    found = _sum(_terms(X.reshape(batch * offset_group, channels // offset_group, *sizes), choices))
    if mask is not None:
        found = found * mask.reshape(batch * offset_group, 1, elements, *out)
    columns = found.contiguous().reshape(batch, group, channels // group * elements, math.prod(out))
    made = W.reshape(group, W.shape[0] // group, -1) @ columns
    made = made.reshape(batch, W.shape[0], *out)
    return made if B is None else made + B.reshape(1, -1, *[1] * rank)


def roi_align(
    X: Tensor,
    rois: Tensor,
    batch_indices: Tensor,
    coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Tensor:
    """RoiAlign; the maximum is that of the four weighted neighbours of each sample, as ONNX has it."""
    if sampling_ratio < 1:
        raise SamplingError("RoiAlign with as many samples as a region is large")
    half = coordinate_transformation_mode == "half_pixel"
    corners = rois * spatial_scale - (0.5 if half else 0)
    out, choices = (output_height, output_width), []
    for axis, (size, bins) in enumerate(zip(X.shape[2:], out, strict=True)):
        begin, end = corners[:, 1 - axis], corners[:, 3 - axis]
        length = end - begin if half else (end - begin).maximum(1)
        count = bins * sampling_ratio
        x = begin.unsqueeze(1) + (Tensor.arange(count) + 0.5).reshape(1, -1) * length.unsqueeze(1) / count
        x = x.reshape(rois.shape[0], *_along(axis, out))
        inside = (x >= -1) & (x <= size)
        counts = [bins * sampling_ratio for bins in out]
        taps = [(at, inside.where(weight, 0)) for at, weight in _taps(x.clamp(0, size - 1), int(size))]
        choices.append([(at.expand(-1, *counts), weight.expand(-1, *counts)) for at, weight in taps])
    terms = _terms(X[batch_indices], choices)
    whole = _sum(terms) if mode == "avg" else terms[0].stack(*terms[1:]).max(0)
    parts = whole.reshape(*whole.shape[:2], output_height, sampling_ratio, output_width, sampling_ratio)
    return parts.mean((3, 5)) if mode == "avg" else parts.max((3, 5))


def _along(axis: int, shape: Sequence[int]) -> list[int]:
    """A shape of ones but for an axis."""
    return [-1 if at == axis else 1 for at in range(len(shape))]


def _sum(terms: list[Tensor]) -> Tensor:
    total, *rest = terms
    for term in rest:
        total = total + term
    return total


def _terms(X: Tensor, choices: Sequence[Taps]) -> list[Tensor]:
    """X[N, C, D1, .., Dr] at each combination of the dimensions' indices[N, P1, ..], weighted: [N, C, P1, ..]."""
    flat, sizes, terms = X.reshape(*X.shape[:2], -1), X.shape[2:], []
    for taps in product(*choices):
        place, weight = Tensor(0, dtype=dtypes.int32), Tensor(1.0, dtype=X.dtype)
        for (at, part), size in zip(taps, sizes, strict=True):
            place, weight = place * size + at, weight * part.cast(X.dtype)
        index = place.reshape(X.shape[0], 1, -1).expand(X.shape[0], X.shape[1], -1)
        terms.append(flat.gather(2, index).reshape(*X.shape[:2], *place.shape[1:]) * weight.unsqueeze(1))
    return terms


def _taps(x: Tensor, size: int, low: float = 0.0, mode: str = "linear", padding: str = "zeros") -> Taps:
    """Indices along a dimension for places in it, and their weights: 0 where the index is outside and counts as
    zero. `low` is where a reflection has its mirror."""
    high = size - 1 - low
    if mode == "nearest":
        x = x.round()
    if padding == "border":
        x = x.clamp(0, size - 1)
    elif padding == "reflection":
        x = _reflected(x, low, high)
    if mode == "nearest":
        weights = [(x, x.ones_like())]
    else:
        floor = x.floor()
        t = x - floor
        if mode in ("linear", "bilinear"):
            weights = [(floor, 1 - t), (floor + 1, t)]
        else:
            weights = [(floor + at, _cubic((t - at).abs())) for at in (-1, 0, 1, 2)]
    found = []
    for at, weight in weights:
        if padding == "zeros":
            weight = ((at >= 0) & (at <= size - 1)).where(weight, 0)
        elif padding == "reflection":
            at = _reflected(at, low, high)
        found.append((at.clamp(0, size - 1).cast(dtypes.int32), weight))
    return found


def _reflected(x: Tensor, low: float, high: float) -> Tensor:
    """Between the bounds, mirrored at them as often as it takes."""
    width = high - low
    if width == 0:
        return x.zeros_like() + low
    away = (x - low).abs()
    turns = (away / width).floor()
    rest = away - turns * width
    return (turns % 2 == 0).where(low + rest, high - rest)


def _cubic(t: Tensor) -> Tensor:
    """Weight of a point at a distance of up to 2."""
    near = ((CUBIC + 2) * t - (CUBIC + 3)) * t * t + 1
    far = ((CUBIC * t - 5 * CUBIC) * t + 8 * CUBIC) * t - 4 * CUBIC
    return (t <= 1).where(near, far)


OPERATORS = {"DeformConv": deform_conv, "GridSample": grid_sample, "RoiAlign": roi_align}
