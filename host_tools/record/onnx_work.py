# SPDX-License-Identifier: BSD-2-Clause
"""How much an ONNX network multiplies: what a recording's time depends on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import onnx

from host_tools.support import contained

# Operator -> which inputs are what is filtered and the weights.
FILTERS = {"Conv": (0, 1), "ConvInteger": (0, 1), "ConvTranspose": (0, 1), "QLinearConv": (0, 3)}
PRODUCTS = {"Gemm": (0, 1), "MatMul": (0, 1), "MatMulInteger": (0, 1), "QLinearMatMul": (0, 3)}
RECURRENT = ("GRU", "LSTM", "RNN", "DynamicQuantizeLSTM")
Shapes = Mapping[str, tuple[int, ...]]


def macs(data: bytes) -> int:
    """Multiplications with additions of the convolutions, products and recurrent layers, where shapes are known.

    Args:
        data: a network with fixed shapes.
    """
    return contained.call("ONNX's shape inference", lambda: _macs(data), int)


def _macs(data: bytes) -> int:
    network = onnx.shape_inference.infer_shapes(onnx.load_model_from_string(data))
    graph = network.graph
    known = {item.name: tuple(item.dims) for item in graph.initializer}
    for item in (*graph.input, *graph.value_info, *graph.output):
        known[item.name] = tuple(size.dim_value for size in item.type.tensor_type.shape.dim)
    return sum(_of(node, known) for node in graph.node)


def _of(node: Any, known: Shapes) -> int:
    if node.op_type in FILTERS:
        x, weights = (known.get(node.input[at], ()) for at in FILTERS[node.op_type])
        places = x if node.op_type == "ConvTranspose" else known.get(node.output[0], ())
        return math.prod(weights) * math.prod(places[2:]) * (places[0] if places else 0)
    if node.op_type in PRODUCTS:
        x = known.get(node.input[PRODUCTS[node.op_type][0]], ())
        is_turned = any(item.name == "transA" and item.i for item in node.attribute)
        return math.prod(known.get(node.output[0], ())) * (x[0 if is_turned else -1] if x else 0)
    if node.op_type in RECURRENT:
        steps = known.get(node.input[0], ())[:2]
        return math.prod(steps) * sum(math.prod(known.get(name, ())) for name in node.input[1:3])
    return 0
