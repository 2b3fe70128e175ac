# SPDX-License-Identifier: BSD-2-Clause
"""Texts and maps that trained tables answer become numbers, and it is said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from host_tools.record import onnx_model

pytestmark = pytest.mark.usefixtures("without_sandboxes")


def test_a_classifier_of_texts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As scikit-learn's exporter writes it."""
    labels = ["cat", "dog", "owl"]
    nodes = [
        helper.make_node(
            "LinearClassifier",
            ["x"],
            ["label", "scores"],
            domain="ai.onnx.ml",
            classlabels_strings=labels,
            coefficients=[1.0, 0, 0, 1, 1, 1],
            intercepts=[0.0, 0, 0],
            post_transform="SOFTMAX",
        ),
        helper.make_node("ZipMap", ["scores"], ["map"], domain="ai.onnx.ml", classlabels_strings=labels),
    ]
    maps = helper.make_map_type_proto(TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    graph = helper.make_graph(
        nodes,
        "texts",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2])],
        [
            helper.make_tensor_value_info("label", TensorProto.STRING, [1]),
            helper.make_value_info("map", helper.make_sequence_type_proto(maps)),
        ],
    )
    sets = [helper.make_opsetid("", 15), helper.make_opsetid("ai.onnx.ml", 1)]
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=sets, ir_version=8), path)
    with caplog.at_level("INFO"):
        model = onnx_model.read(path)
    found = onnx_model.run(model, {"x": np.array([[1, 2]], np.float32)})
    assert found["label"].tolist() == [2]
    assert np.argmax(found["map"]) == 2
    assert found["map"].shape == (1, 3)
    assert "label is a number in place of a text: 0 is cat, 1 is dog, 2 is owl" in caplog.text
    assert "output map has the scores of all classes, in their order, and no map" in caplog.text
