# SPDX-License-Identifier: BSD-2-Clause
"""Which operators are rewritten, and by what; and the rewriting of a network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx

from host_tools.record.onnx_graph import Graph
from host_tools.record.onnx_messages import nodes_of, put_nodes
from host_tools.record.rewriting import columns, eight_bits, few_bits, fused, linear, support_vectors, trees
from host_tools.record.rewriting.node import Rewrite, read

ONNX, TABLES, RUNTIME = "", "ai.onnx.ml", "com.microsoft"
TABLE: Mapping[str, Mapping[str, Rewrite]] = {
    TABLES: {
        "ArrayFeatureExtractor": columns.array_feature_extractor,
        "Binarizer": columns.binarizer,
        "FeatureVectorizer": columns.feature_vectorizer,
        "Imputer": columns.imputer,
        "LabelEncoder": columns.label_encoder,
        "LinearClassifier": linear.classifier,
        "LinearRegressor": linear.regressor,
        "Normalizer": columns.normalizer,
        "OneHotEncoder": columns.one_hot,
        "SVMClassifier": support_vectors.classifier,
        "SVMRegressor": support_vectors.regressor,
        "Scaler": columns.scaler,
        "TreeEnsemble": trees.ensemble,
        "TreeEnsembleClassifier": trees.classifier,
        "TreeEnsembleRegressor": trees.regressor,
    },
    RUNTIME: {**eight_bits.OPERATORS, **few_bits.OPERATORS, **fused.OPERATORS},
    ONNX: {**few_bits.ONNX_OPERATORS, **fused.ONNX_OPERATORS},
}


def rewritten(network: Any) -> None:
    """Put operators that a front end has in place of the others, in ONNX's message of a network.

    Raises:
        NetworkError: a node has texts, or is of a variant that is not computed.
    """
    graph = network.graph
    if not any(node.domain in TABLE and node.op_type in TABLE[node.domain] for node in graph.node):
        return
    made = Graph("rewritten/")
    constants = {item.name: item for item in graph.initializer}
    nodes = []
    for node in graph.node:
        rewrite = TABLE.get(node.domain, {}).get(node.op_type)
        results = None if rewrite is None else rewrite(made, read(node, constants))
        if results is None:
            nodes.append(node)
            continue
        nodes += made.nodes
        made.nodes.clear()
        pairs = zip(results, node.output, strict=False)
        nodes += [onnx.helper.make_node("Identity", [ours], [theirs]) for ours, theirs in pairs if ours and theirs]
    put_nodes(graph, nodes)
    graph.initializer.extend(made.constants)
    _drop_unused(graph)


def _drop_unused(graph: Any) -> None:
    """Leave out constants that no node reads any more: a front end reads all, and has no types of a few bits."""
    used = {name for node in nodes_of(graph) for name in node.input} | {item.name for item in graph.output}
    used |= {item.name for node in nodes_of(graph) for one in node.attribute for item in one.g.output}
    for at in reversed([at for at, item in enumerate(graph.initializer) if item.name not in used]):
        del graph.initializer[at]
