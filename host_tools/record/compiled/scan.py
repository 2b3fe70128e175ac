# SPDX-License-Identifier: BSD-2-Clause
"""ONNX's Scan and Loop, one step after the other: the number of steps is known, a Loop's by constants. What
TensorFlow's exporter makes of a recurrent layer counts its own steps, and compares them with the sequence's.

Source: the operators' text in ONNX's documentation, docs/Operators.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from tinygrad import Tensor, dtypes
from tinygrad.nn.onnx import OnnxRunner
from tinygrad.uop.ops import Ops

from host_tools.record.compiled.pieces import stacked

MOST = 4_096  # steps; each is compiled


class LoopError(NotImplementedError):
    """A loop whose number of steps is not known."""


def within(outer: OnnxRunner) -> dict[str, Callable[..., tuple[Tensor, ...]]]:
    """ONNX's Scan from opset 9 on, and Loop, in a graph whose values their bodies may use."""

    def scan(*inputs: Tensor, body: OnnxRunner, num_scan_inputs: int, **options: Any) -> tuple[Tensor, ...]:
        return _scan(outer, inputs, body, num_scan_inputs, options)

    def loop(*inputs: Tensor, body: OnnxRunner) -> tuple[Tensor, ...]:
        return _loop(outer, inputs, body)

    return {"Scan": scan, "Loop": loop}  # tinygrad takes functions only, no partial ones


def _loop(outer: OnnxRunner, inputs: Sequence[Tensor | None], body: OnnxRunner) -> tuple[Tensor, ...]:
    """The last states, then what was collected, of a loop that the network's inputs have no say in the end of."""
    trips, condition, *states = inputs
    _, passed, *_ = body.graph_inputs
    goes_on, *names = body.graph_outputs
    same = goes_on == passed or any(
        node.op == "Identity" and node.inputs[0] == passed and goes_on in node.outputs for node in body.graph_nodes
    )
    steps = MOST + 1 if trips is None else _known(outer, trips)
    going = condition is None or _known(outer, condition)
    found: list[list[Tensor]] = [[] for _ in names[len(states) :]]
    if found and not (steps and going):
        raise LoopError("Loop of no steps, whose results have no elements")
    step = 0
    while going and step < steps:
        if step == MOST:
            raise LoopError(f"Loop of more than {MOST} steps")
        condition, *left = _step(outer, body, [Tensor(step, dtype=dtypes.int64), Tensor(True), *states])
        going = same or _known(outer, condition)
        states = [tensor.contiguous() for tensor in left[: len(states)]]
        for seen, tensor in zip(found, left[len(states) :], strict=True):
            seen.append(tensor)
        step += 1
    return (*states, *(stacked(seen) for seen in found))


def _known(outer: OnnxRunner, value: Tensor) -> int:
    """A number that is computed of constants.

    Raises:
        LoopError: an input has a part in it, or what only a replay computes.
    """
    given = {outer.graph_values[name].uop.base for name in outer.graph_inputs}
    for op in value.uop.toposort():
        if op in given or (op.op is Ops.BUFFER and not op.buffer.is_allocated()):
            raise LoopError("Loop that ends by what it computes")
    return int(value.clone(os.environ["DEV"]).item())


def _step(outer: OnnxRunner, body: OnnxRunner, inputs: Sequence[Tensor]) -> list[Tensor]:
    """The body's outputs; one may be there twice."""
    body.onnx_ops = outer.onnx_ops
    own = [body.graph_values.get(name) for name in body.const_names]
    body.graph_values.update(outer.graph_values)
    for value in (*own, *(value for node in body.graph_nodes for value in node.opts.values())):
        if isinstance(value, Tensor):
            value.realize()
    body._python_const_cache.clear()  # tinygrad keeps what a name was once
    made = body(dict(zip(body.graph_inputs, inputs, strict=True)))
    return [made[name] for name in body.graph_outputs]


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
        left = _step(outer, body, [*states, *slices])
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
