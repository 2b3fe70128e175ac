# SPDX-License-Identifier: BSD-2-Clause
"""ONNX's steps of training: Adagrad, Adam, Momentum. tinygrad's own assign to their inputs when it compiles.

Source: the operators' text in ONNX's documentation, docs/Operators-ml.md (domain ai.onnx.preview.training).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinygrad import Tensor


def _groups(inputs: Sequence[Tensor], kinds: int) -> list[tuple[Tensor, ...]]:
    """X1, X2, .., G1, G2, .. -> (X1, G1, ..), (X2, G2, ..)."""
    count = len(inputs) // kinds
    return [tuple(inputs[kind * count + at] for kind in range(kinds)) for at in range(count)]


def _in_order(results: Sequence[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    return tuple(tensor for kind in zip(*results, strict=True) for tensor in kind)


def _step(T: Any) -> int:
    return int(T[0] if isinstance(T, Sequence) else T)


def adagrad(
    R: Tensor,
    T: Any,
    *inputs: Tensor,
    decay_factor: float = 0.0,
    epsilon: float = 0.0,
    norm_coefficient: float = 0.0,
) -> tuple[Tensor, ...]:
    """Adagrad: new X and H."""
    rate, made = R / (1 + _step(T) * decay_factor), []
    for x, g, h in _groups(inputs, 3):
        slope = norm_coefficient * x + g
        squares = h + slope * slope
        made.append((x - rate * slope / (squares.sqrt() + epsilon), squares))
    return _in_order(made)


def adam(
    R: Tensor,
    T: Any,
    *inputs: Tensor,
    alpha: float = 0.9,
    beta: float = 0.999,
    epsilon: float = 0.0,
    norm_coefficient: float = 0.0,
    norm_coefficient_post: float = 0.0,
) -> tuple[Tensor, ...]:
    """Adam: new X, V and H."""
    step, made = _step(T), []
    rate = R * ((1 - beta**step) ** 0.5 / (1 - alpha**step)) if step > 0 else R
    for x, g, v, h in _groups(inputs, 4):
        slope = norm_coefficient * x + g
        mean, squares = alpha * v + (1 - alpha) * slope, beta * h + (1 - beta) * slope * slope
        moved = x - rate * mean / (squares.sqrt() + epsilon)
        made.append(((1 - norm_coefficient_post) * moved, mean, squares))
    return _in_order(made)


def momentum(
    R: Tensor, T: Any, *inputs: Tensor, alpha: float, beta: float, mode: str, norm_coefficient: float
) -> tuple[Tensor, ...]:
    """Momentum, standard or Nesterov's: new X and V."""
    weight, made = (beta if _step(T) > 0 else 1.0), []
    for x, g, v in _groups(inputs, 3):
        slope = norm_coefficient * x + g
        mean = alpha * v + weight * slope
        made.append((x - R * (slope + alpha * mean if mode == "nesterov" else mean), mean))
    return _in_order(made)


OPERATORS = {"Adagrad": adagrad, "Adam": adam, "Momentum": momentum}
