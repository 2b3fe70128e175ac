# SPDX-License-Identifier: BSD-2-Clause
"""SVMRegressor of ai.onnx.ml: sums over kernels of support vectors.

Source: the operator's text in ONNX's documentation, docs/Operators-ml.md; what it leaves open, ONNX Runtime's
core/providers/cpu/ml/svmregressor.cc and svmclassifier.h.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from host_tools.record.onnx_graph import Graph, Name
from host_tools.record.preflight import NetworkError
from host_tools.record.rewriting.node import Node, as_float

LINEAR = "LINEAR"


def _kernel(graph: Graph, node: Node, x: Name, vectors: NDArray[np.float32]) -> Name:
    """Each row of x with each vector, by the node's kernel."""
    gamma, offset, degree = [*node.floats("kernel_params").tolist(), 0.0, 0.0, 0.0][:3]
    kind = node.text("kernel_type", LINEAR)
    product = graph.node("MatMul", x, graph.constant(vectors.T))
    if kind == LINEAR:
        return product
    if kind == "RBF":  # the square of a difference, by parts
        squares = graph.node("ReduceSum", graph.node("Mul", x, x), graph.constant([1]), keepdims=1)
        both = graph.node("Add", squares, graph.constant((vectors**2).sum(1)))
        apart = graph.node("Sub", both, graph.node("Mul", product, graph.of(2, "float32")))
        return graph.node("Exp", graph.node("Mul", apart, graph.of(-gamma, "float32")))
    scaled = graph.node("Add", graph.node("Mul", product, graph.of(gamma, "float32")), graph.of(offset, "float32"))
    if kind == "POLY":
        return graph.node("Pow", scaled, graph.of(degree, "float32"))
    if kind == "SIGMOID":
        return graph.node("Tanh", scaled)
    raise NetworkError(f"{node.kind} with the kernel {kind}, which is none of LINEAR, POLY, RBF, SIGMOID")


def regressor(graph: Graph, node: Node) -> list[Name]:
    """SVMRegressor: a column of numbers, or of one class 1 and -1."""
    coefficients, count = node.floats("coefficients"), int(node.number("n_supports", 0))
    x, rho = as_float(graph, node.inputs[0]), graph.constant(node.floats("rho"))
    if count:
        of_each = _kernel(graph, node, x, node.floats("support_vectors").reshape(count, -1))
        made = graph.node("MatMul", of_each, graph.constant(coefficients.reshape(-1, 1)))
    else:
        made = _kernel(graph, node, x, coefficients.reshape(1, -1))
    made = graph.node("Add", made, rho)
    if node.number("one_class", 0):
        signs = (graph.of(value, "float32") for value in (1, -1))
        above = graph.node("Greater", made, graph.of(0, "float32"))
        made = graph.node("Where", above, *signs)
    return [made]
