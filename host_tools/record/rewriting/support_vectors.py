# SPDX-License-Identifier: BSD-2-Clause
"""SVMRegressor and SVMClassifier of ai.onnx.ml: sums over kernels of support vectors.

Source: the operator's text in ONNX's documentation, docs/Operators-ml.md; what it leaves open, ONNX Runtime's
core/providers/cpu/ml/svmregressor.cc and svmclassifier.cc.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from host_tools.record.onnx_graph import Graph, Name
from host_tools.record.preflight import NetworkError
from host_tools.record.rewriting import scores
from host_tools.record.rewriting.coupling import probabilities
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


def classifier(graph: Graph, node: Node) -> list[Name]:
    """SVMClassifier: labels, and a column of scores a pair of classes; a class, where these are probabilities, or
    there are no support vectors.

    Raises:
        NetworkError: its attributes do not fit together.
    """
    labels, how = node.integers("classlabels_ints"), node.text("post_transform", scores.NONE)
    if np.sum(node.integers("vectors_per_class")):
        return _pairs(graph, node, labels, how)
    coefficients, rho = node.floats("coefficients"), node.floats("rho")
    product = graph.node(
        "MatMul", as_float(graph, node.inputs[0]), graph.constant(coefficients.reshape(len(labels), -1).T)
    )
    made = graph.node("Add", product, graph.of(rho[0], "float32"))
    label = scores.label_of_best(graph, made, labels)
    # ONNX Runtime, without probabilities: the second label if either score is large enough.
    if len(labels) == 2 and not len(node.floats("prob_a")):
        largest = graph.node("ReduceMax", made, axes=[-1], keepdims=0)
        compare, bound = ("GreaterOrEqual", 0.5) if np.all(coefficients >= 0) else ("Greater", 0)
        above = graph.node(compare, largest, graph.of(bound, "float32"))
        label = graph.node("Where", above, graph.constant([labels[1]]), label)
    return [label, scores.transformed(graph, made, how, len(labels))]


def _pairs(graph: Graph, node: Node, labels: NDArray[np.int64], how: str) -> list[Name]:
    """Each pair of classes has a score, whose sign is a vote."""
    sizes, rho = node.integers("vectors_per_class"), node.floats("rho")
    pairs = list(combinations(range(len(labels)), 2))
    if len(sizes) != len(labels) or len(rho) != len(pairs) or not pairs:
        raise NetworkError(
            f"{node.kind} of {len(labels)} labels: expected as many vectors_per_class and {len(pairs) or 1} rho, "
            f"found {len(sizes)} and {len(rho)}"
        )
    coefficients = node.floats("coefficients").reshape(len(labels) - 1, -1)
    of_class = np.repeat(np.arange(len(labels)), sizes)
    weights = np.zeros((len(of_class), len(pairs)), np.float32)
    votes = np.zeros((2, len(pairs), len(labels)), np.float32)
    for at, (first, second) in enumerate(pairs):
        weights[of_class == first, at] = coefficients[second - 1, of_class == first]
        weights[of_class == second, at] = coefficients[first, of_class == second]
        votes[0, at, first] = votes[1, at, second] = 1
    vectors = node.floats("support_vectors").reshape(len(of_class), -1)
    of_each = _kernel(graph, node, as_float(graph, node.inputs[0]), vectors)
    made = graph.node("Add", graph.node("MatMul", of_each, graph.constant(weights)), graph.constant(rho))
    above = graph.node("Cast", graph.node("Greater", made, graph.of(0, "float32")), to=TensorProto.FLOAT)
    for_first = graph.node("MatMul", above, graph.constant(votes[0] - votes[1]))
    label = scores.label_of_best(graph, graph.node("Add", for_first, graph.constant(votes[1].sum(0))), labels)
    slope, offset = node.floats("prob_a"), node.floats("prob_b")
    if len(slope):
        if len(slope) != len(pairs) or len(offset) != len(pairs):
            raise NetworkError(
                f"{node.kind} of {len(labels)} labels: expected {len(pairs)} prob_a and as many prob_b, found "
                f"{len(slope)} and {len(offset)}"
            )
        made = probabilities(graph, made, slope, offset, len(labels))
        return [label, scores.transformed(graph, made, how, len(labels))]
    if len(pairs) > 1:
        return [label, scores.transformed(graph, made, how, len(pairs))]
    if how == scores.PROBIT:
        raise NetworkError(
            f"{node.kind} of two labels with PROBIT, of which ONNX Runtime leaves a score undefined"
        )
    return [label, scores.pair(graph, made, how, is_likely=how != scores.NONE)]
