# SPDX-License-Identifier: BSD-2-Clause
"""What is refused before anything boots: what is not compiled, and what computes something else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from host_tools.machine.errors import RecordError
from host_tools.record.compiled import network, runner, shaders, simplified, stretches
from host_tools.record.compiled.compilers import TINYGRAD, Compiler
from host_tools.record.compiled.layout import Layout, laid_out
from host_tools.record.compiled.plan import Kind, Plan
from host_tools.record.onnx_model import OnnxModel
from host_tools.record.preflight import NetworkError
from host_tools.record.tolerances import TOLERANCE
from tests.support.onnx_graphs import cast, model, node


def scaled(path: Path) -> OnnxModel:
    nodes = [node("Mul", "x two", "y"), node("Add", "y x", "z")]
    return model(path, nodes, {"x": ("float32", [4])}, {"z": "float32"}, {"two": np.array([2], np.float32)})


def test_a_kernel_that_computes_something_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Compiler.plan

    def lying(self: Compiler, data: bytes, *, wide: bool = False) -> Plan:
        plan = honest(self, data, wide=wide)
        assert any("+val" in kernel for kernel in plan.kernels)
        return replace(plan, kernels=[kernel.replace("+val", "-val") for kernel in plan.kernels])

    net = scaled(tmp_path / "net.onnx")
    assert network.compile_onnx(net, {}).differences["z"] < 1e-6
    monkeypatch.setattr(Compiler, "plan", lying)
    with pytest.raises(RecordError, match=r"output z of the compiled network differs on lavapipe .* by 6.67e-01"):
        network.compile_onnx(net, {})


@pytest.mark.parametrize(("own", "allowed"), [(0.0, TOLERANCE), (3e-4, 6e-4), (0.4, 5e-3)])
def test_a_reference_that_moves_without_roundings(
    own: float, allowed: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice what it moves by is allowed, up to a bound; nobody asks where the result is as near as usual."""
    net = scaled(tmp_path / "net.onnx")
    asked = []

    def steady(*_: object) -> float:
        asked.append(True)
        return own

    monkeypatch.setattr(stretches, "steady", steady)
    right, off = ({"z": np.array([1, by], np.float32)} for by in (0.5, 0.5004))
    assert network._widened(net, [({}, right)], [off], TOLERANCE, 0.0, None) == allowed
    assert asked
    asked.clear()
    assert network._widened(net, [({}, right)], [right], TOLERANCE, 0.0, None) == TOLERANCE
    assert not asked


