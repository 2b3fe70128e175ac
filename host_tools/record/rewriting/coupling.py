# SPDX-License-Identifier: BSD-2-Clause
"""Probabilities of classes from those of pairs of classes: SVMClassifier's prob_a and prob_b.

The method is the second one of Wu, Lin and Weng, Probability Estimates for Multi-class Classification by Pairwise
Coupling (2004): what is least is p Q p. Its steps are those of ONNX Runtime, core/providers/cpu/ml/ml_common.h,
`multiclass_probability`.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from host_tools.record.onnx_graph import Graph, Name

SURE = 1e-7  # no probability of a pair is nearer to 0 or 1
# ONNX Runtime stops when no class is off by NEAR divided by their number, or after 100 steps. 60,000 random
# matrices of 2 to 10 classes, and the worst that a search found, took 4 steps at most.
NEAR, STEPS = 0.005, 6


def probabilities(
    graph: Graph, made: Name, slope: NDArray[np.float32], offset: NDArray[np.float32], count: int
) -> Name:
    """A column of probabilities for each class.

    Args:
        graph: what the nodes are added to.
        made: scores, a column for each pair of classes.
        slope, offset: for each pair, of the logistic function that makes a probability of a score.
        count: of classes.
    """
    score = graph.node("Add", graph.node("Mul", made, graph.constant(slope)), graph.constant(offset))
    likely = graph.node("Sigmoid", graph.node("Neg", score))
    likely = graph.node("Clip", likely, _number(graph, SURE), _number(graph, 1 - SURE))
    wins = _of_pairs(graph, likely, count)
    losses = graph.node("Transpose", wins, perm=[0, 2, 1])
    squares = graph.node("ReduceSum", graph.node("Mul", losses, losses), graph.constant([2]), keepdims=1)
    diagonal = graph.node("Mul", squares, graph.constant(np.eye(count, dtype=np.float32)))
    q = graph.node("Sub", diagonal, graph.node("Mul", wins, losses))
    p = graph.constant(np.full((1, 1, count), 1 / count, np.float32))
    for _ in range(STEPS):
        p = _step(graph, q, p, count)
    return graph.reshaped(p, (-1, count))


def _number(graph: Graph, value: float) -> Name:
    return graph.of(value, "float32")


def _of_pairs(graph: Graph, likely: Name, count: int) -> Name:
    """A matrix for each row: how likely its first class is, of it and the second one; 0 for one and itself."""
    pairs = list(combinations(range(count), 2))
    signs, ones = np.zeros((len(pairs), count, count), np.float32), np.zeros((count, count), np.float32)
    for at, (first, second) in enumerate(pairs):
        signs[at, first, second], signs[at, second, first], ones[second, first] = 1, -1, 1
    flat = graph.node("MatMul", likely, graph.constant(signs.reshape(len(pairs), -1)))
    return graph.reshaped(graph.node("Add", flat, graph.constant(ones.reshape(-1))), (-1, count, count))


def _step(graph: Graph, q: Name, p: Name, count: int) -> Name:
    """Each class's probability once as the others want it; as it was, where that is near enough."""
    one, two = _number(graph, 1), _number(graph, 2)
    moved, wanted = p, graph.node("MatMul", p, q)
    both = graph.node("ReduceSum", graph.node("Mul", p, wanted), graph.constant([2]), keepdims=1)
    off = graph.node("ReduceMax", graph.node("Abs", graph.node("Sub", wanted, both)), axes=[2], keepdims=1)
    for at in range(count):
        row = graph.node("Gather", q, graph.constant([at]), axis=1)
        own, seen = (graph.node("Gather", of, graph.constant([at]), axis=2) for of in (row, wanted))
        more = graph.node("Div", graph.node("Sub", both, seen), own)
        whole = graph.node("Add", one, more)
        place = graph.constant(np.eye(count, dtype=np.float32)[at])
        moved = graph.node("Div", graph.node("Add", moved, graph.node("Mul", more, place)), whole)
        change = graph.node("Add", graph.node("Mul", more, own), graph.node("Mul", two, seen))
        both = graph.node("Add", both, graph.node("Mul", more, change))
        both = graph.node("Div", graph.node("Div", both, whole), whole)
        wanted = graph.node("Div", graph.node("Add", wanted, graph.node("Mul", more, row)), whole)
    is_near = graph.node("Less", off, _number(graph, NEAR / count))
    return graph.node("Where", is_near, p, moved)
