# SPDX-License-Identifier: BSD-2-Clause
"""QuantizeLinear rounds to the step that ONNX Runtime does, halves among them, which GPUs' quotients miss."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from host_tools.record import onnx_model
from tests.support import node_cases
from tests.support.node_cases import NodeCase, Why

pytestmark = pytest.mark.usefixtures("without_sandboxes")
ENDS = (0, -0.0, 1e30, -1e30, np.inf, -np.inf)


def near_halves(scale: np.float32) -> NDArray[np.float32]:
    """Every half times a scale, the floats on both sides of each, and ends."""
    halves = ((np.arange(-300, 300) + np.float32(0.5)).astype(np.float32) * scale).astype(np.float32)
    sides = [np.nextafter(halves, np.float32(end)) for end in (-np.inf, np.inf)]
    return np.concatenate([halves, *sides, np.array(ENDS, np.float32)]).astype(np.float32)


@pytest.mark.parametrize("zero", [np.uint8(7), np.int8(-3)])
@pytest.mark.parametrize("is_given", [False, True])
def test_halves(zero: np.generic, is_given: bool) -> None:
    """With a scale that the kernel has as a constant, and one that it reads."""
    scale = np.float32(0.22928914)
    values = {"x": near_halves(scale)} | ({"scale": np.array(scale)} if is_given else {})
    kind = helper.np_dtype_to_tensor_dtype(zero.dtype)
    graph = helper.make_graph(
        [helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["y"])],
        "halves",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, value.shape) for name, value in values.items()],
        [helper.make_tensor_value_info("y", kind, values["x"].shape)],
        [numpy_helper.from_array(np.asarray(zero), "zero")]
        + ([] if is_given else [numpy_helper.from_array(np.asarray(scale), "scale")]),
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    expected = onnx_model.session(onnx_model.described(model))(values)
    case = NodeCase("halves", model.SerializeToString(), values, expected, 0, 0)
    assert node_cases.run(case) == (Why.PASSED, "")