@pytest.mark.parametrize(("off", "is_taken"), [("+1.01*val", True), ("+1.5*val", False)])
def test_a_step_of_a_rounded_output(
    off: str, is_taken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole numbers that are rounded at the end may be a step off, as what is rounded within may be."""
    honest = Compiler.plan

    def lying(self: Compiler, data: bytes, *, wide: bool = False) -> Plan:
        plan = honest(self, data, wide=wide)
        return replace(plan, kernels=[kernel.replace("+val", off) for kernel in plan.kernels])

    nodes = [node("Mul", "x two", "d"), node("Add", "d x", "z"), node("QuantizeLinear", "z step zero", "q")]
    nodes.append(node("Identity", "q", "y"))
    constants = {
        "two": np.full(1, 2, np.float32),
        "step": np.array(0.07, np.float32),
        "zero": np.array(0, np.int8),
    }
    net = model(tmp_path / "n.onnx", nodes, {"x": ("float32", [64])}, {"y": "int8"}, constants)
    monkeypatch.setattr(Compiler, "plan", lying)
    if is_taken:
        assert 0 < network.compile_onnx(net, {}).differences["y"] < 0.05
    else:
        with pytest.raises(RecordError, match=r"a stretch between two roundings .*: y, by 17"):
            network.compile_onnx(net, {})


@pytest.mark.parametrize("moves", [["Identity"], ["Unsqueeze", "Flatten"]])
@pytest.mark.parametrize("shift", [0.0, 11.0, 19.0])
def test_sigmoids_that_are_all_small(shift: float, moves: list[str], tmp_path: Path) -> None:
    """ONNX Runtime's are off by as much whatever their size, so that the reference computes them in double
    precision, also where something moves them before they leave."""
    nodes = [node("Tanh", "x", "t"), node("Sub", "t shift", "s"), node("Sigmoid", "s", "m0")]
    for number, move in enumerate(moves):
        inputs = f"m{number} zero" if move == "Unsqueeze" else f"m{number}"
        nodes.append(node(move, inputs, "y" if move == moves[-1] else f"m{number + 1}"))
    constants = {"shift": np.array([shift], np.float32), "zero": np.array([0])}
    net = model(tmp_path / "n.onnx", nodes, {"x": ("float32", [64])}, {"y": "float32"}, constants)
    found = network.compile_onnx(net, {})
    assert found.tolerance == TOLERANCE
    assert found.differences["y"] < 1e-5


def test_an_index_without_dimensions(tmp_path: Path) -> None:
    """tinygrad would start a C compiler to read it."""
    constants = {"at": np.array(1), "to": np.array(2)}
    nodes = [node("Gather", "x at", "a", axis=0), node("Gather", "x to", "b", axis=0), node("Add", "a b", "y")]
    found = network.compile_onnx(
        model(tmp_path / "n.onnx", nodes, {"x": ("float32", [3, 4])}, {"y": "float32"}, constants), {}
    )
    assert found.differences["y"] < 1e-6


@pytest.mark.parametrize("places", [[[0]], [[2, -1], [0, 0]], [[0, 1, 2], [1, 2, -1]]])
def test_constant_indices_of_two_dimensions(places: list[list[int]], tmp_path: Path) -> None:
    """tinygrad's own Gather takes a constant of one: the frames of a spectrum, for example, are a table."""
    nodes = [node("Gather", "x places", "y", axis=1)]
    found = network.compile_onnx(
        model(
            tmp_path / "n.onnx", nodes, {"x": ("float32", [2, 4])}, {"y": "float32"}, {"places": np.array(places)}
        ),
        {},
    )
    assert found.differences == {"y": 0.0}


def test_an_output_whose_name_is_a_number(tmp_path: Path) -> None:
    """It is not taken for the number of a buffer that constants are prepared in."""
    constants = {"w": np.arange(64, dtype=np.int8).reshape(8, 8)}
    nodes = [node("MatMulInteger", "x w", "m"), cast("m", "387", "float32")]
    plan = TINYGRAD.plan(
        simplified.simplified(
            model(tmp_path / "n.onnx", nodes, {"x": ("int8", [1, 8])}, {"387": "float32"}, constants),
            {"x": (1, 8)},
        )[1]
    )
    prepared, _ = plan.preparing()
    assert "387" in plan.named(Kind.OUTPUT)
    assert not prepared.named(Kind.INPUT)
    assert "387" not in prepared.named(Kind.OUTPUT)


def test_an_operator_that_tinygrad_lacks(tmp_path: Path) -> None:
    net = model(tmp_path / "n.onnx", [node("Bernoulli", "x", "y")], {"x": ("float32", [2, 2])}, {"y": "float32"})
    said = r"^tinygrad cannot compile it: node \S+ \(RandomUniformLike\): there is no such operator$"
    with pytest.raises(NetworkError, match=said):
        network.compile_onnx(net, {})


def test_an_index_outside_of_a_table_is_no_input(tmp_path: Path) -> None:
    """Whole numbers are drawn below what ONNX Runtime takes."""
    table = np.arange(6, dtype=np.float32).reshape(2, 3)
    net = model(
        tmp_path / "n.onnx", [node("Gather", "t i", "y")], {"i": ("int64", [5])}, {"y": "float32"}, {"t": table}
    )
    found = network.compile_onnx(net, {})
    assert all(given["i"].max() < 2 for given, _ in found.cases)
    assert found.differences == {"y": 0.0}


def test_a_given_value_is_recorded(tmp_path: Path) -> None:
    value = np.array([1, 2, 3, 4], np.float64)
    found = network.compile_onnx(scaled(tmp_path / "net.onnx"), {}, values={"x": value})
    assert found.cases[0][0]["x"].tolist() == value.tolist()
    assert found.cases[1][0]["x"].tolist() != value.tolist()


@pytest.mark.parametrize(
    ("value", "said"), [(np.zeros(3), "input x: expected .*4.*found .*3"), (None, "no input 'q'")]
)
def test_a_value_that_does_not_fit(value: np.ndarray | None, said: str, tmp_path: Path) -> None:
    values = {"x": value} if value is not None else {"q": np.zeros(4)}
    with pytest.raises(NetworkError, match=said):
        network.compile_onnx(scaled(tmp_path / "net.onnx"), {}, values=values)


def test_a_kernel_that_is_no_glsl() -> None:
    with pytest.raises(RecordError, match=r"glslangValidator refuses a kernel: ERROR: .*syntax error"):
        shaders.spirv(["#version 450\nvoid main() {"])


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> network.Compiled:
    return network.compile_onnx(scaled(tmp_path_factory.mktemp("compiled") / "net.onnx"), {})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda words: b"", "plan ends early, at word: 0"),
        (lambda words: b"\0\0\0\0" + words[4:], "no plan"),
        (lambda words: words[:-4], "plan ends early"),
        (lambda words: words[:-12] + b"\x03\0\0\0" + words[-8:], "a binding outside of its memory"),
        (lambda words: words[:-12] + b"\x04\0\0\0" + words[-8:], "a binding outside of its memory"),
        (lambda words: words[:-8] + b"\xff\xff\xff\xff" + words[-4:], "a binding outside of its memory"),
        (lambda words: words[:28] + b"\x09\0\0\0" + words[32:], "a kernel with so many bindings"),
    ],
)
def test_the_runner_refuses_a_damaged_plan(
    change: object, said: str, compiled: network.Compiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = Layout.words
    assert callable(change)
    monkeypatch.setattr(Layout, "words", lambda self, code: change(honest(self, code)))
    with pytest.raises(RecordError, match=f"does not run on lavapipe: (?s:.*){said}"):
        runner.judged(laid_out(compiled.layout.plan), compiled.shaders, compiled.cases[0][0])


def test_a_mask_among_words(tmp_path: Path) -> None:
    """Words may be any, the mask 0 or 1: another value makes infinities, and of these what is no number."""
    constants = {
        "table": np.random.default_rng(1).normal(size=(300, 4)).astype(np.float32),
        "one": np.array(1, np.float32),
        "least": np.array(np.finfo(np.float32).min),
    }
    nodes = [
        node("Gather", "table words", "found"),
        cast("mask", "m", "float32"),
        node("Sub", "one m", "hidden"),
        node("Mul", "hidden least", "far"),
        node("Add", "found far", "scores"),
        node("Softmax", "scores", "y"),
    ]
    inputs = {"words": ("int64", [4]), "mask": ("int64", [4])}
    found = network.compile_onnx(model(tmp_path / "n.onnx", nodes, inputs, {"y": "float32"}, constants), {})
    for given, _ in found.cases:
        assert given["mask"].max() <= 1
        assert given["words"].max() > 1


def test_what_is_no_number(tmp_path: Path) -> None:
    nodes = [node("Log", "x", "y")]
    net = model(tmp_path / "n.onnx", nodes, {"x": ("float32", [64])}, {"y": "float32"})
    with pytest.raises(NetworkError, match="output y: ONNX Runtime's own result has values that are no numbers"):
        network.compile_onnx(net, {})
    likely = {"x": np.linspace(1, 2, 64, dtype=np.float32)}
    assert network.compile_onnx(net, {}, values=likely).differences["y"] < TOLERANCE
