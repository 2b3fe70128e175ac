# SPDX-License-Identifier: BSD-2-Clause
"""ONNX's operators that tinygrad lacks, or has without an attribute, as operations that it has.

Source: the operators' text in ONNX's documentation, docs/Operators.md. Not in here: recurrent networks
(recurrent.py).
"""

from __future__ import annotations

import math
from itertools import product
from typing import Any

from tinygrad import Tensor, dtypes
from tinygrad.nn.onnx import OnnxDataType, onnx_ops

from host_tools.record.compiled import recurrent
from host_tools.record.compiled.attention import attention
from host_tools.record.compiled.pieces import concat
from host_tools.record.compiled.scattered import scatter_nd

CUBIC = -0.75  # the constant of cubic interpolation, of GridSample


def cast(x: Tensor, to: int, **_: Any) -> Tensor:
    """Cast; how it saturates and rounds is about types of 8 bits and fewer, which are not in tinygrad's reader."""
    return x.cast(OnnxDataType(to).to_dtype())


def bit_cast(x: Tensor, to: int) -> Tensor:
    """BitCast."""
    return x.bitcast(OnnxDataType(to).to_dtype())


def bit_shift(X: Tensor, Y: Tensor, direction: str) -> Tensor:
    """BitShift of unsigned integers, a power of two after the other: these GPUs have no shift of 64 bits."""
    for bit in range((X.dtype.itemsize * 8).bit_length() - 1):
        step = 1 << (1 << bit)
        moved = X * step if direction == "LEFT" else X // step
        X = (Y.bitwise_and(1 << bit) != 0).where(moved, X)
    return X


def cum_prod(X: Tensor, axis: Tensor, exclusive: int = 0, reverse: int = 0) -> Tensor:
    """CumProd."""
    at = int(axis.item()) % X.ndim
    X = X.flip(at) if reverse else X
    if exclusive:
        first = X.shrink(tuple((0, 1) if i == at else None for i in range(X.ndim))).ones_like()
        X = first.cat(X.shrink(tuple((0, X.shape[at] - 1) if i == at else None for i in range(X.ndim))), dim=at)
    X = X.cumprod(at)
    return X.flip(at) if reverse else X


def lp_pool(X: Tensor, kernel_shape: list[int], p: int = 2, **options: Any) -> Tensor:
    """LpPool: the root of the sum of powers in each window."""
    mean = onnx_ops["AveragePool"](X.abs() ** p, kernel_shape=kernel_shape, count_include_pad=1, **options)
    return (mean * math.prod(kernel_shape)) ** (1 / p)


