# SPDX-License-Identifier: BSD-2-Clause
"""Scan in both directions, along any axis, with values of the graph that it is in, against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto, helper

from host_tools.record.compiled.network import compile_onnx
from tests.support.onnx_graphs import model, node

STEPS, WIDTH = 4, 3


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"scan_input_axes": [-1], "scan_output_axes": [1]},
        {"scan_input_directions": [1], "scan_output_directions": [1]},
    ],
)
def test_it_computes_what_onnx_runtime_does(attributes: dict[str, Any], tmp_path: Path) -> None:
    def value(name: str) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, [WIDTH])

    body = helper.make_graph(
        [
            node("Mul", "state outer", "decayed"),
            node("Add", "decayed slice", "next"),
            node("Tanh", "next", "seen"),
        ],
        "body",
        [value("state"), value("slice")],
        [value("next"), value("seen")],
    )
    axis = attributes.get("scan_input_axes", [0])[0]
    net = model(
        tmp_path / "n.onnx",
        [
            node("Sigmoid", "z", "outer"),
            node("Scan", "start x", "last y", num_scan_inputs=1, body=body, **attributes),
        ],
        {
            "start": ("float32", [WIDTH]),
            "x": ("float32", [WIDTH, STEPS] if axis else [STEPS, WIDTH]),
            "z": ("float32", [WIDTH]),
        },
        {"last": "float32", "y": "float32"},
    )
    found = compile_onnx(net, {})
    assert max(found.differences.values()) < 1e-6
