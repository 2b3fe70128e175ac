# SPDX-License-Identifier: BSD-2-Clause
"""A further compiler is one file: toy_compiler.py takes a single Relu, and goes the way that all go."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from host_tools.record.compiled.compilers import COMPILERS, Compiler
from host_tools.record.compiled.network import compile_onnx
from host_tools.record.preflight import NetworkError
from host_tools.support.sandbox import OFF, VARIABLE
from tests.support.onnx_graphs import model, node

TOY = Compiler("toy", "tests.support.toy_compiler")


@pytest.fixture(autouse=True)
def found_as_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests are no installed package, and the sandbox would not let it read them."""
    monkeypatch.setenv(VARIABLE, OFF)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[4]))


def test_a_third_compiler(tmp_path: Path) -> None:
    net = model(tmp_path / "net.onnx", [node("Relu", "x", "y")], {"x": ("float32", [5, 3])}, {"y": "float32"})
    found = compile_onnx(net, {}, compiler=TOY)
    assert found.differences == {"y": 0.0}
    assert [call.name for call in found.layout.plan.calls] == ["relu"]


def test_what_it_does_not_take_is_said_in_its_words(tmp_path: Path) -> None:
    net = model(tmp_path / "net.onnx", [node("Exp", "x", "y")], {"x": ("float32", [5])}, {"y": "float32"})
    with pytest.raises(NetworkError, match=r"^toy cannot compile it: Exp is none of mine$"):
        compile_onnx(net, {}, compiler=TOY)


def test_every_compiler_has_a_version() -> None:
    for name, compiler in COMPILERS.items():
        assert compiler.version.startswith(f"{name} ")
        assert np.prod([int(part) for part in compiler.version.split()[1].split(".")]) >= 0
