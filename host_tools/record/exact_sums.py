# SPDX-License-Identifier: BSD-2-Clause
"""DynamicQuantizeLSTM for the reference, by operators that ONNX Runtime computes without error.

On some processors without VNNI its own kernel adds pairs of products of 8 bits in 16 bits, which overflow, and no
setting changes that: a network with weights of 127 steps was off by 0.39 of its largest value, on another
processor by nothing. What the operator is said to compute (docs/ContribOperators.md) are sums of whole numbers,
which float64 holds.
"""

from __future__ import annotations

from typing import Any

import onnx
from onnx import TensorProto, helper

from host_tools.record.onnx_graph import Graph, Name
from host_tools.record.onnx_messages import put_nodes

KIND, DOMAIN = "DynamicQuantizeLSTM", "com.microsoft"
AXES_AS_INPUT = 13  # of Unsqueeze, from this set of operators on
_USUAL = ("Sigmoid", "Tanh", "Tanh")
_MISSING = (4, 7)  # inputs that exporters leave out: lengths of sequences, and peepholes


def exact(data: bytes, nudge: float = 0.0) -> bytes:
    """A network's file with exact sums in place of each such operator, but where it has lengths, peepholes, a
    clip, other activations or another layout.

    Args:
        data: the file.
        nudge: by how much of it each state is moved, after each step.
    """
    network = onnx.load_model_from_string(data)
    graph = network.graph
    if not any(_is_taken(node) for node in graph.node):
        return data
    opset = next(item.version for item in network.opset_import if item.domain in ("", "ai.onnx"))
    made, nodes = Graph("exact/"), []
    for node in graph.node:
        if not _is_taken(node):
            nodes.append(node)
            continue
        results = _Layer(made, node, opset, nudge).results()
        nodes += made.nodes
        made.nodes.clear()
        pairs = zip(results, node.output, strict=False)
        nodes += [helper.make_node("Identity", [ours], [theirs]) for ours, theirs in pairs if theirs]
    put_nodes(graph, nodes)
    graph.initializer.extend(made.constants)
    return bytes(network.SerializeToString())


def _attributes(node: Any) -> dict[str, Any]:
    return {item.name: helper.get_attribute_value(item) for item in node.attribute}


def _is_taken(node: Any) -> bool:
    if (node.domain, node.op_type) != (DOMAIN, KIND):
        return False
    given = _attributes(node)
    kinds = [kind.decode() for kind in given.get("activations", [])]
    plain = not given.get("clip") and not given.get("input_forget") and not given.get("layout")
    return (
        plain
        and kinds in ([], [*_USUAL], [*_USUAL] * 2)
        and not any(at < len(node.input) and node.input[at] for at in _MISSING)
    )


class _Layer:
    """One operator: nodes outside of its loop go to `graph`."""

    def __init__(self, graph: Graph, node: Any, opset: int, nudge: float) -> None:
        self._graph, self._opset, self._nudge = graph, opset, nudge
        self._names = [*node.input, *[""] * (12 - len(node.input))]
        given = _attributes(node)
        self._hidden = int(given["hidden_size"])
        way = given.get("direction", b"forward").decode()
        self._backwards = {"forward": [0], "reverse": [1], "bidirectional": [0, 1]}[way]

    def results(self) -> list[Name]:
        """Y, Y_h, Y_c."""
        each = [self._direction(d, backwards) for d, backwards in enumerate(self._backwards)]
        return [self._stacked([made[at] for made in each], axis) for at, axis in ((2, 1), (0, 0), (1, 0))]

    def _stacked(self, names: list[Name], axis: int) -> Name:
        graph = self._graph
        if self._opset < AXES_AS_INPUT:
            parts = [graph.node("Unsqueeze", name, axes=[axis]) for name in names]
        else:
            parts = [graph.node("Unsqueeze", name, graph.constant([axis])) for name in names]
        return graph.node("Concat", *parts, axis=axis)

    def _of(self, at: int, d: int) -> Name:
        """A direction's part of an input."""
        return self._graph.node("Gather", self._names[at], self._graph.of(d, "int64"), axis=0)

    def _weights(self, at: int, scale: int, d: int) -> tuple[Name, Name]:
        """Whole numbers as float64, and the step that each column is of."""
        whole, zero = (_double(self._graph, self._of(number, d)) for number in (at, scale + 1))
        return self._graph.node("Sub", whole, zero), self._of(scale, d)

    def _direction(self, d: int, backwards: int) -> list[Name]:
        """Its last state, last cell, and all states."""
        graph, size = self._graph, self._hidden
        fed = _product(graph, self._names[0], *self._weights(1, 8, d))
        state = None
        if self._names[3]:
            bias = self._of(3, d)
            fed = graph.node("Add", fed, _part(graph, bias, 0, 4 * size))
            state = _part(graph, bias, 4 * size, 8 * size)
        first = [self._of(at, d) if self._names[at] else self._zeros() for at in (5, 6)]
        body = self._step(self._weights(2, 10, d), state)
        ways = {"scan_input_directions": [backwards], "scan_output_directions": [backwards]}
        return graph.nodes_of("Scan", 3, *first, fed, body=body, num_scan_inputs=1, **ways)

    def _zeros(self) -> Name:
        graph = self._graph
        batch = graph.node("Gather", graph.node("Shape", self._names[0]), graph.constant([1]), axis=0)
        size = graph.node("Concat", batch, graph.constant([self._hidden]), axis=0)
        return graph.node("ConstantOfShape", size)

    def _step(self, weights: tuple[Name, Name], bias: Name | None) -> Any:
        """The loop's body: a state, a cell and what the input feeds, to the next ones. Constants stand outside."""
        body, size = Graph(self._graph.name("step") + "/"), self._hidden
        h, c, fed = body.name("h"), body.name("c"), body.name("fed")
        gates = body.node("Add", fed, _product(body, h, *weights))
        if bias:
            gates = body.node("Add", gates, bias)
        i, o, f, g = (_part(body, gates, at * size, (at + 1) * size) for at in range(4))
        kept = body.node("Mul", body.node("Sigmoid", f), c)
        cell = body.node("Add", kept, body.node("Mul", body.node("Sigmoid", i), body.node("Tanh", g)))
        state = body.node("Mul", body.node("Sigmoid", o), body.node("Tanh", cell))
        if self._nudge:
            state = body.node("Mul", state, body.of(1 + self._nudge, "float32"))
        seen = body.node("Identity", state)
        self._graph.constants += body.constants
        values = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in (h, c, fed)}
        ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in (state, cell, seen)]
        return helper.make_graph(body.nodes, "step", list(values.values()), ends)


def _double(graph: Graph, name: Name) -> Name:
    return graph.node("Cast", name, to=TensorProto.DOUBLE)


def _part(graph: Graph, name: Name, begin: int, end: int) -> Name:
    """Some columns."""
    return graph.node("Slice", name, *(graph.constant([at]) for at in (begin, end, -1)))


def _product(graph: Graph, x: Name, whole: Name, step: Name) -> Name:
    """What is rounded to 8 bits by its own range, times whole numbers of a step."""
    rounded, own, zero = graph.nodes_of("DynamicQuantizeLinear", 3, x)
    centred = graph.node("Sub", _double(graph, rounded), _double(graph, zero))
    sums = graph.node("Cast", graph.node("MatMul", centred, whole), to=TensorProto.FLOAT)
    return graph.node("Mul", sums, graph.node("Mul", own, step))
