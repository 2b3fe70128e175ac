# SPDX-License-Identifier: BSD-2-Clause
"""QuantizeLinear and DynamicQuantizeLinear, to the step of ONNX Runtime. tinygrad's first rounds halves
up where the result is uint8, and its second divides by 0 where all values are 0.

Source: the operators' text in ONNX's documentation, docs/Operators.md; of a range of nothing, ONNX Runtime's
core/util/qmath.h.
"""

from __future__ import annotations

from typing import Any

from tinygrad import Tensor, dtypes
from tinygrad.nn.onnx import OnnxDataType

STEPS = 255  # of uint8
UPPER_BITS, EXPONENT = 0xFFFFF000, 0x7F800000  # of a float32
HALF_OF_LAST_BIT, LEAST = 2.0**-24, -3e38


def quantize_linear(
    x: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor | None = None,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    **_: Any,
) -> Tensor:
    """QuantizeLinear: halves to even, and what is beyond the type's range to its end."""
    named = OnnxDataType(output_dtype).to_dtype() if output_dtype else dtypes.uint8
    kind = y_zero_point.dtype if y_zero_point is not None else named
    at = axis % x.ndim if x.ndim else 0

    def spread(value: Tensor) -> Tensor:
        if value.numel() == 1:
            return value.reshape([1] * x.ndim)
        if block_size:
            return value.repeat_interleave(block_size, at)
        return value.reshape([int(value.shape[0]) if axis == at else 1 for axis in range(x.ndim)])

    scale = spread(y_scale).cast(x.dtype)
    steps = _nearest(x, scale) if x.dtype == dtypes.float32 else (x / scale).round()
    if y_zero_point is not None:
        steps = steps + spread(y_zero_point).cast(x.dtype)
    return steps.clamp(kind.min, kind.max).cast(kind).contiguous()


def _nearest(x: Tensor, scale: Tensor) -> Tensor:
    """The whole number that is nearest to x / scale in float32, halves to even.

    A GPU's quotient is off by a few last bits, and halves are common: sums of what was quantised by the same scale
    have them. So the half that is near it is multiplied with the scale again, in two parts that are exact, since
    it has few bits, and what is left of x decides.
    """
    below = (x / scale).floor()
    half = below + 0.5
    upper = (scale.bitcast(dtypes.uint32) & UPPER_BITS).bitcast(dtypes.float32)
    left = (x - half * upper).maximum(LEAST) - half * (scale - upper)  # without it both would become one product
    power = (half.bitcast(dtypes.uint32) & EXPONENT).bitcast(dtypes.float32)
    is_half = left.abs() <= power * scale * HALF_OF_LAST_BIT  # the quotient in float32 is
    is_odd = (below * 0.5).floor() * 2 != below
    return below + (is_half.where(is_odd, left > 0)).cast(dtypes.float32)


def dynamic_quantize_linear(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """DynamicQuantizeLinear: (the steps, the scale, the zero point)."""
    low, high = x.min().minimum(0), x.max().maximum(0)
    whole = (high - low) / STEPS
    scale = (whole == 0).where(1, whole).cast(dtypes.float32).contiguous()
    zero = (0 - low / scale).round().clamp(0, STEPS).cast(dtypes.uint8).contiguous()
    return quantize_linear(x, scale, zero), scale, zero


OPERATORS = {"DynamicQuantizeLinear": dynamic_quantize_linear, "QuantizeLinear": quantize_linear}