def col2im(
    input: Tensor,
    image_shape: Tensor,
    block_shape: Tensor,
    dilations: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """Col2Im: each column is a block, of which overlapping parts are added."""
    image, block = ([int(size) for size in shape.tolist()] for shape in (image_shape, block_shape))
    rank, elements = len(image), math.prod(block)
    steps, apart = strides or [1] * rank, dilations or [1] * rank
    before, after = (pads or [0] * 2 * rank)[:rank], (pads or [0] * 2 * rank)[rank:]
    spans = [d * (b - 1) + 1 for d, b in zip(apart, block, strict=True)]
    whole = [size + low + high for size, low, high in zip(image, before, after, strict=True)]
    counts = [(size - span) // step + 1 for size, span, step in zip(whole, spans, steps, strict=True)]
    batch, rows, _ = input.shape
    channels = int(rows) // elements
    places = Tensor.eye(elements).reshape(1, elements, 1, *block).expand(channels, elements, 1, *block)
    made = input.reshape(batch, rows, *counts).conv_transpose2d(
        places.reshape(rows, 1, *block).cast(input.dtype), groups=channels, stride=steps, dilation=apart
    )
    missing = [(0, size - int(has)) for size, has in zip(whole, made.shape[2:], strict=True)]
    made = made.pad((None, None, *missing))
    return made.shrink((None, None, *((low, low + size) for low, size in zip(before, image, strict=True))))


def reverse_sequence(
    input: Tensor,
    sequence_lens: Tensor,
    batch_axis: int = 1,
    time_axis: int = 0,
) -> Tensor:
    """ReverseSequence."""
    x = input.transpose(0, 1) if time_axis == 1 else input
    times = Tensor.arange(x.shape[0]).reshape(-1, 1)
    lengths = sequence_lens.cast(dtypes.int32).reshape(1, -1)
    places = (times < lengths).where(lengths - 1 - times, times)
    places = places.reshape(*places.shape, *[1] * (x.ndim - 2)).expand(x.shape)
    found = x.gather(0, places)
    return found.transpose(0, 1) if time_axis == 1 else found


def grid_sample(
    X: Tensor, grid: Tensor, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros"
) -> Tensor:
    """GridSample of X[N, C, D1, .., Dr] at grid[N, P1, .., Pr, r]; its last axis has the last dimension first."""
    sizes = [int(size) for size in X.shape[2:]]
    flat = X.reshape(X.shape[0], X.shape[1], -1)
    choices = [
        _taps(grid[..., len(sizes) - 1 - axis], size, align_corners, mode, padding_mode)
        for axis, size in enumerate(sizes)
    ]
    total: Tensor | None = None
    for taps in product(*choices):
        place, weight = Tensor(0, dtype=dtypes.int32), Tensor(1.0, dtype=X.dtype)
        for (at, part), size in zip(taps, sizes, strict=True):
            place, weight = place * size + at, weight * part.cast(X.dtype)
        index = place.reshape(X.shape[0], 1, -1).expand(X.shape[0], X.shape[1], -1)
        value = flat.gather(2, index).reshape(*X.shape[:2], *grid.shape[1:-1]) * weight.unsqueeze(1)
        total = value if total is None else total + value
    assert total is not None
    return total


def _taps(g: Tensor, size: int, align: int, mode: str, padding: str) -> list[tuple[Tensor, Tensor]]:
    """Indices along a dimension and their weights; a weight of 0 where the index is outside and counts as zero."""
    low, high = (0.0, size - 1.0) if align else (-0.5, size - 0.5)
    x = (g + 1) / 2 * (size - 1) if align else ((g + 1) * size - 1) / 2
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


def conv_integer(
    x: Tensor,
    w: Tensor,
    x_zero_point: Tensor | None = None,
    w_zero_point: Tensor | None = None,
    **options: Any,
) -> Tensor:
    """ConvInteger: zero points, the weights' one for each output or for all, are taken off before padding."""
    x, w = x.cast(dtypes.int32), w.cast(dtypes.int32)
    if x_zero_point is not None:
        x = x - x_zero_point.cast(dtypes.int32)
    if w_zero_point is not None:
        w = w - w_zero_point.cast(dtypes.int32).reshape(-1, *[1] * (w.ndim - 1))
    made: Tensor = onnx_ops["Conv"](x, w, **options)
    return made


def size(data: Tensor) -> Tensor:
    """Size."""
    return Tensor([data.numel()], dtype=dtypes.int64).reshape(())


def space_to_depth(x: Tensor, blocksize: int, mode: str = "DCR") -> Tensor:
    """SpaceToDepth; `mode` is whether the block or the channel comes first."""
    order = {"DCR": "(h1 w1 c)", "CRD": "(c h1 w1)"}[mode]
    return x.rearrange(f"b c (h h1) (w w1) -> b {order} h w", h1=blocksize, w1=blocksize)


OPERATORS = {
    "Attention": attention,
    "BitCast": bit_cast,
    "BitShift": bit_shift,
    "Cast": cast,
    "Col2Im": col2im,
    "Concat": concat,
    "ConvInteger": conv_integer,
    "CumProd": cum_prod,
    "GRU": recurrent.gru,
    "GridSample": grid_sample,
    "LSTM": recurrent.lstm,
    "LpPool": lp_pool,
    "RNN": recurrent.rnn,
    "ReverseSequence": reverse_sequence,
    "ScatterND": scatter_nd,
    "Size": size,
    "SpaceToDepth": space_to_depth,
}
