# SPDX-License-Identifier: BSD-2-Clause
"""A reference that moves is found before anything is compiled, and then stretches are compared."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from host_tools.machine.errors import RecordError
from host_tools.record.compiled import stretches
from host_tools.record.compiled.compilers import TINYGRAD
from host_tools.record.compiled.network import compile_onnx, ready
from host_tools.record.onnx_model import OnnxModel
from tests.support.onnx_graphs import model, node

pytestmark = pytest.mark.usefixtures("without_sandboxes")
SIZE, ROUNDS = 8, 2
INPUTS = {"x": ("float32", [1, SIZE])}


def network(path: Path, gain: float) -> OnnxModel:
    """Products that are rounded to 8 bits: with a large gain one step more fills the output's range."""
    generator = np.random.default_rng(5)
    weights = {f"w{at}": generator.normal(0, 1, (SIZE, SIZE)).astype(np.float32) for at in range(ROUNDS)}
    weights |= {"scale": np.array(0.05, np.float32), "zero": np.array(128, np.uint8)}
    weights["middle"], weights["gain"] = np.array(0.3, np.float32), np.array(gain, np.float32)
    nodes, name = [], "x"
    for at in range(ROUNDS):
        nodes += [
            node("MatMul", f"{name} w{at}", f"m{at}"),
            node("QuantizeLinear", f"m{at} scale zero", f"q{at}"),
            node("DequantizeLinear", f"q{at} scale zero", f"d{at}"),
        ]
        name = f"d{at}"
    nodes += [node("Sub", f"{name} middle", "s"), node("Mul", "s gain", "g"), node("Sigmoid", "g", "y")]
    return model(path, nodes, INPUTS, {"y": "float32"}, weights)


def on_a_tie(found: OnnxModel) -> dict[str, np.ndarray]:
    """An input whose first product lies between two steps."""
    graph = onnx.load_model_from_string(found.data).graph
    weights = {item.name: numpy_helper.to_array(item) for item in graph.initializer}
    steps = np.arange(SIZE) + 0.5
    return {"x": np.linalg.solve(weights["w0"].T.astype(float), steps * 0.05)[None].astype(np.float32)}


def test_a_network_that_moves(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    found = network(tmp_path / "n.onnx", 20.0)
    given = on_a_tie(found)
    assert stretches.moves(found, given) > 0.05
    with caplog.at_level("INFO"):
        made = compile_onnx(found, {}, values=given)
    assert "ONNX Runtime itself moves by" in caplog.text
    assert made.tolerance > 0.1


def test_a_network_that_does_not(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    found = network(tmp_path / "n.onnx", 0.1)
    given = {"x": np.full((1, SIZE), 0.31, np.float32)}
    assert stretches.moves(found, given) < 1e-2
    with caplog.at_level("INFO"):
        compile_onnx(found, {}, values=given)
    assert "moves by" not in caplog.text


def test_a_stretch_that_is_wrong(tmp_path: Path) -> None:
    """By two steps, of one rounding; or at the end."""
    found = network(tmp_path / "n.onnx", 1.0)
    made = stretches.cut(found.data, on_a_tie(found))
    assert list(made.probes) == ["q0", "q1"]
    right = {probe: made.expected[name] for name, probe in made.probes.items()} | {"y": made.expected["y"]}
    assert stretches.wrong(made, right) is None
    for steps, said in ((1, None), (2, "q1, by 2 where 1 is allowed")):
        off = {**right, made.probes["q1"]: made.expected["q1"] - np.uint8(steps)}
        assert stretches.wrong(made, off) == said
    assert str(stretches.wrong(made, {**right, "y": made.expected["y"] + 1})).startswith("y, by ")


def test_a_loop_that_rounds_within_has_several_right_results() -> None:
    one, two = np.ones(3, np.float32), np.full(3, 2, np.float32)
    made = stretches.Cut(b"", {"h": "h/computed"}, ("h",), {"h": one})
    assert stretches.wrong(made, {"h/computed": two}) == "h, by 1 where 0.05 is allowed"
    assert stretches.wrong(made, {"h/computed": two}, [{"h": two}]) is None


def test_stretches_of_a_wrong_compiler_are_refused(tmp_path: Path) -> None:
    found = network(tmp_path / "n.onnx", 1.0)
    other = onnx.load_model_from_string(found.data)

    for item in other.graph.initializer:
        if item.name == "w1":
            item.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(item) * 2, "w1"))
    compiled = ready(TINYGRAD.plan(other.SerializeToString()))
    with pytest.raises(RecordError, match=r"a stretch between two roundings .*: q1, by"):
        stretches.compare(found.data, on_a_tie(found), "it moves", *compiled)
