# SPDX-License-Identifier: BSD-2-Clause
"""The trees of ai.onnx.ml's operators, as arrays with an element a node.

What a node asks is a few bits: whether it leads to its first child where a value is below its threshold, equal,
above, or no number. So all modes of the operators are one, and a leaf is a node that leads to itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from host_tools.record.preflight import NetworkError
from host_tools.record.rewriting.node import Node

BELOW, EQUAL, ABOVE, NO_NUMBER = 1, 2, 4, 8
BITS = 4  # of a word; a column's number stands above them
MODES = {
    "BRANCH_LEQ": BELOW | EQUAL,
    "BRANCH_LT": BELOW,
    "BRANCH_GTE": ABOVE | EQUAL,
    "BRANCH_GT": ABOVE,
    "BRANCH_EQ": EQUAL,
    "BRANCH_NEQ": BELOW | ABOVE | NO_NUMBER,
    "LEAF": BELOW | EQUAL | ABOVE | NO_NUMBER,
}
NEWER = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
MEMBER = NEWER.index("BRANCH_MEMBER")
MOST_LEVELS = 512
Whole = NDArray[np.int64]


@dataclass(frozen=True)
class Forest:
    """Trees.

    Attributes:
        words: of each node: the column that it asks for, and above which bits it leads to its first child.
        thresholds: of each node.
        children: of each node: where it leads to, and where else.
        roots: of each tree: its node.
        tree_of: of each node: its tree.
        levels: of the deepest tree, without its root.
        voters, targets, weights: nodes that say something, of which target or class, and what.
    """

    words: NDArray[np.int32]
    thresholds: NDArray[np.float32]
    children: NDArray[np.int32]
    roots: Whole
    tree_of: Whole
    levels: int
    voters: Whole
    targets: Whole
    weights: NDArray[np.float32]

    def leaves(self) -> Whole:
        """Nodes that lead to themselves."""
        return np.flatnonzero((self.children == np.arange(len(self.children))[:, None]).all(1))

    def only_target(self) -> Forest:
        """The same, with its one target as the first."""
        return replace(self, targets=np.zeros_like(self.targets))


def classic(node: Node, votes: str) -> Forest:
    """The trees of a TreeEnsembleRegressor or TreeEnsembleClassifier.

    Args:
        node: the operator.
        votes: what its attributes call what leaves vote for: "target" or "class".

    Raises:
        NetworkError: a node has no known mode, leads nowhere, or in a circle.
    """
    own, ids = node.integers("nodes_treeids"), node.integers("nodes_nodeids")
    modes = np.array([MODES.get(mode.decode(), 0) for mode in node.attributes["nodes_modes"]], np.int32)
    if not modes.all():
        raise NetworkError(f"nodes_modes: expected {', '.join(MODES)}")
    place = _Places(own, ids)
    is_leaf, itself = modes == MODES["LEAF"], np.arange(len(ids))
    children = np.stack([itself, itself], 1)
    for at, side in enumerate(("true", "false")):
        children[~is_leaf, at] = place.of(own[~is_leaf], node.integers(f"nodes_{side}nodeids")[~is_leaf])
    is_root = np.ones(len(ids), bool)
    is_root[children[~is_leaf]] = False
    tree_of = np.unique(own, return_inverse=True)[1]
    found, first = np.unique(tree_of[is_root], return_index=True)
    if len(found) != tree_of.max(initial=-1) + 1:
        raise NetworkError("a tree that has no root")
    roots = np.flatnonzero(is_root)[first]
    return Forest(
        _words(node.integers("nodes_featureids"), modes, node.integers("nodes_missing_value_tracks_true")),
        np.where(is_leaf, 0, node.floats("nodes_values")).astype(np.float32),
        children.astype(np.int32),
        roots,
        tree_of,
        _levels(children, roots),
        place.of(node.integers(f"{votes}_treeids"), node.integers(f"{votes}_nodeids")),
        node.integers(f"{votes}_ids"),
        node.floats(f"{votes}_weights"),
    )


def newer(node: Node) -> Forest:
    """The trees of a TreeEnsemble: leaves have numbers of their own, and a node may ask for one of several values.

    Raises:
        NetworkError: as `classic`.
    """
    kinds = np.asarray(node.attributes["nodes_modes"], np.int64).reshape(-1)
    if kinds.max(initial=0) > MEMBER:
        raise NetworkError(f"nodes_modes: expected 0 to {MEMBER}, found {kinds.max()}")
    count, targets = len(kinds), node.integers("leaf_targetids")
    sides = [
        node.integers(f"nodes_{side}nodeids") + count * node.integers(f"nodes_{side}leafs")
        for side in ("true", "false")
    ]
    itself = np.arange(count, count + len(targets))
    children = np.concatenate([np.stack(sides, 1), np.stack([itself, itself], 1)])
    if children.max(initial=0) >= len(children) or children.min(initial=0) < 0:
        raise NetworkError("a node leads to a missing node")
    modes = np.array([MODES.get(kind, EQUAL) for kind in NEWER] + [MODES["LEAF"]], np.int32)
    none = np.zeros(len(targets), np.int64)
    words = _words(
        np.append(node.integers("nodes_featureids"), none),
        modes[np.append(kinds, none + MEMBER + 1)],
        np.append(node.integers("nodes_missing_value_tracks_true", [0] * count), none),
    )
    thresholds = np.append(node.floats("nodes_splits"), none).astype(np.float32)
    words, thresholds, children = _questions(
        words, thresholds, children, np.flatnonzero(kinds == MEMBER), node.floats("membership_values")
    )
    roots = node.integers("tree_roots")
    levels = _levels(children, roots)
    return Forest(
        words,
        thresholds,
        children.astype(np.int32),
        roots,
        _trees_of(children, roots),
        levels,
        itself,
        targets,
        node.floats("leaf_weights"),
    )


class _Places:
    """Where the nodes of trees stand, by the numbers of both."""

    def __init__(self, trees: Whole, ids: Whole) -> None:
        self._span = int(ids.max(initial=0)) + 1
        keys = trees * self._span + ids
        self._order = np.argsort(keys, kind="stable")
        self._keys = keys[self._order]

    def of(self, trees: Whole, ids: Whole) -> Whole:
        """Their places; NetworkError: one is not there."""
        keys = trees * self._span + ids
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        if np.any(self._keys[at] != keys) or np.any(ids >= self._span):
            raise NetworkError("a node leads to a missing node")
        return self._order[at]


def _words(columns: Whole, modes: NDArray[np.int32], tracks: Whole) -> NDArray[np.int32]:
    """What each node asks; `tracks`: whether what is no number leads to the first child, empty for never."""
    bits = modes | (np.where(tracks, NO_NUMBER, 0) if len(tracks) else 0)
    return (columns << BITS | bits).astype(np.int32)


def _questions(
    words: NDArray[np.int32],
    thresholds: NDArray[np.float32],
    children: Whole,
    members: Whole,
    values: NDArray[np.float32],
) -> tuple[NDArray[np.int32], NDArray[np.float32], Whole]:
    """Nodes that ask for one of several values as chains of nodes that ask for one each.

    Args:
        words, thresholds, children: of all nodes.
        members: those nodes.
        values: theirs, each node's behind the last one's and a NaN.
    """
    sets = np.split(values, np.flatnonzero(np.isnan(values)) + 1)[: len(members)]
    more: list[tuple[int, float, int, int]] = []
    for asks, wanted in zip(members.tolist(), sets, strict=True):
        first, *others = (float(value) for value in wanted if not np.isnan(value))
        there, otherwise = map(int, children[asks])
        thresholds[asks] = first
        if others:
            children[asks, 1] = len(words) + len(more)
        for left, value in enumerate(others, 1 - len(others)):
            on = len(words) + len(more) + 1 if left else otherwise
            more.append((int(words[asks]) & ~NO_NUMBER, value, there, on))
    if not more:
        return words, thresholds, children
    asked, compared, *sides = (np.array(column) for column in zip(*more, strict=True))
    return (
        np.append(words, asked).astype(np.int32),
        np.append(thresholds, compared).astype(np.float32),
        np.concatenate([children, np.stack(sides, 1)]),
    )


def _levels(children: Whole, roots: Whole) -> int:
    """Steps from the roots until every path is at a leaf; NetworkError: there is no end, or it is too far."""
    reached, itself = np.unique(roots), np.arange(len(children))
    for level in range(MOST_LEVELS + 1):
        reached = reached[(children[reached] != itself[reached, None]).any(1)]
        if not len(reached):
            return level
        reached = np.unique(children[reached])
    raise NetworkError(f"trees of more than {MOST_LEVELS} levels, or with a circle")


def _trees_of(children: Whole, roots: Whole) -> Whole:
    """The tree of each node; 0 for one that no tree has."""
    found = np.zeros(len(children), np.int64)
    reached, tree = roots, np.arange(len(roots))
    while len(reached):
        found[reached] = tree
        on = (children[reached] != reached[:, None]).any(1)
        reached, tree = children[reached[on]].reshape(-1), np.repeat(tree[on], 2)
    return found
