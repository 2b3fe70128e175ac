# SPDX-License-Identifier: BSD-2-Clause
"""ONNX's operators that tinygrad lacks, or has without an attribute, as operations that it has.

Source: the operators' text in ONNX's documentation, docs/Operators.md. Not in here: recurrent networks
(recurrent.py), and what reads between elements (sampled.py, resized.py).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tinygrad import Tensor, dtypes
from tinygrad.nn.onnx import Domain, OnnxDataType, OpSetId, onnx_ops

from host_tools.record.compiled import recurrent
from host_tools.record.compiled.attention import attention
from host_tools.record.compiled.pieces import FEW, concat
from host_tools.record.compiled.scattered import scatter_elements, scatter_nd

MAX_DET = 4  # rows; what is added grows with their factorial


def cast(x: Tensor, to: int, **_: Any) -> Tensor:
    """Cast; how it saturates and rounds is about types of 8 bits and fewer, which are not in tinygrad's reader."""
    return x.cast(OnnxDataType(to).to_dtype())


def bit_cast(x: Tensor, to: int) -> Tensor:
    """BitCast."""
    return x.bitcast(OnnxDataType(to).to_dtype())


def bit_shift(X: Tensor, Y: Tensor, direction: str) -> Tensor:
    """BitShift, a power of two after the other: these GPUs have no shift of 64 bits. By as many bits as there are,
    or by a negative number, nothing is left but the sign."""
    width = X.dtype.itemsize * 8
    sign = X if direction == "RIGHT" else X.zeros_like()
    everything = (sign < 0).where(X.full_like(-1), 0) if X.dtype in dtypes.sints else 0
    for bit in range(width.bit_length() - 1):
        step = 1 << (1 << bit)
        moved = X * step if direction == "LEFT" else X // step
        X = (Y.bitwise_and(1 << bit) != 0).where(moved, X)
    return ((Y < 0) | (width <= Y)).where(everything, X)


def mod(x: Tensor, y: Tensor, fmod: int = 0) -> Tensor:
    """Mod; of floats it has the divisor's sign, and an infinite divisor leaves what is finite."""
    if not x.is_floating_point():
        made: Tensor = onnx_ops["Mod"](x, y, fmod=fmod)
        return made
    rest = (y.isinf() & ~x.isinf()).where(x, x.fmod(y))
    return rest if fmod else ((rest != 0) & ((rest < 0) != (y < 0))).where(rest + y, rest)


def cum_prod(X: Tensor, axis: Tensor, exclusive: int = 0, reverse: int = 0) -> Tensor:
    """CumProd."""
    at = int(axis.item()) % X.ndim
    X = X.flip(at) if reverse else X
    if exclusive:
        first = X.shrink(tuple((0, 1) if i == at else None for i in range(X.ndim))).ones_like()
        X = first.cat(X.shrink(tuple((0, X.shape[at] - 1) if i == at else None for i in range(X.ndim))), dim=at)
    X = X.cumprod(at)
    return X.flip(at) if reverse else X


def gather(x: Tensor, indices: Any, axis: int = 0) -> Tensor:
    """Gather, also by a constant table: tinygrad's takes no nested list, and reads each number of a list apart."""
    if isinstance(indices, (Tensor, int)):
        made: Tensor = onnx_ops["Gather"](x, indices, axis=axis)
        return made
    at, places = axis % x.ndim, np.asarray(indices, np.int32)
    before, after = x.shape[:at], x.shape[at + 1 :]
    if places.size <= FEW:
        found = onnx_ops["Gather"](x, places.reshape(-1).tolist(), axis=at)
    else:
        rows = Tensor(np.where(places < 0, places + x.shape[at], places).reshape(-1)).realize()
        found = x[(slice(None),) * at + (rows,)]
    return found.reshape(*before, *places.shape, *after)


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


def det(X: Tensor) -> Tensor:
    """Det of small matrices, by their first row."""
    size = int(X.shape[-1])
    if size > MAX_DET:
        raise NotImplementedError(f"Det of {size} rows, more than {MAX_DET}")
    if size == 1:
        return X[..., 0, 0]
    rest = X[..., 1:, :]
    parts = [X[..., 0, at] * det(rest[..., [i for i in range(size) if i != at]]) for at in range(size)]
    return sum(parts[2::2], parts[0]) - sum(parts[3::2], parts[1])


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


def unsqueeze(data: Tensor, axes: list[int] | int) -> Tensor:
    """Unsqueeze; ONNX's own AffineGrid gives a number for the list of axes."""
    made: Tensor = onnx_ops["Unsqueeze"](data, [axes] if isinstance(axes, int) else axes)
    return made


OPERATORS: dict[str, Any] = {
    "Attention": {  # ONNX Runtime's own, which is older, has the same name
        OpSetId(Domain.ONNX, 1): attention,
        (of_runtime := OpSetId(Domain.MICROSOFT_CONTRIB_OPS, 1)): onnx_ops["Attention"][of_runtime],
    },
    "BitCast": bit_cast,
    "BitShift": bit_shift,
    "Cast": cast,
    "Col2Im": col2im,
    "Concat": concat,
    "ConvInteger": conv_integer,
    "CumProd": cum_prod,
    "Det": det,
    "GRU": recurrent.gru,
    "Gather": gather,
    "LSTM": recurrent.lstm,
    "LpPool": lp_pool,
    "Mod": mod,
    "RNN": recurrent.rnn,
    "ReverseSequence": reverse_sequence,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
    "Size": size,
    "SpaceToDepth": space_to_depth,
    "Unsqueeze": unsqueeze,
}
