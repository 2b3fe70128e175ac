# SPDX-License-Identifier: BSD-2-Clause
"""LinearClassifier and LinearRegressor of ai.onnx.ml.

Source: the operators' text in ONNX's documentation, docs/Operators-ml.md; what it leaves open, ONNX Runtime's
core/providers/cpu/ml/linearclassifier.cc.
"""

from __future__ import annotations

import numpy as np

from host_tools.record.onnx_graph import Graph, Name
from host_tools.record.rewriting import scores
from host_tools.record.rewriting.node import Node, as_float


def _product(graph: Graph, node: Node, rows: int) -> Name:
    """What each row of coefficients makes of each row of the input."""
    coefficients = node.floats("coefficients").reshape(rows, -1)
    made = graph.node("MatMul", as_float(graph, node.inputs[0]), graph.constant(coefficients.T))
    if len(intercepts := node.floats("intercepts")):
        made = graph.node("Add", made, graph.constant(intercepts))
    return made


def regressor(graph: Graph, node: Node) -> list[Name]:
    """LinearRegressor: a column a target."""
    count = int(node.number("targets", 1))
    made = _product(graph, node, count)
    return [scores.transformed(graph, made, node.text("post_transform", scores.NONE), count)]


def classifier(graph: Graph, node: Node) -> list[Name]:
    """LinearClassifier: labels, and a column of scores a class."""
    labels = node.integers("classlabels_ints")
    count = len(node.floats("intercepts")) or len(labels)
    made = _product(graph, node, count)
    how = node.text("post_transform", scores.NONE)
    if count == 1:
        both = (int(labels[0]), int(labels[1])) if len(labels) == 2 else (0, 1)
        label = scores.label_above(graph, made, 0, both)
        return [label, scores.pair(graph, made, how, is_likely=True) if len(labels) == 2 else made]
    return [
        scores.label_of_best(graph, made, labels if len(labels) else np.arange(count)),
        scores.transformed(graph, made, how, count),
    ]
