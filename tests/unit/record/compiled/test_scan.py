# SPDX-License-Identifier: BSD-2-Clause
"""Scan in both directions, along any axis, with values of the graph that it is in, and Loop, against ONNX
Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from host_tools.record.compiled.network import compile_onnx
from host_tools.record.onnx_model import OnnxModel
from host_tools.record.preflight import NetworkError
from tests.support.onnx_graphs import cast, model, node

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


def counting(path: Path, limit: str) -> OnnxModel:
    """A Loop as TensorFlow's exporter writes a recurrent layer: it counts steps, and goes on below a number."""

    def value(name: str, kind: int, *shape: int) -> Any:
        return helper.make_tensor_value_info(name, kind, shape)

    body = helper.make_graph(
        [
            node("Add", "count one", "counted"),
            node("Less", "counted limit", "goes_on"),
            node("Gather", "x count", "row", axis=0),
            node("Mul", "state half", "decayed"),
            node("Add", "decayed row", "next"),
            node("Identity", "next", "seen"),
        ],
        "body",
        [
            value("number", TensorProto.INT64),
            value("on", TensorProto.BOOL),
            value("count", TensorProto.INT64),
            value("state", TensorProto.FLOAT, WIDTH),
        ],
        [
            value("goes_on", TensorProto.BOOL),
            value("counted", TensorProto.INT64),
            value("next", TensorProto.FLOAT, WIDTH),
            value("seen", TensorProto.FLOAT, WIDTH),
        ],
        [numpy_helper.from_array(np.full(1, 0.5, np.float32), "half")],
    )
    constants = {"most": np.array(2**40), "yes": np.array(True), "zero": np.array(0), "one": np.array(1)}
    nodes = [node("Loop", "most yes zero start", "counts last y", body=body)]
    if limit == "input":
        nodes.insert(0, cast("l", "limit", "int64"))
    else:
        constants["limit"] = np.array(STEPS)
    inputs: dict[str, Any] = {"start": ("float32", [WIDTH]), "x": ("float32", [STEPS, WIDTH])}
    inputs |= {"l": ("float32", [])} if limit == "input" else {}
    return model(path, nodes, inputs, {"last": "float32", "y": "float32"}, constants)


def test_a_loop_that_counts_its_own_steps(tmp_path: Path) -> None:
    found = compile_onnx(counting(tmp_path / "n.onnx", "constant"), {})
    assert found.cases[0][1]["y"].shape == (STEPS, WIDTH)
    assert max(found.differences.values()) < 1e-6


def test_a_loop_whose_end_an_input_decides(tmp_path: Path) -> None:
    net = counting(tmp_path / "n.onnx", "input")
    with pytest.raises(NetworkError, match="Loop that ends by what it computes"):
        compile_onnx(net, {}, values={"l": np.array(2.0)})
