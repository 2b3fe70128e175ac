# SPDX-License-Identifier: BSD-2-Clause
"""GroupQueryAttention, and a decoder's layer as ONNX Runtime's tools for language models write it: compiled, they
compute what ONNX Runtime computes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from host_tools.record import onnx_model
from host_tools.record.compiled import simplified
from host_tools.record.preflight import NetworkError
from tests.support import node_cases
from tests.support.node_cases import NodeCase, Why
from tests.support.sampling import SomeOf

pytestmark = pytest.mark.usefixtures("without_sandboxes")
RANDOM = np.random.default_rng(20261201)
HEADS, SHARED, SIZE, PLACES = 4, 2, 16, 16
Tensors = dict[str, NDArray[Any]]
# batch, queries, length of the caches before, total, texts' lengths, and what else there is.
CASES: dict[str, tuple[int, int, int, int, list[int], Mapping[str, Any]]] = {
    "one token": (1, 1, 6, 6, [4], {}),
    "one token, turned": (2, 1, 6, 6, [6, 3], {"do_rotary": 1}),
    "turned in pairs": (1, 1, 6, 6, [3], {"do_rotary": 1, "rotary_interleaved": 1}),
    "caches that grow": (1, 2, 6, 8, [5], {"do_rotary": 1}),
    "a text": (1, 6, 0, 6, [6], {"do_rotary": 1}),
    "texts with an end": (2, 6, 8, 6, [6, 4], {"bias": 1}),
    "a window": (1, 3, 9, 9, [7], {"local_window_size": 2}),
    "a cap and a bias": (1, 1, 6, 6, [5], {"softcap": 2.0, "bias": 1}),
    "joined": (1, 1, 6, 6, [6], {"joined": 1, "do_rotary": 1, "scale": 0.3}),
    "places that are given": (1, 2, 6, 6, [6], {"places": 1, "do_rotary": 1}),
}


def numbers(*shape: int) -> NDArray[np.float32]:
    return RANDOM.normal(0, 1, shape).astype(np.float32)


def network(nodes: list[Any], inputs: Tensors, outputs: list[str], constants: Tensors) -> Any:
    graph = helper.make_graph(
        nodes,
        "grouped",
        [
            helper.make_tensor_value_info(key, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
            for key, value in inputs.items()
        ],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(value, key) for key, value in constants.items()],
    )
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=sets, ir_version=9)


def judged(name: str, model: Any, inputs: Tensors) -> NodeCase:
    expected = onnx_model.session(onnx_model.described(model))(inputs)
    return NodeCase(name, model.SerializeToString(), inputs, expected, 1e-4, 2e-5)


def case(name: str) -> NodeCase:
    batch, queries, past, total, ends, options = CASES[name]
    rest = dict(options)
    wide = HEADS + 2 * SHARED if rest.pop("joined", 0) else HEADS
    given: Tensors = {"query": numbers(batch, queries, wide * SIZE)}
    if wide == HEADS:
        given |= {one: numbers(batch, queries, SHARED * SIZE) for one in ("key", "value")}
    if past:
        given |= {one: numbers(batch, SHARED, past, SIZE) for one in ("past_key", "past_value")}
    given["ends"] = np.array(ends, np.int32) - 1
    constants: Tensors = {"total": np.array(total, np.int32)}
    if rest.get("do_rotary"):
        constants |= {one: numbers(PLACES, SIZE // 2) for one in ("cos", "sin")}
    if rest.pop("places", 0):
        given["places"] = RANDOM.integers(0, PLACES, (batch, queries))
    if rest.pop("bias", 0):
        given["bias"] = numbers(batch, HEADS, queries, total)
    order = ["query", "key", "value", "past_key", "past_value", "ends", "total", "cos", "sin", "places", "bias"]
    names = [one if one in given or one in constants else "" for one in order]
    outputs = ["y", "present_key", "present_value"]
    options = {"num_heads": HEADS, "kv_num_heads": SHARED, **rest}
    node = helper.make_node("GroupQueryAttention", names, outputs, domain="com.microsoft", **options)
    return judged(name, network([node], given, outputs, constants), given)


def test_attention(some_of: SomeOf) -> None:
    wrong = {
        name: found for name in some_of(list(CASES), 6) if (found := node_cases.run(case(name)))[0] != Why.PASSED
    }
    assert wrong == {}


def test_a_decoder_s_layer() -> None:
    """Weights of 4 bits, lengths and total of a mask: the total follows from the mask's shape."""
    width, rows, length = HEADS * SIZE, 12, 6
    constants: Tensors = {"scale": numbers(width), "axes": np.array([1]), "one": np.array([1])}
    constants |= {one: numbers(PLACES, SIZE // 2) for one in ("cos", "sin")}
    constants |= {"first": np.array(1), "i": RANDOM.integers(0, 256, (rows, width // 2)).astype(np.uint8)}
    constants["i_s"] = numbers(rows, width // 32)

    def few(name: str, x: str, columns: int) -> Any:
        constants[f"{name}_w"] = RANDOM.integers(0, 256, (columns, width // 32, 16)).astype(np.uint8)
        constants[f"{name}_s"] = numbers(columns * width // 32) / 8
        given, options = [x, f"{name}_w", f"{name}_s"], {"bits": 4, "block_size": 32, "K": width, "N": columns}
        return helper.make_node("MatMulNBits", given, [name], domain="com.microsoft", **options)

    def node(kind: str, inputs: list[str], output: str, domain: str = "", **options: Any) -> Any:
        return helper.make_node(kind, inputs, output.split(), domain=domain, **options)

    runtime = "com.microsoft"
    nodes = [
        node("GatherBlockQuantized", ["i", "token", "i_s"], "x", runtime, bits=4, block_size=32, quantize_axis=1),
        node("SimplifiedLayerNormalization", ["x", "scale"], "normed", axis=-1, epsilon=1e-6),
        few("qkv", "normed", (HEADS + 2 * SHARED) * SIZE),
        node("ReduceSum", ["mask", "axes"], "ones", keepdims=0),
        node("Sub", ["ones", "one"], "last"),
        node("Cast", ["last"], "ends", to=TensorProto.INT32),
        node("Shape", ["mask"], "sizes"),
        node("Gather", ["sizes", "first"], "length", axis=0),
        node("Cast", ["length"], "total", to=TensorProto.INT32),
        node(
            "GroupQueryAttention",
            ["qkv", "", "", "past_key", "past_value", "ends", "total", "cos", "sin"],
            "attended present_key present_value",
            runtime,
            num_heads=HEADS,
            kv_num_heads=SHARED,
            do_rotary=1,
        ),
        few("out", "attended", width),
        node("SkipSimplifiedLayerNormalization", ["x", "out", "scale"], "y", runtime, epsilon=1e-6),
    ]
    given: Tensors = {
        "token": np.array([[7]], np.int64),
        "mask": np.array([[1, 1, 1, 1, 0, 0]], np.int64),
        **{one: numbers(1, SHARED, length, SIZE) for one in ("past_key", "past_value")},
    }
    model = network(nodes, given, ["y", "present_key", "present_value"], constants)
    assert node_cases.run(judged("a layer", model, given))[0] == Why.PASSED


@pytest.mark.parametrize(
    ("options", "inputs", "said"),
    [
        ({}, 9, "expected a total_sequence_length that follows from the shapes"),
        ({"smooth_softmax": 1}, 9, "with smooth_softmax, which is not taken"),
        ({}, 12, "with head_sink, which is not taken"),
    ],
)
def test_what_is_refused(options: dict[str, Any], inputs: int, said: str) -> None:
    names = [f"x{at}" for at in range(inputs)]
    node = helper.make_node("GroupQueryAttention", names, ["y", "k", "v"], domain="com.microsoft", **options)
    is_fixed = bool(options) or inputs > 9
    model = network([node], {}, ["y"], {"x6": np.array(6, np.int32)} if is_fixed else {})
    with pytest.raises(NetworkError, match=said):
        simplified.for_compiler(model)
