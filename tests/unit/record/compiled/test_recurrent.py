# SPDX-License-Identifier: BSD-2-Clause
"""LSTM and GRU in every direction, with and without what they may be given, against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from host_tools.record import onnx_model
from host_tools.record.compiled.network import compile_onnx
from host_tools.record.preflight import NetworkError
from tests.support.onnx_drawing import drawn
from tests.support.onnx_graphs import model, node
from tests.support.sampling import SomeOf

STEPS, BATCH, FEATURES, HIDDEN = 3, 2, 4, 5
DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}


def weights(gates: int, directions: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(3)
    shapes = {
        "w": (directions, gates * HIDDEN, FEATURES),
        "r": (directions, gates * HIDDEN, HIDDEN),
        "b": (directions, 2 * gates * HIDDEN),
    }
    return {name: generator.normal(0, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(("kind", "state"), [("LSTM", True), ("LSTM", False), ("GRU", True)])
def test_it_computes_what_onnx_runtime_does(kind: str, state: bool, direction: str, tmp_path: Path) -> None:
    directions = DIRECTIONS[direction]
    gates = 4 if kind == "LSTM" else 3
    outputs = dict.fromkeys(("y", "h", "c") if kind == "LSTM" else ("y", "h"), "float32")
    inputs = {"x": ("float32", [STEPS, BATCH, FEATURES])}
    given = "x w r b -"
    if state:
        names = ("h0", "c0") if kind == "LSTM" else ("h0",)
        inputs |= {name: ("float32", [directions, BATCH, HIDDEN]) for name in names}
        given += f" {' '.join(names)}"
    nodes = [node(kind, given, " ".join(outputs), hidden_size=HIDDEN, direction=direction)]
    found = compile_onnx(model(tmp_path / "n.onnx", nodes, inputs, outputs, weights(gates, directions)), {})
    assert set(found.differences) == set(outputs)
    assert max(found.differences.values()) < 2e-6


def test_a_reset_before_the_product(tmp_path: Path, some_of: SomeOf) -> None:
    for linear in some_of((0, 1), 1):
        nodes = [node("GRU", "x w r b", "y", hidden_size=HIDDEN, linear_before_reset=linear)]
        inputs = {"x": ("float32", [STEPS, BATCH, FEATURES])}
        found = compile_onnx(model(tmp_path / "n.onnx", nodes, inputs, {"y": "float32"}, weights(3, 1)), {})
        assert found.differences["y"] < 2e-6


@pytest.mark.parametrize(
    ("attributes", "said"),
    [({"clip": 0.5}, "clip"), ({"activations": ["HardSigmoid", "Tanh", "Tanh"]}, "HardSigmoid")],
)
def test_a_variant_that_is_not_computed_is_refused(
    attributes: dict[str, object], said: str, tmp_path: Path
) -> None:
    nodes = [node("LSTM", "x w r b", "y", hidden_size=HIDDEN, **attributes)]
    inputs = {"x": ("float32", [STEPS, BATCH, FEATURES])}
    with pytest.raises(NetworkError, match=rf"tinygrad cannot compile it: node y \(LSTM\): .*{said}"):
        compile_onnx(model(tmp_path / "n.onnx", nodes, inputs, {"y": "float32"}, weights(4, 1)), {})


@pytest.mark.exhaustive  # an LSTM after its weights are floats
def test_weights_and_activations_of_8_bits(tmp_path: Path) -> None:
    """ONNX Runtime's own operator, which its quantizer writes."""
    generator = np.random.default_rng(5)
    constants = {
        "w": generator.integers(-127, 128, (2, FEATURES, 4 * HIDDEN)).astype(np.int8),
        "r": generator.integers(-127, 128, (2, HIDDEN, 4 * HIDDEN)).astype(np.int8),
        "b": weights(4, 2)["b"],
        "ws": np.array([0.01, 0.012], np.float32),
        "wz": np.array([0, 3], np.int8),
        "rs": np.array([0.008, 0.01], np.float32),
        "rz": np.array([1, 0], np.int8),
    }
    kind = node("DynamicQuantizeLSTM", "x w r b - - - - ws wz rs rz", "y h c", direction="bidirectional")
    kind.domain = "com.microsoft"
    kind.attribute.append(helper.make_attribute("hidden_size", HIDDEN))
    outputs = dict.fromkeys(("y", "h", "c"), "float32")
    net = model(tmp_path / "n.onnx", [kind], {"x": ("float32", [STEPS, 1, FEATURES])}, outputs, constants)
    found = compile_onnx(net, {})
    assert max(found.differences.values()) < 2e-6


@pytest.mark.exhaustive  # as tests/qemu/test_random_onnx.py, which draws such networks
def test_steps_that_a_product_reads(tmp_path: Path) -> None:
    """Two layers of two directions: a kernel read each step's result, had nine buffers, and no driver took it."""
    path = tmp_path / "net.onnx"
    path.write_bytes(drawn([54]))
    network = onnx_model.read(path)
    assert {"GRU", "RNN"} <= network.operators.keys()
    found = compile_onnx(network, {})
    assert max(found.differences.values()) < 1e-6
    assert max(len(call.views) for call in found.layout.plan.calls) <= 8
