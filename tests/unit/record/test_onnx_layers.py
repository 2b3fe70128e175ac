# SPDX-License-Identifier: BSD-2-Clause
"""Results of an ONNX network's nodes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from host_tools.record import onnx_layers, onnx_model
from host_tools.record.job_layers import sums
from tests.support.onnx_graphs import cast, graph, node

X = np.array([[-2.0, 1.0, 3.0, 4.0]], np.float32)


@pytest.mark.parametrize("most", [1, 2, onnx_layers.MOST])
def test_each_node_that_computes_floats(most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_layers, "MOST", most)
    nodes = [
        node("Relu", "x", "r"),
        cast("r", "whole", "int32"),  # no floats
        node("Split", "r", "a b", axis=1),
        node("Neg", "a", "y"),
    ]
    path = graph(tmp_path / "n.onnx", nodes, {"x": ("float32", [1, 4])}, {"y": "float32", "whole": "int32"})
    found = onnx_layers.layer_results(onnx_model.read(path), {"x": X})
    assert [(result.kind, list(result.takes), result.tensor) for result in found] == [
        ("Relu", ["x"], "r"),
        ("Split", ["r"], "a"),
        ("Split", ["r"], "b"),
        ("Neg", ["a"], "y"),
    ]
    assert found[0].layer  # its name, or its output's
    for result, value in zip(found, (np.maximum(X, 0), [0.0, 1.0], [3.0, 4.0], [-0.0, -1.0]), strict=True):
        np.testing.assert_allclose(result.sums, sums(np.array(value)))
