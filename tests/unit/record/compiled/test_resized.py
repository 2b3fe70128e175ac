# SPDX-License-Identifier: BSD-2-Clause
"""Resize between whole numbers truncates, as ONNX Runtime does; a step is allowed where a place is no half."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from host_tools.record import onnx_model
from tests.support import node_cases
from tests.support.node_cases import NodeCase, Why

pytestmark = pytest.mark.usefixtures("without_sandboxes")


@pytest.mark.parametrize(("how", "steps"), [("asymmetric", 0), ("align_corners", 1), ("half_pixel", 0)])
@pytest.mark.parametrize("kind", [TensorProto.INT8, TensorProto.UINT8, TensorProto.INT32])
def test_whole_numbers(kind: int, how: str, steps: int) -> None:
    lowest = 0 if kind == TensorProto.UINT8 else -128
    values = {"x": np.random.default_rng(kind).integers(lowest, 128, (1, 3, 7, 5)).astype(np.float32)}
    shape = (1, 3, 14, 10)
    graph = helper.make_graph(
        [
            helper.make_node("Cast", ["x"], ["whole"], to=kind),
            helper.make_node(
                "Resize", ["whole", "", "scales"], ["y"], mode="linear", coordinate_transformation_mode=how
            ),
            helper.make_node("Cast", ["y"], ["z"], to=TensorProto.FLOAT),
        ],
        "whole",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, values["x"].shape)],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "scales")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    expected = onnx_model.session(onnx_model.described(model))(values)
    case = NodeCase("whole", model.SerializeToString(), values, expected, 0, steps)
    assert node_cases.run(case) == (Why.PASSED, "")
