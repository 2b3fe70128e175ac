# SPDX-License-Identifier: BSD-2-Clause
"""ONNX's RNN, LSTM and GRU as operations that tinygrad has: one step after the other, of a known number.

Source: the operators' text in ONNX's documentation, docs/Operators.md; of DynamicQuantizeLSTM, which ONNX
Runtime's quantizer writes, in its docs/ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tinygrad import Tensor, dtypes

from host_tools.record.compiled.pieces import settle, stacked
from host_tools.record.compiled.rounding import dynamic_quantize_linear

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "Sigmoid": Tensor.sigmoid,
    "Tanh": Tensor.tanh,
    "Relu": Tensor.relu,
}


Product = Callable[[int, Tensor], Tensor]  # of a direction's weights and a tensor


class RecurrentError(NotImplementedError):
    """A variant of the operators that is not computed."""


def lstm(
    X: Tensor,
    W: Tensor,
    R: Tensor,
    B: Tensor | None = None,
    sequence_lens: Tensor | None = None,
    initial_h: Tensor | None = None,
    initial_c: Tensor | None = None,
    P: Tensor | None = None,
    **options: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """ONNX's LSTM: the names and shapes of its inputs, (Y, Y_h, Y_c)."""

    def fed(d: int, x: Tensor) -> Tensor:
        return x @ W[d].T

    def fed_back(d: int, h: Tensor) -> Tensor:
        return h @ R[d].T

    sizes = W.shape[0], R.shape[-1]
    return _lstm(X, fed, fed_back, sizes, B, sequence_lens, [initial_h, initial_c], P, options)


