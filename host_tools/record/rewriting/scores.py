# SPDX-License-Identifier: BSD-2-Clause
"""What the classifiers and regressors of ai.onnx.ml make of their scores: a transformation, and a label.

The operators' text leaves open what a classifier of one score answers. What ONNX Runtime does stands in its
core/providers/cpu/ml/ml_common.h, `write_scores`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from host_tools.record.onnx_graph import Graph, Name
from host_tools.record.preflight import NetworkError

NONE, LOGISTIC, PROBIT = "NONE", "LOGISTIC", "PROBIT"
SMALL = 1e-7  # SOFTMAX_ZERO takes what is nearer to 0 for 0
WINITZKI = 0.147  # of an approximation of the inverse error function, ml_common.h


def _number(graph: Graph, value: float) -> Name:
    return graph.constant(np.array(value, np.float32))


def _softmax(graph: Graph, scores: Name) -> Name:
    return graph.node("Softmax", scores, axis=-1)


def _softmax_zero(graph: Graph, scores: Name) -> Name:
    """Softmax over the scores that are not 0; these stay 0."""
    largest = graph.node("ReduceMax", scores, axes=[-1], keepdims=1)
    raised = graph.node("Exp", graph.node("Sub", scores, largest))
    scaled = graph.node("Mul", scores, graph.node("Exp", graph.node("Neg", largest)))
    counts = graph.node("Greater", graph.node("Abs", scores), _number(graph, SMALL))
    parts = graph.node("Where", counts, raised, scaled)
    return graph.node("Div", parts, graph.node("ReduceSum", parts, graph.constant([-1]), keepdims=1))


def _probit(graph: Graph, scores: Name) -> Name:
    """The inverse of the normal distribution, as ONNX Runtime approximates it."""
    x = graph.node("Sub", graph.node("Mul", scores, _number(graph, 2)), _number(graph, 1))
    square = graph.node("Sub", _number(graph, 1), graph.node("Mul", x, x))
    log = graph.node("Log", square)
    half = graph.node("Mul", log, _number(graph, 0.5))
    v = graph.node("Add", half, _number(graph, 2 / (np.pi * WINITZKI)))
    under = graph.node("Sub", graph.node("Mul", v, v), graph.node("Mul", log, _number(graph, 1 / WINITZKI)))
    root = graph.node("Sqrt", graph.node("Sub", graph.node("Sqrt", under), v))
    return graph.node("Mul", graph.node("Mul", graph.node("Sign", x), root), _number(graph, 2**0.5))


TRANSFORMS: dict[str, Callable[[Graph, Name], Name]] = {
    NONE: lambda _, scores: scores,
    LOGISTIC: lambda graph, scores: graph.node("Sigmoid", scores),
    "SOFTMAX": _softmax,
    "SOFTMAX_ZERO": _softmax_zero,
    PROBIT: _probit,
}


def transformed(graph: Graph, scores: Name, how: str, count: int) -> Name:
    """Scores after a transformation, of a row each; ONNX Runtime transforms a single score by PROBIT only.

    Args:
        graph: what the nodes are added to.
        scores: a table.
        how: of TRANSFORMS.
        count: its columns.

    Raises:
        NetworkError: the operators have no such transformation.
    """
    if how not in TRANSFORMS:
        raise NetworkError(f"post_transform {how}, which is none of {', '.join(TRANSFORMS)}")
    return TRANSFORMS[how if count > 1 or how == PROBIT else NONE](graph, scores)


def two_columns(graph: Graph, first: Name, second: Name) -> Name:
    """Two columns as a table."""
    return graph.node("Concat", first, second, axis=-1)


def pair(graph: Graph, score: Name, how: str, is_likely: bool) -> Name:
    """Both classes' scores, of one class's score s: 1 - s and s where it is a probability, else -s and s. The only
    transformation of such a pair is LOGISTIC."""
    negative = graph.node("Neg", score)
    if how == LOGISTIC:
        return transformed(graph, two_columns(graph, negative, score), how, 2)
    first = graph.node("Sub", _number(graph, 1), score) if is_likely else negative
    return two_columns(graph, first, score)


def label_of_best(graph: Graph, scores: Name, labels: NDArray[np.int64]) -> Name:
    """The label of each row's largest score, the first of equal ones."""
    best = graph.node("ArgMax", scores, axis=-1, keepdims=0)
    if np.array_equal(labels, np.arange(len(labels))):
        return best
    return graph.node("Gather", graph.constant(labels), best, axis=0)


def label_above(graph: Graph, score: Name, bound: float, labels: tuple[int, int]) -> Name:
    """The second label where a column is above a bound, else the first."""
    above = graph.node("Greater", score, _number(graph, bound))
    chosen = graph.node("Where", above, graph.constant([labels[1]]), graph.constant([labels[0]]))
    return graph.node("Reshape", chosen, graph.constant([-1]))
