# SPDX-License-Identifier: BSD-2-Clause
"""TreeEnsembleClassifier, TreeEnsembleRegressor and TreeEnsemble of ai.onnx.ml, as tables to look up.

All trees of all rows go down side by side, a level at a time, by the same few loads: a leaf leads to itself, so
that no thread branches (`compiled/lookup.py`). What each tree arrives at is then looked up and added.

Source: the operators' text in ONNX's documentation, docs/Operators-ml.md; what it leaves open, ONNX Runtime's
core/providers/cpu/ml/tree_ensemble_aggregator.h.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from host_tools.record.onnx_graph import Graph, Name
from host_tools.record.preflight import NetworkError
from host_tools.record.rewriting import scores
from host_tools.record.rewriting.forests import Forest, classic, newer
from host_tools.record.rewriting.node import Node, as_float

AGGREGATES = ("SUM", "AVERAGE", "MIN", "MAX")
POST_TRANSFORMS = (
    scores.NONE,
    "SOFTMAX",
    scores.LOGISTIC,
    "SOFTMAX_ZERO",
    scores.PROBIT,
)  # TreeEnsemble's numbers


@dataclass(frozen=True)
class _Votes:
    """What nodes add to which column: each tree has a few places for columns of its own.

    Attributes:
        weights: a row a node, a column a place.
        columns: a row a tree: the column of the result that each place is, -1 for none.
    """

    weights: NDArray[np.float32]
    columns: NDArray[np.int64]


def _votes(forest: Forest) -> _Votes:
    nodes, targets = forest.voters, forest.targets
    trees = forest.tree_of[nodes]
    pairs = np.unique(np.stack([trees, targets], 1), axis=0)
    first = np.searchsorted(pairs[:, 0], np.arange(len(forest.roots)))
    place = np.arange(len(pairs)) - first[pairs[:, 0]]
    wide = int(place.max(initial=0)) + 1
    columns = np.full((len(forest.roots), wide), -1, np.int64)
    columns[pairs[:, 0], place] = pairs[:, 1]
    most = int(targets.max(initial=0)) + 1
    order = np.searchsorted(pairs[:, 0] * most + pairs[:, 1], trees * most + targets)
    weights = np.zeros((len(forest.words), wide), np.float32)
    np.add.at(weights, (nodes, place[order]), forest.weights)
    return _Votes(weights, columns)


def _sums(graph: Graph, x: Name, forest: Forest, count: int, how: str) -> Name:
    """What all trees say of each row: a column a target.

    Args:
        graph: what the nodes are added to.
        x: a table of float32.
        forest: the trees.
        count: of targets.
        how: of AGGREGATES.
    """
    if how not in AGGREGATES:
        raise NetworkError(f"aggregate_function {how}, which is none of {', '.join(AGGREGATES)}")
    tables = (forest.words, forest.thresholds, forest.children.reshape(-1), forest.roots.astype(np.int32))
    votes = _votes(forest)
    constants = [graph.constant(table) for table in (*tables, votes.weights)]
    said = graph.node("TreeVotes", x, *constants, levels=forest.levels)  # rows, trees, places
    trees, wide = votes.columns.shape
    flat = graph.reshaped(said, (-1, trees * wide))
    hits = votes.columns.reshape(-1, 1) == np.arange(count)
    if how in ("SUM", "AVERAGE"):
        scale = np.float32(1 / trees if how == "AVERAGE" else 1)
        return graph.node("MatMul", flat, graph.constant(hits.astype(np.float32) * scale))
    none = np.float32(np.inf if how == "MIN" else -np.inf)
    each = graph.node("Unsqueeze", flat, graph.constant([-1]))
    of = graph.node("Where", graph.constant(hits), each, graph.constant(np.array(none)))
    return graph.node("ReduceMin" if how == "MIN" else "ReduceMax", of, axes=[1], keepdims=0)


def regressor(graph: Graph, node: Node) -> list[Name]:
    """TreeEnsembleRegressor: a column a target."""
    count = int(node.number("n_targets", 1))
    how = node.text("aggregate_function", "SUM")
    base = node.floats("base_values")
    forest = classic(node, "target")
    if len(base) and count > 1:
        _check_always_voted(forest, np.arange(count))
    made = _sums(graph, as_float(graph, node.inputs[0]), forest, count, how)
    if len(base):
        made = graph.node("Add", made, graph.constant(base))
    return [scores.transformed(graph, made, node.text("post_transform", scores.NONE), count)]


def ensemble(graph: Graph, node: Node) -> list[Name]:
    """TreeEnsemble, which took the place of both others in version 5."""
    count = int(node.number("n_targets", 1))
    how = AGGREGATES[[1, 0, 2, 3][int(node.number("aggregate_function", 1))]]
    made = _sums(graph, as_float(graph, node.inputs[0]), newer(node), count, how)
    return [scores.transformed(graph, made, POST_TRANSFORMS[int(node.number("post_transform", 0))], count)]


def classifier(graph: Graph, node: Node) -> list[Name]:
    """TreeEnsembleClassifier: labels, and a column of scores a class.

    Raises:
        NetworkError: ONNX Runtime's result depends on which classes a row's leaves vote for, besides their votes.
    """
    labels, base = node.integers("classlabels_int64s"), node.floats("base_values")
    forest = classic(node, "class")
    x = as_float(graph, node.inputs[0])
    if len(labels) == 2:
        return _of_two(graph, node, x, forest)
    made = _sums(graph, x, forest, len(labels), "SUM")
    if len(base):
        made = graph.node("Add", made, graph.constant(base))
    elif np.any(forest.weights < 0):
        _check_always_voted(forest, np.unique(forest.targets))
    voted = np.isin(np.arange(len(labels)), forest.targets) | bool(len(base))
    among = made
    if not voted.all():  # a class without a vote has the score 0, and is never the best
        among = graph.node("Where", graph.constant(voted), made, graph.constant(np.array(-np.inf, np.float32)))
    how = node.text("post_transform", scores.NONE)
    return [
        scores.label_of_best(graph, among, labels),
        scores.transformed(graph, made, how, len(labels)),
    ]


def _of_two(graph: Graph, node: Node, x: Name, forest: Forest) -> list[Name]:
    """Two classes: where all leaves vote for one, its score says both. Else ONNX Runtime's label is 1 or 0."""
    labels, base = node.integers("classlabels_int64s"), node.floats("base_values")
    how = node.text("post_transform", scores.NONE)
    voted = np.unique(forest.targets)
    pair = (int(labels[0]), int(labels[1]))
    if len(base) > 1 or (len(base) and voted.tolist() != [0]):
        raise NetworkError("base_values of two classes, of which ONNX Runtime makes something of its own")
    if len(voted) == 2:
        _check_always_voted(forest, voted[1:])
        made = _sums(graph, x, forest, 2, "SUM")
        second = graph.node("Gather", made, graph.constant([1]), axis=-1)
        return [scores.label_above(graph, second, 0, (0, 1)), scores.transformed(graph, made, how, 2)]
    made = _sums(graph, x, forest.only_target(), 1, "SUM")
    if len(base):
        made = graph.node("Add", made, graph.constant(base[-1:]))
    is_likely = bool(np.all(forest.weights >= 0)) and not np.any(base < 0)
    label = scores.label_above(graph, made, 0.5 if is_likely else 0, pair)
    if voted[0] == 1:
        zero = graph.node("Mul", made, graph.constant(np.zeros(1, np.float32)))
        return [label, scores.transformed(graph, scores.two_columns(graph, zero, made), how, 2)]
    if how == scores.PROBIT:
        return [label, scores.transformed(graph, made, how, 1)]
    return [label, scores.pair(graph, made, how, is_likely)]


def _check_always_voted(forest: Forest, targets: NDArray[np.int64]) -> None:
    """NetworkError: rows may reach no leaf that votes for a target."""
    leaves = np.bincount(forest.tree_of[forest.leaves()], minlength=len(forest.roots))
    for target in targets:
        voters = np.unique(forest.voters[forest.targets == target])
        if not np.any(np.bincount(forest.tree_of[voters], minlength=len(leaves)) == leaves):
            raise NetworkError(
                f"target or class {target}: ONNX Runtime's result depends on which leaves vote for it"
            )