def quantized_lstm(
    X: Tensor,
    W: Tensor,
    R: Tensor,
    B: Tensor | None,
    sequence_lens: Tensor | None,
    initial_h: Tensor | None,
    initial_c: Tensor | None,
    P: Tensor | None,
    *scales: Tensor,
    **options: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """ONNX Runtime's DynamicQuantizeLSTM: `lstm` of weights of 8 bits, which lie the other way, with their scales
    and zero points. What a product multiplies them with is rounded to 8 bits by its own range."""

    def product(matrix: Tensor, scale: Tensor, zero: Tensor) -> Product:
        def of(d: int, x: Tensor) -> Tensor:
            rounded, step, middle = dynamic_quantize_linear(x)
            whole = matrix[d].cast(dtypes.int32) - zero[d].cast(dtypes.int32)
            return ((rounded.cast(dtypes.int32) - middle.cast(dtypes.int32)) @ whole) * (step * scale[d])

        return of

    of_input, zero_input, of_state, zero_state = scales
    fed, fed_back = product(W, of_input, zero_input), product(R, of_state, zero_state)
    sizes = W.shape[0], R.shape[1]
    y, h, c = _lstm(X, fed, fed_back, sizes, B, sequence_lens, [initial_h, initial_c], P, options)
    return y.contiguous(), h.contiguous(), c.contiguous()  # a plan is cut where values lie in memory


def _lstm(
    x: Tensor,
    fed: Product,
    fed_back: Product,
    sizes: tuple[int, int],
    B: Tensor | None,
    sequence_lens: Tensor | None,
    states: Sequence[Tensor | None],
    P: Tensor | None,
    options: dict[str, Any],
) -> tuple[Tensor, Tensor, Tensor]:

    def step(d: int, x: Tensor, state: list[Tensor], apply: Sequence[Any]) -> list[Tensor]:
        h, c = state
        gates = x + fed_back(d, h) + (B[d].chunk(2)[1] if B is not None else 0)
        i, o, f, g = gates.chunk(4, dim=-1)
        sigma, inner, outer = apply
        pi, po, pf = P[d].chunk(3) if P is not None else (0, 0, 0)
        c = sigma(f + pf * c) * c + sigma(i + pi * c) * inner(g)
        o = o + po * c
        return [sigma(o) * outer(c), c]

    y, (h, c) = _run(x, fed, B, states, step, ["Sigmoid", "Tanh", "Tanh"], sequence_lens, sizes, options)
    return y, h, c


def gru(
    X: Tensor,
    W: Tensor,
    R: Tensor,
    B: Tensor | None = None,
    sequence_lens: Tensor | None = None,
    initial_h: Tensor | None = None,
    linear_before_reset: int = 0,
    **options: Any,
) -> tuple[Tensor, Tensor]:
    """ONNX's GRU: the names and shapes of its inputs, (Y, Y_h)."""

    def step(d: int, x: Tensor, state: list[Tensor], apply: Sequence[Any]) -> list[Tensor]:
        (h,) = state
        rz, rr, rh = R[d].chunk(3)
        bz, br, bh = B[d].chunk(6)[3:] if B is not None else (0, 0, 0)
        xz, xr, xh = x.chunk(3, dim=-1)
        sigma, inner = apply
        z, r = sigma(xz + h @ rz.T + bz), sigma(xr + h @ rr.T + br)
        hidden = r * (h @ rh.T + bh) if linear_before_reset else (r * h) @ rh.T + bh
        return [(1 - z) * inner(xh + hidden) + z * h]

    def fed(d: int, x: Tensor) -> Tensor:
        return x @ W[d].T

    sizes = W.shape[0], R.shape[-1]
    y, (h,) = _run(X, fed, B, [initial_h], step, ["Sigmoid", "Tanh"], sequence_lens, sizes, options)
    return y, h


def rnn(
    X: Tensor,
    W: Tensor,
    R: Tensor,
    B: Tensor | None = None,
    sequence_lens: Tensor | None = None,
    initial_h: Tensor | None = None,
    **options: Any,
) -> tuple[Tensor, Tensor]:
    """ONNX's RNN: the names and shapes of its inputs, (Y, Y_h)."""

    def step(d: int, x: Tensor, state: list[Tensor], apply: Sequence[Any]) -> list[Tensor]:
        return [apply[0](x + state[0] @ R[d].T + (B[d].chunk(2)[1] if B is not None else 0))]

    def fed(d: int, x: Tensor) -> Tensor:
        return x @ W[d].T

    sizes = W.shape[0], R.shape[-1]
    y, (h,) = _run(X, fed, B, [initial_h], step, ["Tanh"], sequence_lens, sizes, options)
    return y, h


def _run(
    x: Tensor,
    feed: Product,
    b: Tensor | None,
    states: Sequence[Tensor | None],
    step: Callable[[int, Tensor, list[Tensor], Sequence[Any]], list[Tensor]],
    names: list[str],
    sequence_lens: Tensor | None,
    sizes: tuple[int, int],
    options: dict[str, Any],
) -> tuple[Tensor, list[Tensor]]:
    if options.get("clip") is not None or options.get("input_forget"):
        raise RecurrentError("clip or input_forget")
    batch_first = bool(options.get("layout", 0))
    if batch_first:
        x = x.transpose(0, 1)
        states = [s.transpose(0, 1) if s is not None else None for s in states]
    steps, batch, _ = x.shape
    directions, hidden = sizes
    lengths = sequence_lens.reshape(batch, 1) if sequence_lens is not None else None
    kinds = [str(name) for name in options.get("activations") or names * directions]
    if unknown := sorted(set(kinds) - set(ACTIVATIONS)):
        raise RecurrentError(f"activation {unknown[0]}")
    ways = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}
    every, last = [], []
    for d, backwards in enumerate(ways[str(options.get("direction") or "forward")]):
        apply = [ACTIVATIONS[kind] for kind in kinds[d * len(names) : (d + 1) * len(names)]]
        # All steps' inputs at once: one large product in place of many small ones.
        fed = (feed(d, x) + (b[d].chunk(2)[0] if b is not None else 0)).contiguous()
        state = [s[d] if s is not None else Tensor.zeros(batch, hidden, dtype=x.dtype) for s in states]
        seen: list[Tensor] = []
        settle(fed, *state)
        for at in reversed(range(steps)) if backwards else range(steps):
            new = step(d, fed[at], state, apply)
            if lengths is not None:  # a sequence that has ended, or has not begun from its end, stays as it is
                runs = lengths > at
                new = [runs.where(one, old) for one, old in zip(new, state, strict=True)]
            state = [tensor.contiguous() for tensor in new]
            settle(*state)
            seen.append(runs.where(state[0], 0) if lengths is not None else state[0])
        every.append(stacked(seen[::-1] if backwards else seen))
        last.append(state)
    y, left = stacked(every, 1).contiguous(), [stacked(parts) for parts in zip(*last, strict=True)]
    if batch_first:
        return y.permute(2, 0, 1, 3), [tensor.transpose(0, 1) for tensor in left]
    return y, left
