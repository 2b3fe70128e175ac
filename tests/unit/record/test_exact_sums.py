# SPDX-License-Identifier: BSD-2-Clause
"""The reference for DynamicQuantizeLSTM: exact sums, and ONNX Runtime's own where that cannot overflow."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from host_tools.record import onnx_model
from host_tools.record.compiled import stretches
from host_tools.record.exact_sums import exact

STEPS, BATCH, FEATURES, HIDDEN = 9, 2, 24, 32
SAFE, MOST = 63, 127  # steps of weights: of pairs that fit into 16 bits, and of all
Arrays = dict[str, NDArray[Any]]


def layer(most: int, directions: int, opset: int = 17, **changed: Any) -> tuple[bytes, Arrays, Arrays]:
    """A file with one operator, its constants, its inputs."""
    random = np.random.default_rng([most, directions])
    constants: Arrays = {
        "w": random.integers(-most, most + 1, (directions, FEATURES, 4 * HIDDEN)).astype(np.int8),
        "r": random.integers(-most, most + 1, (directions, HIDDEN, 4 * HIDDEN)).astype(np.int8),
        "b": random.normal(0, 0.3, (directions, 8 * HIDDEN)).astype(np.float32),
        "ws": np.full(directions, 0.1 / most, np.float32),
        "wz": np.arange(directions).astype(np.int8),
        "rs": np.full(directions, 0.08 / most, np.float32),
        "rz": np.zeros(directions, np.int8),
    }
    inputs = {name: random.normal(0, 1, (directions, BATCH, HIDDEN)).astype(np.float32) for name in ("h0", "c0")}
    inputs["x"] = random.normal(0, 1, (STEPS, BATCH, FEATURES)).astype(np.float32)
    names = ["x", "w", "r", "b", "", "h0", "c0", "", "ws", "wz", "rs", "rz"]
    attributes = {"direction": "bidirectional" if directions == 2 else "forward", "hidden_size": HIDDEN} | changed
    node = helper.make_node("DynamicQuantizeLSTM", names, ["y", "h", "c"], domain="com.microsoft", **attributes)
    graph = helper.make_graph(
        [node],
        "layer",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, value.shape) for name, value in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "h", "c")],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    sets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=sets, ir_version=7).SerializeToString(), constants, inputs


def rounded(x: NDArray[np.float32]) -> tuple[NDArray[np.int64], np.float32]:
    """DynamicQuantizeLinear: whole numbers about 0, and their step."""
    low, high = min(x.min(), np.float32(0)), max(x.max(), np.float32(0))
    step = np.float32((high - low) / np.float32(255))
    zero = np.rint(np.clip(-low / step, 0, 255))
    return (np.clip(np.rint(x / step) + zero, 0, 255) - zero).astype(np.int64), step


def by_whole_numbers(constants: Arrays, inputs: Arrays) -> NDArray[np.float32]:
    """The last state of each direction, with sums of int64."""

    def product(x: NDArray[np.float32], weights: str, scale: str, zero: str, d: int) -> NDArray[np.float32]:
        whole, step = rounded(x)
        sums = whole @ (constants[weights][d].astype(np.int64) - int(constants[zero][d]))
        return np.asarray(sums.astype(np.float32) * (step * constants[scale][d]), np.float32)

    def sigmoid(x: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.asarray(1 / (1 + np.exp(-x)), np.float32)

    found = []
    for d in range(len(constants["w"])):
        bias_in, bias = np.split(constants["b"][d], 2)
        fed = product(inputs["x"], "w", "ws", "wz", d) + bias_in
        h, c = inputs["h0"][d], inputs["c0"][d]
        for at in reversed(range(STEPS)) if d else range(STEPS):
            i, o, f, g = np.split(fed[at] + product(h, "r", "rs", "rz", d) + bias, 4, axis=-1)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
        found.append(h)
    return np.array(found, np.float32)


def reference(data: bytes, inputs: Arrays) -> Arrays:
    return onnx_model.session(onnx_model.described(onnx.load_model_from_string(data)))(inputs)


@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("opset", [11, 17])
def test_the_reference_has_exact_sums(directions: int, opset: int) -> None:
    data, constants, inputs = layer(MOST, directions, opset)
    found = reference(data, inputs)
    assert np.abs(found["h"] - by_whole_numbers(constants, inputs)).max() < 1e-6
    assert np.array_equal(found["y"][-1, 0], found["h"][0])


def test_it_is_what_onnx_runtime_computes_where_nothing_overflows() -> None:
    data, _, inputs = layer(SAFE, 2)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = (
        1  # several threads take a part of the batch each, and round it by its own range
    )
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    for value, own in zip(reference(data, inputs).values(), session.run(None, inputs), strict=True):
        assert value.shape == own.shape
        assert np.abs(value - own).max() < 1e-6


def test_states_that_are_moved_are_found_behind_inputs_that_are_not() -> None:
    """Whole numbers as inputs have no last bit: only a nudge within shows what roundings make of one."""
    data, _, inputs = layer(MOST, 1)
    network = onnx.load_model_from_string(data)
    casts = [helper.make_node("Cast", [f"{name}i"], [name], to=TensorProto.FLOAT) for name in inputs]
    whole = {f"{name}i": np.rint(value * 4).astype(np.int32) for name, value in inputs.items()}
    nodes = [*casts, *network.graph.node]
    del network.graph.input[:], network.graph.node[:]
    network.graph.node.extend(nodes)
    for name, value in whole.items():
        network.graph.input.append(helper.make_tensor_value_info(name, TensorProto.INT32, value.shape))
    model = onnx_model.described(network)
    base, moved = onnx_model.session(model)(whole), onnx_model.session(model, nudge=2.0**-22)(whole)
    assert stretches.moves(model, whole) >= np.abs(base["h"] - moved["h"]).max() > 0


def test_alternatives_are_of_layers_that_are_cut() -> None:
    data, _, inputs = layer(MOST, 1)
    network = onnx.load_model_from_string(data)
    network.graph.node.append(helper.make_node("Neg", ["h"], ["end"]))
    del network.graph.output[:]
    network.graph.output.append(helper.make_tensor_value_info("end", TensorProto.FLOAT, None))
    made = stretches.cut(network.SerializeToString(), inputs)
    others = stretches.alternatives(made, inputs)
    assert [set(other) for other in others] == [{"y", "h", "c"}] * len(stretches.NUDGES)
    assert 0 < max(np.abs(other["h"] - made.expected["h"]).max() for other in others) < 1e-2


@pytest.mark.parametrize("changed", [{"clip": 0.5}, {"activations": ["Sigmoid", "Relu", "Tanh"]}])
def test_what_is_left_to_onnx_runtime(changed: dict[str, Any]) -> None:
    data, _, _ = layer(SAFE, 1, **changed)
    assert exact(data) == data
