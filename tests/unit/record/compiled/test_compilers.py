# SPDX-License-Identifier: BSD-2-Clause
"""A further compiler is one file: toy_compiler.py takes a single Relu, and goes the way that all go."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from host_tools.record.compiled.compilers import COMPILERS, Compiler
from host_tools.record.compiled.network import compile_onnx
from host_tools.record.preflight import NetworkError
from host_tools.support import programs
from host_tools.support.sandbox import OFF, VARIABLE
from tests.support.onnx_graphs import model, node


@dataclass(frozen=True)
class Toy(Compiler):
    """One that is in no package."""

    @property
    def version(self) -> str:
        return "toy 1"


TOY = Toy("toy", "tests.support.toy_compiler")


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


def test_what_was_compiled_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For each GPU whose kernels are alike; another file, and kernels with vectors, are compiled."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    nodes, outputs = [node("Relu", "x", "y")], {"y": "float32"}
    small, large = (
        model(tmp_path / f"{size}.onnx", nodes, {"x": ("float32", [size])}, outputs).data for size in (5, 6)
    )
    first = TOY.plan(small)
    run, started = programs.run, list[str]()

    def seen(command: list[str], **how: Any) -> Any:
        started.append(command[-2])
        return run(command, **how)

    monkeypatch.setattr(programs, "run", seen)
    assert TOY.plan(small) == TOY.plan(small, wide=True) == first
    assert started == []
    assert TOY.plan(large) != first
    assert len(started) == 1
    with_vectors = Toy("toy", TOY.program, vectors=True)
    assert with_vectors.kept_as(small, wide=True) != with_vectors.kept_as(small, wide=False)


def test_every_compiler_has_a_version() -> None:
    for name, compiler in COMPILERS.items():
        assert compiler.version.startswith(f"{name} ")
        assert np.prod([int(part) for part in compiler.version.split()[1].split(".")]) >= 0
