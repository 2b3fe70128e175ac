# SPDX-License-Identifier: BSD-2-Clause
"""PyTorch's pooling, resizing and sampling, as ONNX. Argument names as in arithmetic.py."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from host_tools.extras.pytorch.graph import aten, each
from host_tools.record.onnx_graph import Graph, Name, Tensor
from host_tools.record.preflight import NetworkError

Sizes = int | Sequence[int]


def _batched(g: Graph, x: Tensor, spatial: int) -> Name:
    """With a batch dimension, which PyTorch lets a caller leave out."""
    return x.name if len(x.shape) == spatial + 2 else g.reshaped(x.name, (1, *x.shape))


def _like_result(g: Graph, name: Name, spatial: int) -> Name:
    shape = g.results[0].shape
    return name if len(shape) == spatial + 2 else g.reshaped(name, shape)


def _max_pool(
    spatial: int,
    g: Graph,
    x: Tensor,
    kernel_size: Sizes,
    stride: Sizes = (),
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> list[Name]:
    made = g.node(
        "MaxPool",
        _batched(g, x, spatial),
        kernel_shape=each(kernel_size, spatial),
        strides=each(stride or kernel_size, spatial),
        pads=each(padding, spatial) * 2,
        dilations=each(dilation, spatial),
        ceil_mode=int(ceil_mode),
    )
    return [_like_result(g, made, spatial)]


def _avg_pool(
    spatial: int,
    g: Graph,
    x: Tensor,
    kernel_size: Sizes,
    stride: Sizes = (),
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Name:
    kernel = each(kernel_size, spatial)
    made = g.node(
        "AveragePool",
        _batched(g, x, spatial),
        kernel_shape=kernel,
        strides=each(stride or kernel_size, spatial),
        pads=each(padding, spatial) * 2,
        ceil_mode=int(ceil_mode),
        count_include_pad=int(count_include_pad or divisor_override is not None),
    )
    if divisor_override is not None:
        if ceil_mode:
            raise NetworkError("average pooling with a divisor and ceil_mode")
        factor = float(np.prod(kernel)) / divisor_override
        made = g.node("Mul", made, g.constant(np.array(factor, x.dtype)))
    return _like_result(g, made, spatial)


def _adaptive(kind: str, spatial: int, g: Graph, x: Tensor, output_size: Sizes) -> list[Name]:
    """Pooling to a given size: each output is of the elements from floor(i * n / m) to ceil((i + 1) * n / m)."""
    before, after = x.shape[-spatial:], g.results[0].shape[-spatial:]
    name = _batched(g, x, spatial)
    if set(after) == {1}:
        reduced = g.node("GlobalMaxPool" if kind == "MaxPool" else "GlobalAveragePool", name)
        return [_like_result(g, reduced, spatial)]
    if all(n % m == 0 for n, m in zip(before, after, strict=True)):
        kernel = [n // m for n, m in zip(before, after, strict=True)]
        return [_like_result(g, g.node(kind, name, kernel_shape=kernel, strides=kernel), spatial)]
    reduce = "ReduceMax" if kind == "MaxPool" else "ReduceMean"
    rank = spatial + 2
    for axis, n, m in zip(range(2, rank), before, after, strict=True):
        parts = []
        for at in range(m):
            bounds = ([at * n // m], [-(-(at + 1) * n // m)], [axis])
            parts.append(g.node(reduce, g.node("Slice", name, *map(g.constant, bounds)), axes=[axis], keepdims=1))
        name = g.node("Concat", *parts, axis=axis)
    return [_like_result(g, name, spatial)]


for dims in (1, 2, 3):
    aten(f"max_pool{dims}d", f"max_pool{dims}d_with_indices")(partial(_max_pool, dims))
    aten(f"avg_pool{dims}d")(partial(_avg_pool, dims))
    aten(f"adaptive_avg_pool{dims}d")(partial(_adaptive, "AveragePool", dims))
    aten(f"adaptive_max_pool{dims}d")(partial(_adaptive, "MaxPool", dims))


def _resized(
    mode: str,
    g: Graph,
    x: Tensor,
    output_size: Sequence[int] | None = None,
    align_corners: bool = False,
    scale_factors: Sequence[float] | None = None,
    **scales: float | None,
) -> Name:
    """An output's place in the input is by the factor that was given, which the sizes may not divide to."""
    factors = [value for _, value in sorted(scales.items())] if scales else scale_factors
    sizes = g.results[0].shape[2:]
    exact = factors and all(
        value and int(size * value) == new for value, size, new in zip(factors, x.shape[2:], sizes, strict=True)
    )
    if exact and factors:
        given = [None, g.constant(np.array([1, 1, *factors], np.float32))]
    else:
        given = [None, None, g.constant(g.results[0].shape)]
    if mode.startswith("nearest"):
        corners, nearest = (
            ("half_pixel", "round_prefer_ceil") if mode == "nearest-exact" else ("asymmetric", "floor")
        )
        return g.node(
            "Resize", x.name, *given, mode="nearest", coordinate_transformation_mode=corners, nearest_mode=nearest
        )
    corners = "align_corners" if align_corners else "half_pixel"
    if mode == "cubic":
        return g.node(
            "Resize", x.name, *given, mode=mode, coordinate_transformation_mode=corners, cubic_coeff_a=-0.75
        )
    return g.node("Resize", x.name, *given, mode=mode, coordinate_transformation_mode=corners)


for dims in (2, 3):
    aten(f"_adaptive_avg_pool{dims}d")(partial(_adaptive, "AveragePool", dims))
for kind, mode in (
    ("nearest1d", "nearest"),
    ("nearest2d", "nearest"),
    ("nearest3d", "nearest"),
    ("linear1d", "linear"),
    ("bilinear2d", "linear"),
    ("trilinear3d", "linear"),
    ("bicubic2d", "cubic"),
):
    aten(f"upsample_{kind}")(partial(_resized, mode))
for dims in (1, 2, 3):
    aten(f"_upsample_nearest_exact{dims}d")(partial(_resized, "nearest-exact"))


@aten("grid_sampler", "grid_sampler_2d", "grid_sampler_3d")
def _grid_sampler(
    g: Graph, x: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Name:
    return g.node(
        "GridSample",
        x.name,
        grid.name,
        mode=("bilinear", "nearest", "bicubic")[interpolation_mode],
        padding_mode=("zeros", "border", "reflection")[padding_mode],
        align_corners=int(align_corners),
    )


@aten("im2col")
def _im2col(
    g: Graph, x: Tensor, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
) -> Name:
    """Patches as columns: a convolution by one weight of 1 for each element of a patch."""
    kernel, channels = each(kernel_size, 2), x.shape[-3]
    count = int(np.prod(kernel))
    weight = np.tile(np.eye(count, dtype=x.dtype).reshape(count, 1, *kernel), (channels, 1, 1, 1))
    made = g.node(
        "Conv",
        _batched(g, x, 2),
        g.constant(weight),
        strides=each(stride, 2),
        pads=each(padding, 2) * 2,
        dilations=each(dilation, 2),
        group=channels,
    )
    return g.reshaped(made, g.results[0].shape)
