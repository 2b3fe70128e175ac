# SPDX-License-Identifier: BSD-2-Clause
"""Sigmoids at a network's end are exact in the reference; elsewhere nothing is changed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

from host_tools.record import onnx_model
from tests.support.onnx_graphs import model, node

INPUTS = {"x": ("float32", [2, 3])}


def test_small_values_behind_moves(tmp_path: Path) -> None:
    nodes = [
        node("Sigmoid", "x", "s"),
        node("Concat", "s s", "c", axis=1),
        node("Transpose", "c", "y", perm=[1, 0]),
    ]
    found = model(tmp_path / "n.onnx", nodes, INPUTS, {"y": "float32"})
    x = np.array([[-30, -19, -13], [-1, 0, 4]], np.float32)
    exact = 1 / (1 + np.exp(-x.astype(np.float64)))
    expected = np.concatenate([exact, exact], 1).T
    np.testing.assert_allclose(onnx_model.run(found, {"x": x})["y"], expected, rtol=1e-6)


def test_a_sigmoid_that_is_computed_with(tmp_path: Path) -> None:
    nodes = [node("Sigmoid", "x", "s"), node("Mul", "s s", "y")]
    found = model(tmp_path / "n.onnx", nodes, INPUTS, {"y": "float32"})
    assert found.sigmoids == ()
    kinds = [item.op_type for item in onnx.load_model_from_string(found.data).graph.node]
    assert kinds == ["Sigmoid", "Mul"]
