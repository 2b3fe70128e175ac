# SPDX-License-Identifier: BSD-2-Clause
"""Operators of ai.onnx.ml as ONNX's own compute what ONNX Runtime computes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from host_tools.record import onnx_model
from host_tools.record.compiled import simplified
from host_tools.record.preflight import NetworkError
from host_tools.record.rewriting.forests import ABOVE, BELOW, BITS, EQUAL, NO_NUMBER
from host_tools.record.rewriting.table import TABLE, TABLES
from tests.support import node_cases, onnx_tables
from tests.support.node_cases import NodeCase, Why
from tests.support.sampling import SomeOf

pytestmark = pytest.mark.usefixtures("without_sandboxes")
COUNT = 100  # of each operator


def votes(node: Any, tables: dict[str, NDArray[Any]], x: NDArray[np.float32]) -> NDArray[np.float32]:
    """TreeVotes, which ONNX Runtime has not, by NumPy."""
    words, bounds, children, roots, weights = (tables[name] for name in node.input[1:])
    rows, at = np.arange(len(x))[:, None], np.tile(roots, (len(x), 1))
    for _ in range(next(item.i for item in node.attribute if item.name == "levels")):
        word, bound = words[at], bounds[at]
        value = x[rows, word >> BITS]
        answers = {BELOW: value < bound, EQUAL: value == bound, ABOVE: value > bound, NO_NUMBER: np.isnan(value)}
        leads = np.any([(word & bit != 0) & answer for bit, answer in answers.items()], 0)
        at = children[at * 2 + ~leads]
    return np.asarray(weights[at], np.float32)


def computed(model: bytes, x: NDArray[np.float32]) -> dict[str, NDArray[Any]]:
    """What the rewritten network computes, by ONNX Runtime."""
    network = onnx.load_model_from_string(simplified.for_compiler(onnx.load_model_from_string(model)))
    graph, given = network.graph, {"x": x}
    tables = {item.name: numpy_helper.to_array(item) for item in graph.initializer}
    for node in [node for node in graph.node if node.op_type == "TreeVotes"]:
        name = node.output[0]
        given[name] = votes(node, tables, x)
        graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, given[name].shape))
        graph.node.remove(node)
    return onnx_model.session(onnx_model.described(network))(given)


def reference(model: bytes, x: NDArray[np.float32]) -> dict[str, NDArray[Any]]:
    return onnx_model.session(onnx_model.described(onnx.load_model_from_string(model)))({"x": x})


def case(kind: str, seed: int) -> NodeCase:
    model, x = onnx_tables.drawn(kind, seed)
    return NodeCase(f"{kind} {seed}", model, {"x": x}, reference(model, x), 1e-5, 1e-5)


@pytest.mark.parametrize("kind", onnx_tables.KINDS)
def test_random_networks(kind: str, some_of: SomeOf) -> None:
    wrong = {}
    for seed in some_of(range(COUNT), 10):
        one = case(kind, seed)
        if problem := one.problem(computed(one.model, one.inputs["x"])):
            wrong[seed] = problem
    assert wrong == {}


@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        ("LabelEncoder", 3),
        ("SVMClassifier", 3),
        ("SVMClassifier", 18),  # probabilities of three classes
        ("TreeEnsemble", 3),
        ("TreeEnsembleClassifier", 3),
    ],
)
def test_on_this_machine(kind: str, seed: int) -> None:
    """The look-up kernel among them, where values are no numbers, too."""
    assert node_cases.run(case(kind, seed)) == (Why.PASSED, "")


def test_probabilities_are_drawn_of_each_kernel_and_number_of_classes() -> None:
    drawn = set()
    for seed in range(COUNT):
        (node,) = onnx.load_model_from_string(onnx_tables.drawn("SVMClassifier", seed)[0]).graph.node
        found = {item.name: helper.get_attribute_value(item) for item in node.attribute}
        if "prob_a" in found:
            drawn |= {found["kernel_type"].decode(), len(found["classlabels_ints"])}
    assert drawn >= {"LINEAR", "POLY", "RBF", "SIGMOID", 2, 3, 4, 5}


def test_no_probabilities_need_more_steps_than_there_are() -> None:
    """ONNX Runtime stops by itself, after up to 100: pairs that contradict each other, and sure ones, too."""
    generator = np.random.default_rng(4)
    model = voting(
        classlabels_ints=[0, 1, 2, 3],
        coefficients=generator.normal(0, 1, 12).tolist(),
        support_vectors=np.eye(4).reshape(-1).tolist(),
        vectors_per_class=[1, 1, 1, 1],
        rho=[0.0] * 6,
        prob_a=[-1.0] * 6,
        prob_b=[0.0] * 6,
    )
    x = generator.choice([1, 4, 20], (2000, 1)) * generator.normal(0, 1, (2000, 4))
    found, expected = (of(model, x.astype(np.float32))["y"] for of in (computed, reference))
    assert np.abs(found - expected).max() < 1e-5


def test_all_are_drawn() -> None:
    assert set(TABLE[TABLES]) - set(onnx_tables.KINDS) == {"ArrayFeatureExtractor", "FeatureVectorizer"}


def test_columns() -> None:
    nodes = [
        helper.make_node("FeatureVectorizer", ["x", "x"], ["twice"], domain="ai.onnx.ml", inputdimensions=[3, 3]),
        helper.make_node("ArrayFeatureExtractor", ["twice", "places"], ["y"], domain="ai.onnx.ml"),
    ]
    graph = helper.make_graph(
        nodes,
        "columns",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.array([4, 0]), "places")],
    )
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    model = helper.make_model(graph, opset_imports=sets, ir_version=9).SerializeToString()
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(computed(model, x)["y"], [[1, 0], [4, 3]])
    assert np.array_equal(reference(model, x)["y"], [[1, 0], [4, 3]])


def trees(**changed: Any) -> bytes:
    attributes: dict[str, Any] = {
        "nodes_treeids": [0, 0, 0],
        "nodes_nodeids": [0, 1, 2],
        "nodes_featureids": [0, 0, 0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_values": [0.0, 0.0, 0.0],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
        "target_treeids": [0, 0],
        "target_nodeids": [1, 2],
        "target_ids": [0, 0],
        "target_weights": [1.0, 2.0],
    }
    node = helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", **(attributes | changed))
    graph = helper.make_graph(
        [node],
        "tree",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1])],
    )
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    model: bytes = helper.make_model(graph, opset_imports=sets, ir_version=9).SerializeToString()
    return model


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"nodes_truenodeids": [7, 0, 0]}, "leads to a missing node"),
        ({"nodes_modes": ["BRANCH_LEQ"] * 3, "nodes_truenodeids": [1, 2, 0]}, "has no root"),
        ({"nodes_modes": ["BRANCH_LEQ", "LEAF", "TWIG"]}, "nodes_modes: expected"),
        ({"aggregate_function": "MEDIAN"}, "aggregate_function MEDIAN, which is none of SUM"),
        ({"post_transform": "TANH", "n_targets": 1}, "post_transform TANH, which is none of NONE"),
        ({"n_targets": 2, "base_values": [1.0, 2.0]}, "depends on which leaves vote"),
    ],
)
def test_trees_that_are_refused(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(NetworkError, match=said):
        simplified.for_compiler(onnx.load_model_from_string(trees(**changed)))


def voting(**changed: Any) -> bytes:
    attributes: dict[str, Any] = {
        "classlabels_ints": [3, 5],
        "coefficients": [1.0, -1.0],
        "support_vectors": [0.0, 1.0],
        "vectors_per_class": [1, 1],
        "kernel_params": [1.0, 0.0, 0.0],
        "rho": [0.0],
    }
    node = helper.make_node("SVMClassifier", ["x"], ["label", "y"], domain=TABLES, **(attributes | changed))
    values = [
        helper.make_tensor_value_info(name, kind, None)
        for name, kind in (("x", TensorProto.FLOAT), ("label", TensorProto.INT64), ("y", TensorProto.FLOAT))
    ]
    graph = helper.make_graph([node], "votes", values[:1], values[1:])
    sets = [helper.make_opsetid("", 17), helper.make_opsetid(TABLES, 1)]
    model: bytes = helper.make_model(graph, opset_imports=sets, ir_version=9).SerializeToString()
    return model


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"prob_a": [1.0], "prob_b": [0.0, 1.0]}, "expected 1 prob_a and as many prob_b, found 1 and 2"),
        ({"rho": [0.0, 1.0]}, "expected as many vectors_per_class and 1 rho, found 2 and 2"),
        ({"post_transform": "PROBIT"}, "leaves a score undefined"),
        ({"kernel_type": "COSINE"}, "with the kernel COSINE"),
    ],
)
def test_votes_that_are_refused(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(NetworkError, match=said):
        simplified.for_compiler(onnx.load_model_from_string(voting(**changed)))


def test_a_circle_is_refused() -> None:
    circle = {
        "nodes_modes": ["BRANCH_LEQ", "BRANCH_LEQ", "LEAF"],
        "nodes_truenodeids": [1, 1, 0],
        "nodes_falsenodeids": [2, 2, 0],
        "target_nodeids": [2, 2],
    }
    with pytest.raises(NetworkError, match="or with a circle"):
        simplified.for_compiler(onnx.load_model_from_string(trees(**circle)))
