# SPDX-License-Identifier: BSD-2-Clause
"""A TensorFlow Lite file as an ONNX network: inputs and outputs keep the names of the file's signature."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import onnx

from host_tools.extras.tflite import arithmetic, control, layers, shapes
from host_tools.extras.tflite.file import COMPLEX, Subgraph, Value
from host_tools.extras.tflite.graph import TABLE, Build
from host_tools.record.onnx_graph import OPSET, Graph, Name, kind_of
from host_tools.record.preflight import NetworkError
from trace_format.errors import printable

ROOMS = (arithmetic, control, layers, shapes)  # which fill TABLE
NEXT = "_next"  # behind a variable's name: what it is after the run


@dataclass(frozen=True)
class Converted:
    """ONNX's message of a file, and what belongs to it.

    Attributes:
        model: the ModelProto.
        first: input that is a variable -> its first value.
        states: input that is a variable -> output with what it is after the run.
        reads: the same input -> number of the value that it is read as.
        cuts: of a graph that is cut: number of a value -> input that stands for it.
        probes: number of a value -> output with what the operator made of such inputs.
    """

    model: Any
    first: Mapping[str, Any]
    states: Mapping[str, str]
    reads: Mapping[str, int]
    cuts: Mapping[int, Name]
    probes: Mapping[int, Name]


def converted(graphs: tuple[Subgraph, ...], cut: bool = False) -> Converted:
    """Translate a file's first subgraph.

    Args:
        graphs: from `file.read`.
        cut: make each operator that rounds read what a caller gives for the roundings before it.

    Raises:
        NetworkError: operators have no translation, all of which are named, or one is damaged.
    """
    _check_known(graphs)
    graph, b = graphs[0], Build(Graph(), graphs, cut=cut)
    for number in graph.inputs.values():
        b.put_stored(number, b.g.name("input"), cut=False)
    control.translate(b)
    inputs = [_named_input(b, name, number) for name, number in graph.inputs.items()]
    outputs = [_output(b, name, b.stored(at), graph.values[at]) for name, at in graph.outputs.items()]
    states, first = {}, {}
    for name, (source, number) in b.states.items():
        inputs.append(_input(b, name, source, graph.values[number]))
        outputs.append(_output(b, name + NEXT, b.variables[name], graph.values[number]))
        states[name] = name + NEXT
        if name in b.first and b.first[name].constant is not None:
            first[name] = b.first[name].constant
    for number, name in b.cuts.items():
        inputs.append(_info(name, graph.values[number]))
        outputs.append(_info(b.probes[number], graph.values[number]))
    made = onnx.helper.make_graph(b.g.nodes, "tflite", inputs, outputs, b.g.constants)
    model = onnx.helper.make_model(made, opset_imports=[onnx.helper.make_opsetid("", OPSET)], ir_version=10)
    reads = {name: number for name, (_, number) in b.states.items()}
    return Converted(model, first, states, reads, b.cuts, b.probes)


def _check_known(graphs: tuple[Subgraph, ...]) -> None:
    unknown = sorted({operator.kind for graph in graphs for operator in graph.operators} - TABLE.keys())
    if unknown:
        names = ", ".join(map(printable, unknown))
        raise NetworkError(f"operators of TensorFlow Lite's that have no translation: {names}")


def _named_input(b: Build, name: str, number: int) -> Any:
    return _input(b, name, b.stored(number), b.graph.values[number])


def _input(b: Build, name: str, source: Name, value: Value) -> Any:
    b.g.nodes.insert(0, onnx.helper.make_node("Identity", [name], [source], f"{name}/input"))
    return _info(name, value)


def _output(b: Build, name: str, made: Name, value: Value) -> Any:
    b.g.nodes.append(onnx.helper.make_node("Identity", [made], [name], name))
    return _info(name, value)


def _info(name: str, value: Value) -> Any:
    if value.dtype == COMPLEX:
        raise NetworkError(f"{printable(name)} is of complex numbers, which slots have not")
    return onnx.helper.make_tensor_value_info(name, kind_of(value.dtype), value.shape)
