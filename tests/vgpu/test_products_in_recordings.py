# SPDX-License-Identifier: BSD-2-Clause
"""Which jobs of a recording are products: found by the weights that they read and by what they write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from host_tools.demo import RAW
from host_tools.model.products import NOTE
from host_tools.record.products import layers_of, note_products
from tests.support import pointwise
from tests.support.onnx_graphs import graph, node
from tests.support.onnx_networks import pointwise as network
from trace_format.trace import Trace

W = np.random.default_rng(1).normal(0, 1, (16, 8, 1, 1)).astype(np.float32)
NODES: dict[str, tuple[Any, int]] = {
    "pointwise": (node("Conv", "x w b", "y"), 1),
    "pointwise without a bias": (node("Conv", "x w", "y"), 1),
    "in groups": (node("Conv", "x w b", "y", group=2), 0),
    "with steps": (node("Conv", "x w b", "y", strides=[2, 2]), 0),
    "with an edge": (node("Conv", "x w b", "y", pads=[1, 1, 1, 1]), 0),
    "weights that are computed": (node("Conv", "x v b", "y"), 0),
    "a product": (node("MatMul", "x m", "y"), 1),
    "a product, scaled": (node("Gemm", "x m b", "y", alpha=2.0), 0),
    "a product with a bias": (node("Gemm", "x m b", "y"), 1),
}


@pytest.mark.parametrize("case", NODES)
def test_layers_of_a_network(case: str, tmp_path: Path) -> None:
    made, count = NODES[case]
    constants = {"w": W, "b": np.ones(16, np.float32), "m": np.ascontiguousarray(W.reshape(16, 8).T)}
    path = graph(tmp_path / "n.onnx", [made], {"x": ("float32", [1, 8, 4, 4])}, {"y": "float32"}, constants)
    found = list(layers_of(onnx.load(path)))
    assert len(found) == count
    for layer in found:
        assert np.array_equal(layer.weights, W.reshape(16, 8))
        assert (layer.bias is None) == ("b" not in made.input)


def test_the_recording_s_products_are_found_again(tmp_path: Path) -> None:
    """With another input than the recorded one."""
    committed = Trace.read(pointwise.RAW)
    raw = committed.with_(notes={})
    note_products(raw, network(tmp_path / "net.onnx").read_bytes(), pointwise.given(3))
    assert raw.notes[NOTE] == committed.notes[NOTE]


def test_a_recording_of_another_network_has_none(tmp_path: Path) -> None:
    raw = Trace.read(RAW)
    notes = dict(raw.notes)
    note_products(raw, network(tmp_path / "net.onnx").read_bytes(), {"data": np.ones((1, 1, 28, 28), np.float32)})
    assert raw.notes == notes
