# SPDX-License-Identifier: BSD-2-Clause
"""Operators that ONNX Runtime's tools write, a network each: compiled, they compute what ONNX Runtime computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from host_tools.record import onnx_model
from host_tools.record.compiled import simplified
from host_tools.record.preflight import NetworkError
from tests.support import node_cases
from tests.support.node_cases import NodeCase, Why
from tests.support.sampling import SomeOf

pytestmark = pytest.mark.usefixtures("without_sandboxes")
RANDOM = np.random.default_rng(20261130)


def numbers(*shape: int) -> NDArray[np.float32]:
    return RANDOM.normal(0, 1, shape).astype(np.float32)


def steps(kind: str, *shape: int, below: int = 256) -> NDArray[Any]:
    low = -128 if kind == "int8" else 0
    return RANDOM.integers(low, low + below, shape).astype(kind)


SCALE, ZERO, SIGNED = np.float32(0.03), np.uint8(120), np.int8(3)
VECTOR = numbers(8)
# Name -> operator, inputs that are given, constants behind them (None: left out), attributes.
CASES: dict[str, tuple[str, Sequence[Any], Sequence[Any], Mapping[str, Any]]] = {
    "attention": ("Attention", [numbers(2, 5, 8)], [numbers(8, 24), numbers(24)], {"num_heads": 2}),
    "attention that looks back": (
        "Attention",
        [numbers(1, 4, 8)],
        [numbers(8, 24), numbers(24)],
        {"num_heads": 2, "unidirectional": 1},
    ),
    "attention with a mask": (
        "Attention",
        [numbers(1, 4, 8)],
        [numbers(8, 24), numbers(24), np.array([[1, 1, 1, 0]], np.int32)],
        {"num_heads": 4},
    ),
    "biased gelu": ("BiasGelu", [numbers(3, 8)], [VECTOR], {}),
    "fast gelu": ("FastGelu", [numbers(3, 8)], [VECTOR], {}),
    "gelu": ("Gelu", [numbers(3, 8)], [], {}),
    "quick gelu": ("QuickGelu", [numbers(3, 8)], [], {"alpha": 1.2}),
    "embeddings": (
        "EmbedLayerNormalization",
        [np.array([[1, 4, 0]], np.int32), np.array([[0, 1, 1]], np.int32)],
        [numbers(6, 8), numbers(5, 8), numbers(2, 8), VECTOR, numbers(8), None],
        {"epsilon": 1e-12},
    ),
    "a skip": (
        "SkipLayerNormalization",
        [numbers(1, 3, 8), numbers(1, 3, 8)],
        [VECTOR, numbers(8), numbers(8)],
        {},
    ),
    "a skip without mean": (
        "SkipSimplifiedLayerNormalization",
        [numbers(1, 3, 8), numbers(1, 3, 8)],
        [VECTOR],
        {},
    ),
    "turned": (
        "RotaryEmbedding",
        [numbers(1, 2, 4, 8), np.array([[0, 1, 2, 3]], np.int64)],
        [numbers(6, 4), numbers(6, 4)],
        {},
    ),
    "a product": ("FusedMatMul", [numbers(2, 3, 4), numbers(2, 5, 4)], [], {"transB": 1, "alpha": 0.5}),
    "a product of a picture": ("FusedMatMul", [numbers(2, 4, 3), numbers(4, 5)], [], {"transA": 1}),
    "an older product": ("TransposeMatMul", [numbers(3, 4), numbers(5, 4)], [], {"transB": 1}),
    "convolution, ReLU": (
        "FusedConv",
        [numbers(1, 2, 6, 6)],
        [numbers(3, 2, 3, 3), numbers(3)],
        {"activation": "Relu"},
    ),
    "convolution, sum": (
        "FusedConv",
        [numbers(1, 2, 6, 6)],
        [numbers(3, 2, 3, 3), numbers(3), numbers(1, 3, 4, 4)],
        {"activation": "Relu"},
    ),
    "convolution, clipped": (
        "FusedConv",
        [numbers(1, 2, 6, 6)],
        [numbers(3, 2, 3, 3), numbers(3)],
        {"activation": "Clip", "activation_params": [-0.5, 0.75]},
    ),
    "convolution, hard": (
        "FusedConv",
        [numbers(1, 2, 6, 6)],
        [numbers(3, 2, 3, 3), numbers(3)],
        {"activation": "HardSigmoid", "activation_params": [0.3, 0.4]},
    ),
    "gemm, leaky": (
        "FusedGemm",
        [numbers(3, 4)],
        [numbers(5, 4), numbers(5)],
        {"activation": "LeakyRelu", "activation_alpha": 0.2, "transB": 1},
    ),
    "four bits": (
        "MatMulNBits",
        [numbers(2, 40)],
        [steps("uint8", 6, 2, 16), numbers(12), steps("uint8", 6)],
        {"bits": 4, "block_size": 32, "K": 40, "N": 6},
    ),
    "four bits about 8": (
        "MatMulNBits",
        [numbers(2, 32)],
        [steps("uint8", 6, 2, 8), numbers(12)],
        {"bits": 4, "block_size": 16, "K": 32, "N": 6},
    ),
    "attention of 8 bits": (
        "QAttention",
        [steps("uint8", 1, 4, 8)],
        [steps("int8", 8, 24), numbers(24), SCALE, SCALE, None, ZERO, SIGNED],
        {"num_heads": 2},
    ),
}


def case(name: str) -> NodeCase:
    """The network, and what ONNX Runtime makes of it."""
    kind, given, constants, attributes = CASES[name]
    values = {f"x{at}": np.asarray(value) for at, value in enumerate(given)}
    fixed = {f"c{at}": np.asarray(value) for at, value in enumerate(constants) if value is not None}
    names = [*values, *(f"c{at}" if value is not None else "" for at, value in enumerate(constants))]
    outputs = ["y", "index"] if kind == "EmbedLayerNormalization" else ["y"]  # which has to have both
    node = helper.make_node(kind, names, outputs, domain="com.microsoft", **attributes)
    graph = helper.make_graph(
        [node],
        "fused",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
            for name, value in values.items()
        ],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in fixed.items()],
    )
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=sets, ir_version=9)
    expected = onnx_model.session(onnx_model.described(model))(values)
    return NodeCase(name, model.SerializeToString(), values, expected, 1e-4, 2e-5)


def test_operators(some_of: SomeOf) -> None:
    wrong = {
        name: found for name in some_of(list(CASES), 8) if (found := node_cases.run(case(name)))[0] != Why.PASSED
    }
    assert wrong == {}


@pytest.mark.parametrize(
    ("kind", "attributes", "said"),
    [
        ("FusedMatMul", {"transBatchA": 1}, "FusedMatMul with transposed batches"),
        ("FusedConv", {"activation": "Softplus"}, "FusedConv with the activation Softplus, which is none of"),
        ("MatMulNBits", {"K": 4, "N": 4}, "MatMulNBits: its weights, scales and zero points must be constants"),
    ],
)
def test_what_is_refused(kind: str, attributes: dict[str, Any], said: str) -> None:
    node = helper.make_node(kind, ["a", "b", "c"], ["y"], domain="com.microsoft", **attributes)
    inputs = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4, 4]) for name in "abc"]
    graph = helper.make_graph([node], "refused", inputs, [helper.make_tensor_value_info("y", 1, None)])
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    with pytest.raises(NetworkError, match=said):
        simplified.for_compiler(helper.make_model(graph, opset_imports=sets))
