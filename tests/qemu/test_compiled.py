# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone record onnx` of networks that ncnn does not run, to the secure world, against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray

from host_tools import runners
from host_tools.audit.dynamic import lint_dynamic
from host_tools.cli import main
from host_tools.machine.root import RecordRoot
from host_tools.model.job_names import job_names
from host_tools.record import onnx_model
from host_tools.record.differences import relative_difference
from signing.delivery import Delivery
from signing.keys import Algorithm, generate
from signing.sign import FileSigner, sign_trace
from tests.support.onnx_graphs import cast, graph, node
from trace_format.trace import Trace

TOLERANCE = 1e-5
LETTERS, WIDTH, HIDDEN, STEPS = 11, 6, 8, 4


def reader(path: Path) -> Path:
    """Letters of 64 bits, a table, an LSTM with its state, scores, the best of them, and whether it is likely."""
    generator = np.random.default_rng(4)

    def values(*shape: int) -> NDArray[np.float32]:
        return generator.normal(0, 0.5, shape).astype(np.float32)

    constants = {
        "table": values(LETTERS, WIDTH),
        "w": values(1, 4 * HIDDEN, WIDTH),
        "r": values(1, 4 * HIDDEN, HIDDEN),
        "b": values(1, 8 * HIDDEN),
        "last": values(HIDDEN, LETTERS),
        "half": np.array([0.1], np.float32),
    }
    nodes = [
        node("Gather", "table text", "embedded"),
        node("LSTM", "embedded w r b - h c", "all next_h next_c", hidden_size=HIDDEN),
        node("Squeeze", "next_h", "state"),
        node("MatMul", "state last", "scores"),
        node("Softmax", "scores", "chances"),
        node("ArgMax", "chances", "best", axis=-1, keepdims=0),
        node("Greater", "chances half", "likely"),
        cast("likely", "marks", "int8"),
    ]
    inputs = {"text": ("int64", [STEPS, 1])} | dict.fromkeys("hc", ("float32", [1, 1, HIDDEN]))
    outputs = {"chances": "float32", "best": "int64", "likely": "bool", "marks": "int8", "next_c": "float32"}
    return graph(path, nodes, inputs, outputs, constants)


def gramophone(*words: object, status: int = 0) -> str:
    result = CliRunner().invoke(main, list(map(str, words)), catch_exceptions=False)
    assert result.exit_code == status, result.output
    return result.stderr


# A V3D's networks by tinygrad: test_self_test.py.
@pytest.mark.parametrize(
    "gpu",
    ["mali_g52r1", *(pytest.param(gpu, marks=pytest.mark.exhaustive) for gpu in ("v3d42", "v3d71", "mali_g71"))],
)
def test_a_network_of_several_types(gpu: str, root: RecordRoot, tmp_path: Path) -> None:
    model, raw, built = reader(tmp_path / "net.onnx"), tmp_path / "raw.gtr", tmp_path / "built.gtr"
    said = gramophone("record", "onnx", model, "--gpu", gpu, "-o", raw, "--save-expected", tmp_path / "expected")
    given, made = (
        {file.stem: np.load(file) for file in (tmp_path / "expected" / kind).iterdir()}
        for kind in ("inputs", "outputs")
    )
    wide = {name: value.astype(np.int64) if name == "text" else value for name, value in given.items()}
    for name, value in onnx_model.run(onnx_model.read(model), wide).items():
        assert np.array_equal(made[name], value.reshape(made[name].shape)), name
    assert "by tinygrad: ncnn does not take it: input text: ncnn takes float32, found int64" in said
    names = job_names(Trace.read(raw))
    assert any("(LSTM)" in name for name in names)
    assert any("(Softmax)" in name for name in names)
    gramophone("build", raw, "-o", built)
    errors = {
        finding.rule.id for finding in lint_dynamic(Trace.read(built))[0] if finding.rule.severity.value == "error"
    }
    assert errors == set()  # GR707, of registers that are not written, where a load was a branch
    generator = np.random.default_rng(9)
    inputs: dict[str, NDArray[Any]] = {
        "text": generator.integers(0, LETTERS, (STEPS, 1)),
        "h": generator.normal(0, 1, (1, 1, HIDDEN)).astype(np.float32),
        "c": generator.normal(0, 1, (1, 1, HIDDEN)).astype(np.float32),
    }
    expected = onnx_model.run(onnx_model.read(model), inputs)
    given = {name: value.astype(np.int32) if value.dtype == np.int64 else value for name, value in inputs.items()}
    signer = FileSigner(generate(Algorithm.ES256))
    signed = Delivery(sign_trace(built.read_bytes(), signer))
    result = runners.run("qemu", signed, signer.public, given)
    assert result.ok, result.error
    assert {name: tensor.dtype.name for name, tensor in result.outputs.items()} == {
        "chances": "float32",
        "best": "int32",
        "likely": "uint8",
        "marks": "int8",
        "next_c": "float32",
    }
    for name, value in expected.items():
        difference = relative_difference(result.outputs[name].reshape(value.shape), value)
        assert difference <= (TOLERANCE if value.dtype == np.float32 else 0), name


def test_what_neither_takes_says_both_reasons(root: RecordRoot, tmp_path: Path) -> None:
    model = graph(tmp_path / "n.onnx", [node("Bernoulli", "x", "y")], {"x": ("float32", [2, 3])}, {"y": "float32"})
    said = gramophone("record", "onnx", model, "-o", tmp_path / "raw.gtr", status=2)
    assert "pnnx " in said
    assert ": tinygrad cannot compile it: " in said
    assert said.count("error: ") == 1
    said = gramophone("record", "onnx", model, "-o", tmp_path / "raw.gtr", "--compiler", "tinygrad", status=2)
    assert "pnnx" not in said
    assert not (tmp_path / "raw.gtr").exists()
