# SPDX-License-Identifier: BSD-2-Clause
"""Sigmoids at a network's end for the reference, in double precision.

ONNX Runtime's own are a quotient of polynomials in float32 (mlas/lib/logistic.cpp), off by up to 8e-8 whatever
their value: of a wake word or a detector that hears and sees nothing that is a tenth, and 0 in place of 1e-8. Its
sigmoid in double precision is off by 1e-3 near 1e-13.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import onnx
from onnx import TensorProto, helper

from host_tools.record.onnx_messages import put_nodes

ONE = "exact/one"


def exact(data: bytes, outputs: Collection[str], moves: Collection[str]) -> bytes:
    """A network's file with exact sigmoids where outputs are made of them.

    Args:
        data: the file.
        outputs: that have sigmoids' values only, moved or not.
        moves: operators that only move values.
    """
    network = onnx.load_model_from_string(data)
    wanted = set(outputs)
    nodes = []
    for node in reversed(network.graph.node):
        is_wanted = bool(wanted.intersection(node.output))
        if is_wanted and node.op_type in moves:
            wanted.update(node.input if node.op_type == "Concat" else node.input[:1])
        if not is_wanted or node.op_type != "Sigmoid":
            nodes.append(node)
            continue
        name = node.output[0]
        double, minus, power, sum_, exact_ = (
            f"{name}/{what}" for what in ("double", "minus", "power", "sum", "exact")
        )
        nodes += [
            helper.make_node("Cast", [exact_], [name], to=TensorProto.FLOAT),
            helper.make_node("Reciprocal", [sum_], [exact_]),
            helper.make_node("Add", [power, ONE], [sum_]),
            helper.make_node("Exp", [minus], [power]),
            helper.make_node("Neg", [double], [minus]),
            helper.make_node("Cast", [node.input[0]], [double], to=TensorProto.DOUBLE),
        ]
    network.graph.initializer.append(onnx.numpy_helper.from_array(np.array(1.0), ONE))
    put_nodes(network.graph, reversed(nodes))
    return bytes(network.SerializeToString())
