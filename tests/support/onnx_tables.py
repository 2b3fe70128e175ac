# SPDX-License-Identifier: BSD-2-Clause
"""Random networks of one operator of ai.onnx.ml each, with values for its input: some are on a threshold, and some
are no numbers where the operator knows what to do with them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

DOMAIN = "ai.onnx.ml"
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO")
VERSIONS = {"TreeEnsemble": 5, "LabelEncoder": 4, "TreeEnsembleClassifier": 3, "TreeEnsembleRegressor": 3}
STEPS = (-1, -0.5, 0, 0.5, 1, 2, 3)
Random = np.random.Generator
Drawn = tuple[dict[str, Any], int, bool]  # attributes, columns, and whether it knows what is no number


def _floats(r: Random, count: int) -> list[float]:
    values: list[float] = r.normal(0, 1, count).astype(np.float32).tolist()
    return values


def _one_of(r: Random, words: tuple[str, ...]) -> str:
    return words[int(r.integers(len(words)))]


def _forest(r: Random, columns: int, votes: Callable[[int], list[int]]) -> tuple[list[Any], list[Any]]:
    """Nodes as (tree, number, column, mode, value, child, other child, where no numbers go), votes as (tree, node,
    target)."""
    nodes: list[Any] = []
    voted: list[Any] = []
    modes = MODES if r.random() < 0.4 else (_one_of(r, MODES[:4]),)

    def grow(tree: int, first: int, depth: int) -> int:
        number = len(nodes) - first
        nodes.append((tree, number, 0, "LEAF", 0.0, 0, 0, 0))
        if depth == 0 or (number and r.random() < 0.25):
            voted.extend((tree, number, target) for target in votes(tree))
            return number
        children = grow(tree, first, depth - 1), grow(tree, first, depth - 1)
        asked = int(r.integers(columns)), _one_of(r, modes), float(r.choice(STEPS[:5]))
        nodes[first + number] = (tree, number, *asked, *children, int(r.integers(2)))
        return number

    for tree in range(int(r.integers(1, 8))):
        grow(tree, len(nodes), int(r.integers(0, 5)))
    return nodes, voted


def _trees(r: Random, is_classifier: bool) -> Drawn:
    columns, count = int(r.integers(1, 7)), int(r.integers(2 if is_classifier else 1, 5))
    style, one = int(r.integers(3)), int(r.integers(count))
    nodes, voted = _forest(
        r, columns, lambda tree: list(range(count)) if style == 0 else [tree % count if style == 1 else one]
    )
    kind = "class" if is_classifier else "target"
    names = ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids")
    made: dict[str, Any] = {f"nodes_{name}": [node[at] for node in nodes] for at, name in enumerate(names)}
    if tracks := bool(r.random() < 0.5):
        made["nodes_missing_value_tracks_true"] = [node[7] for node in nodes]
    made |= {
        f"{kind}_{name}": [vote[at] for vote in voted] for at, name in enumerate(("treeids", "nodeids", "ids"))
    }
    weights = r.random(len(voted)) if r.random() < 0.5 else r.normal(0, 1, len(voted))
    made[f"{kind}_weights"] = weights.astype(np.float32).tolist()
    made["post_transform"] = _one_of(r, TRANSFORMS)
    if style == 0 and (count > 2 or not is_classifier) and r.random() < 0.5:
        made["base_values"] = _floats(r, count)
    if is_classifier:
        if style == 2:
            made[f"{kind}_weights"] = np.abs(weights).astype(np.float32).tolist()
        return made | {"classlabels_int64s": r.permutation(20)[:count].tolist()}, columns, tracks
    ways = ("SUM", "AVERAGE", "MIN", "MAX") if style == 0 else ("SUM", "AVERAGE")
    return made | {"n_targets": count, "aggregate_function": _one_of(r, ways)}, columns, tracks


def _ensemble(r: Random) -> Drawn:
    """TreeEnsemble, with leaves of their own, and nodes that ask for one of several values."""
    columns, targets = int(r.integers(1, 6)), int(r.integers(1, 4))
    nodes: list[Any] = []
    leaves: list[tuple[int, float]] = []
    members: list[float] = []

    def grow(depth: int) -> tuple[int, int]:
        if depth == 0 or (nodes and r.random() < 0.3):
            leaves.append((int(r.integers(targets)), float(r.normal())))
            return len(leaves) - 1, 1
        number, mode = len(nodes), int(r.integers(7))
        if mode == 6:
            members.extend([*r.choice([1.0, 2, 3], int(r.integers(1, 4)), replace=False), np.nan])
        nodes.append(None)
        asked = mode, int(r.integers(columns)), float(r.choice(STEPS[:5]))
        nodes[number] = (*asked, *grow(depth - 1), *grow(depth - 1), int(r.integers(2)))
        return number, 0

    roots = []
    for _ in range(int(r.integers(1, 5))):
        roots.append(len(nodes))
        size = len(nodes)
        while len(nodes) == size:
            grow(int(r.integers(1, 5)))

    def tensor(values: list[Any], kind: int) -> Any:
        return helper.make_tensor("values", kind, (len(values),), values)

    columns_of = {"truenodeids": 3, "trueleafs": 4, "falsenodeids": 5, "falseleafs": 6, "featureids": 1}
    made: dict[str, Any] = {f"nodes_{name}": [node[at] for node in nodes] for name, at in columns_of.items()}
    made |= {
        "nodes_modes": tensor([node[0] for node in nodes], TensorProto.UINT8),
        "nodes_splits": tensor([node[2] for node in nodes], TensorProto.FLOAT),
        "nodes_missing_value_tracks_true": [node[7] for node in nodes],
        "leaf_targetids": [leaf[0] for leaf in leaves],
        "leaf_weights": tensor([leaf[1] for leaf in leaves], TensorProto.FLOAT),
        "tree_roots": roots,
        "n_targets": targets,
        "aggregate_function": int(r.integers(2)),
    }
    return made | ({"membership_values": tensor(members, TensorProto.FLOAT)} if members else {}), columns, False


def _linear(r: Random, is_classifier: bool) -> Drawn:
    columns, count = int(r.integers(1, 9)), int(r.integers(1, 5))
    made: dict[str, Any] = {"coefficients": _floats(r, count * columns), "post_transform": _one_of(r, TRANSFORMS)}
    made["intercepts"] = _floats(r, count)
    if is_classifier:
        return made | {"classlabels_ints": r.permutation(20)[: max(count, 2)].tolist()}, columns, False
    return made | {"targets": count}, columns, False


def _support_vectors(r: Random) -> Drawn:
    columns, count = int(r.integers(1, 7)), int(r.integers(0, 9))
    made: dict[str, Any] = {
        "coefficients": _floats(r, count or columns),
        "kernel_type": _one_of(r, ("LINEAR", "POLY", "RBF", "SIGMOID") if count else ("LINEAR",)),
        "kernel_params": [0.25, 0.5, 3.0],
        "n_supports": count,
        "one_class": int(r.integers(2)),
        "rho": _floats(r, 1),
    }
    return made | ({"support_vectors": _floats(r, count * columns)} if count else {}), columns, False


def _voting(r: Random) -> Drawn:
    """SVMClassifier, with support vectors or without."""
    columns, count = int(r.integers(1, 7)), int(r.integers(2, 6))
    made: dict[str, Any] = {"classlabels_ints": r.permutation(20)[:count].tolist(), "kernel_type": "LINEAR"}
    made["kernel_params"] = [0.25, 0.5, 3.0]
    made["post_transform"] = _one_of(r, TRANSFORMS)
    if r.random() < 0.4:
        coefficients = _floats(r, count * columns)
        if r.random() < 0.3:
            coefficients = [abs(value) for value in coefficients]
        made |= {"coefficients": coefficients, "rho": _floats(r, int(r.integers(1, 3)))}
        return made, columns, False
    sizes = r.integers(1, 5, count).tolist()
    made |= {
        "coefficients": _floats(r, (count - 1) * sum(sizes)),
        "kernel_type": _one_of(r, ("LINEAR", "POLY", "RBF", "SIGMOID")),
        "rho": _floats(r, count * (count - 1) // 2),
        "support_vectors": _floats(r, sum(sizes) * columns),
        "vectors_per_class": sizes,
    }
    if r.random() < 0.5:  # behind the other draws, which stay as they were
        made["prob_a"], made["prob_b"] = (_floats(r, count * (count - 1) // 2) for _ in range(2))
    return made, columns, False


def _columns(r: Random, kind: str) -> Drawn:
    columns = int(r.integers(1, 9))
    each = columns if r.random() < 0.7 else 1
    missing = np.nan if r.random() < 0.5 else 1.0
    made: dict[str, dict[str, Any]] = {
        "Scaler": {"offset": _floats(r, each), "scale": _floats(r, each)},
        "Normalizer": {"norm": _one_of(r, ("MAX", "L1", "L2"))},
        "Binarizer": {"threshold": float(r.choice(STEPS))},
        "Imputer": {"imputed_value_floats": _floats(r, each), "replaced_value_float": missing},
        "OneHotEncoder": {"cats_int64s": r.permutation(5)[:3].tolist(), "zeros": 1},
        "LabelEncoder": {"keys_floats": [0.0, 1.0, np.nan], "values_floats": _floats(r, 3), "default_float": 7.0},
    }
    return made[kind], columns, kind in ("Imputer", "LabelEncoder")


def _draw(kind: str, r: Random) -> Drawn:
    if kind == "TreeEnsemble":
        return _ensemble(r)
    if kind.startswith("TreeEnsemble"):
        return _trees(r, kind.endswith("Classifier"))
    if kind.startswith("Linear"):
        return _linear(r, kind.endswith("Classifier"))
    if kind.startswith("SVM"):
        return _voting(r) if kind.endswith("Classifier") else _support_vectors(r)
    return _columns(r, kind)


KINDS = (
    "Binarizer",
    "Imputer",
    "LabelEncoder",
    "LinearClassifier",
    "LinearRegressor",
    "Normalizer",
    "OneHotEncoder",
    "Scaler",
    "TreeEnsemble",
    "TreeEnsembleClassifier",
    "TreeEnsembleRegressor",
    "SVMRegressor",  # and what follows: behind the others, whose seeds are by their places
    "SVMClassifier",
)


def drawn(kind: str, seed: int) -> tuple[bytes, NDArray[np.float32]]:
    """A network of one operator, and its input, `x`; its outputs are `y`, and `label` of a classifier."""
    r = np.random.default_rng([seed, KINDS.index(kind)])
    attributes, columns, knows_nan = _draw(kind, r)
    shape = int(r.integers(1, 6)), columns
    values = np.where(r.random(shape) < 0.5, r.choice(STEPS, shape), r.normal(0, 1, shape)).astype(np.float32)
    if knows_nan:
        values[r.random(shape) < 0.2] = np.nan
    names = ["label", "y"] if kind.endswith("Classifier") else ["y"]
    node = helper.make_node(kind, ["x"], names, domain=DOMAIN, **attributes)
    types = {"label": TensorProto.INT64, "y": TensorProto.FLOAT}
    graph = helper.make_graph(
        [node],
        "table",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(name, types[name], None) for name in names],
    )
    sets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, VERSIONS.get(kind, 1))]
    model: onnx.ModelProto = helper.make_model(graph, opset_imports=sets, ir_version=9)
    return model.SerializeToString(), values
