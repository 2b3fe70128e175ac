# SPDX-License-Identifier: BSD-2-Clause
"""What ai.onnx.ml does to a table's columns before a model: Scaler, Normalizer, Imputer, Binarizer, OneHotEncoder,
LabelEncoder, ArrayFeatureExtractor, FeatureVectorizer.

Source: the operators' text in ONNX's documentation, docs/Operators-ml.md.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from host_tools.record.onnx_graph import Graph, Name
from host_tools.record.preflight import NetworkError
from host_tools.record.rewriting.node import FLOAT, INT64, Node, as_float

NORMS = {"MAX": "ReduceMax", "L1": "ReduceL1", "L2": "ReduceL2"}


def scaler(graph: Graph, node: Node) -> list[Name]:
    """Scaler: (x - offset) * scale, by column."""
    x = as_float(graph, node.inputs[0])
    moved = graph.node("Sub", x, graph.constant(node.floats("offset", (0,))))
    return [graph.node("Mul", moved, graph.constant(node.floats("scale", (1,))))]


def normalizer(graph: Graph, node: Node) -> list[Name]:
    """Normalizer: each row over its norm; a row of norm 0 stays as it is."""
    x = as_float(graph, node.inputs[0])
    kind = NORMS[node.text("norm", "MAX")]
    norm = graph.node(kind, x, axes=[-1], keepdims=1)
    one = graph.constant(np.ones(1, np.float32))
    none = graph.node("Equal", norm, graph.constant(np.zeros(1, np.float32)))
    return [graph.node("Div", x, graph.node("Where", none, one, norm))]


def binarizer(graph: Graph, node: Node) -> list[Name]:
    """Binarizer: 1 above a threshold, else 0."""
    bound = graph.constant(np.array(node.number("threshold", 0.0), np.float32))
    above = graph.node("Greater", as_float(graph, node.inputs[0]), bound)
    return [graph.node("Cast", above, to=FLOAT)]


def imputer(graph: Graph, node: Node) -> list[Name]:
    """Imputer: another value, by column, where one is missing."""
    x = node.inputs[0]
    if len(whole := node.integers("imputed_value_int64s")):
        missing = graph.constant(np.array(node.number("replaced_value_int64", 0), np.int64))
        return [graph.node("Where", graph.node("Equal", x, missing), graph.constant(whole), x)]
    value = float(node.number("replaced_value_float", 0.0))
    missing = (
        graph.node("IsNaN", x)
        if np.isnan(value)
        else graph.node("Equal", x, graph.constant(np.array(value, np.float32)))
    )
    return [graph.node("Where", missing, graph.constant(node.floats("imputed_value_floats")), x)]


def one_hot(graph: Graph, node: Node) -> list[Name]:
    """OneHotEncoder: a column a category; of a category that is not known, none is 1."""
    if "cats_int64s" not in node.attributes:
        raise NetworkError("OneHotEncoder of texts: a GPU has numbers only")
    x = graph.node("Unsqueeze", graph.node("Cast", node.inputs[0], to=INT64), graph.constant([-1]))
    known = graph.constant(node.integers("cats_int64s"))
    return [graph.node("Cast", graph.node("Equal", x, known), to=FLOAT)]


def label_encoder(graph: Graph, node: Node) -> list[Name]:
    """LabelEncoder: a value for each key, and one for what is no key."""
    keys, values = (_numbers(node, kind) for kind in ("keys", "values"))
    if keys is None or values is None:
        raise NetworkError("LabelEncoder of texts: a GPU has numbers only")
    otherwise = _default(node, values)
    x = graph.node("Unsqueeze", node.inputs[0], graph.constant([-1]))
    hits = graph.node("Equal", x, graph.constant(keys))
    if keys.dtype.kind == "f" and np.isnan(keys).any():
        both = graph.node("And", graph.node("IsNaN", x), graph.constant(np.isnan(keys)))
        hits = graph.node("Or", hits, both)
    # The first of equal keys counts: of none that hits, the column behind them all.
    order = graph.constant(np.arange(len(keys), dtype=np.int64))
    places = graph.node("Where", hits, order, graph.constant(np.array(len(keys), np.int64)))
    first = graph.node("ReduceMin", places, axes=[-1], keepdims=0)
    return [graph.node("Gather", graph.constant(np.append(values, otherwise)), first, axis=0)]


def _numbers(node: Node, kind: str) -> NDArray[np.generic] | None:
    """Keys or values, if they are numbers."""
    for name, dtype in (("floats", np.float32), ("int64s", np.int64)):
        if f"{kind}_{name}" in node.attributes:
            return np.asarray(node.attributes[f"{kind}_{name}"], dtype)
    tensor = node.attributes.get(f"{kind}_tensor")
    return tensor.reshape(-1) if tensor is not None and tensor.dtype.kind in "iuf" else None


def _default(node: Node, values: NDArray[np.generic]) -> NDArray[np.generic]:
    if (tensor := node.attributes.get("default_tensor")) is not None:
        return np.asarray(tensor, values.dtype).reshape(-1)[:1]
    if values.dtype.kind == "f":
        return np.array([node.number("default_float", -0.0)], values.dtype)
    return np.array([node.number("default_int64", -1)], values.dtype)


def array_feature_extractor(graph: Graph, node: Node) -> list[Name]:
    """ArrayFeatureExtractor: some columns."""
    places = graph.node("Reshape", node.inputs[1], graph.constant([-1]))
    return [graph.node("Gather", node.inputs[0], places, axis=-1)]


def feature_vectorizer(graph: Graph, node: Node) -> list[Name]:
    """FeatureVectorizer: tables side by side."""
    return [graph.node("Concat", *(as_float(graph, name) for name in node.inputs), axis=-1)]
