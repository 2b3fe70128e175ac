# SPDX-License-Identifier: BSD-2-Clause
"""ONNX's Scan, one step after the other: the number of steps is that of the slices, which is known.

Source: the operator's text in ONNX's documentation, docs/Operators.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tinygrad import Tensor
from tinygrad.nn.onnx import OnnxRunner

from host_tools.record.compiled.pieces import stacked


def within(outer: OnnxRunner) -> Callable[..., tuple[Tensor, ...]]:
    """ONNX's Scan from opset 9 on, in a graph whose values its body may use."""

    def scan(*inputs: Tensor, body: OnnxRunner, num_scan_inputs: int, **options: Any) -> tuple[Tensor, ...]:
        return _scan(outer, inputs, body, num_scan_inputs, options)

    return scan  # tinygrad takes functions only, no partial ones


def _scan(
    outer: OnnxRunner, inputs: Sequence[Tensor], body: OnnxRunner, num_scan_inputs: int, options: dict[str, Any]
) -> tuple[Tensor, ...]:
    """The last states, then what was collected.

    Args:
        outer: the graph that it is in.
        inputs: states, then what is scanned.
        body: the graph of a step.
        num_scan_inputs: how many of the inputs are scanned.
        options: the other attributes.
    """
    body.onnx_ops = outer.onnx_ops
    states = list(inputs[: len(inputs) - num_scan_inputs])
    scanned = inputs[len(states) :]
    collected = len(body.graph_outputs) - len(states)
    axes_in = _each(options, "scan_input_axes", num_scan_inputs)
    axes_out = _each(options, "scan_output_axes", collected)
    backwards_in = _each(options, "scan_input_directions", num_scan_inputs)
    backwards_out = _each(options, "scan_output_directions", collected)
    steps = scanned[0].shape[axes_in[0]]
    found: list[list[Tensor]] = [[] for _ in range(collected)]
    for step in range(steps):
        slices = []
        for tensor, axis, backwards in zip(scanned, axes_in, backwards_in, strict=True):
            at = steps - 1 - step if backwards else step
            slices.append(_slice(tensor, axis, at))
        body.graph_values.update(outer.graph_values)
        body._python_const_cache.clear()  # tinygrad keeps what a name was once
        made = body(dict(zip(body.graph_inputs, [*states, *slices], strict=True)))
        left = [made[name] for name in body.graph_outputs]  # one may be there twice
        states = [tensor.contiguous() for tensor in left[: len(states)]]
        for seen, tensor in zip(found, left[len(states) :], strict=True):
            seen.append(tensor)
    scanned = [
        stacked(seen[::-1] if backwards else seen, axis)
        for seen, axis, backwards in zip(found, axes_out, backwards_out, strict=True)
    ]
    return (*states, *scanned)


def _each(options: dict[str, Any], name: str, count: int) -> Sequence[int]:
    return [int(value) for value in options.get(name) or [0] * count]


def _slice(tensor: Tensor, axis: int, at: int) -> Tensor:
    axis %= tensor.ndim
    return tensor[(*(slice(None),) * axis, at)]
