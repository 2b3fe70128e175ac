# SPDX-License-Identifier: BSD-2-Clause
"""Kernels that load and store vectors, for GPUs whose driver does not join what lies side by side: what they
compute is judged on lavapipe against ONNX Runtime, as ever."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from host_tools.families.speed import speed_of
from host_tools.record import frontends, onnx_model
from host_tools.record.choosing import TINYGRAD
from host_tools.record.compiled import (
    network,
    runner,
    schedule,  # noqa: F401 - sets what tinygrad reads when it is imported
)
from host_tools.record.compiled.glsl import Glsl
from host_tools.record.compiled.layout import laid_out
from host_tools.record.compiled.network import Compiled
from host_tools.record.compiled.plan import Buffer, Call, Kind, Plan, View
from host_tools.record.compiled.shaders import spirv
from host_tools.support.gpu_folders import DEFAULT_GPU
from tests.support.onnx_graphs import graph, node

pytestmark = pytest.mark.usefixtures("without_sandboxes")
GENERATOR = np.random.default_rng(28)
SHAPE = [1, 16, 32, 32]
CONSTANTS: dict[str, Any] = {
    "w": GENERATOR.normal(0, 0.2, (16, 16, 1, 1)).astype(np.float32),
    "v": GENERATOR.normal(0, 0.2, (16, 16, 3, 3)).astype(np.float32),
    "pads": np.array([0, 0, 0, 4, 0, 0, 0, 8], np.int64),
    "six": np.full(1, 6, np.int32),
}
CASES = {
    "pointwise": ([node("Conv", "x w", "y")], "float32"),
    "odd strides": ([node("Conv", "x v", "y", strides=[3, 5])], "float32"),
    "padded by vectors": ([node("Pad", "x pads", "y")], "float32"),  # loads with a gate
    "whole numbers": ([node("Cast", "x", "i", to=6), node("Mul", "i six", "y")], "int32"),
    "bytes": ([node("Cast", "x", "y", to=3)], "int8"),  # there are no vectors of them
}
VECTOR = re.compile(r"data\d_\d+v[24]\[")


def made(name: str, folder: Path, *, wide: bool) -> Compiled:
    """A case compiled and judged."""
    nodes, kind = CASES[name]
    used = {of for one in nodes for of in one.input}
    constants = {of: value for of, value in CONSTANTS.items() if of in used}
    path = graph(folder / "n.onnx", nodes, {"x": ("float32", SHAPE)}, {"y": kind}, constants)
    return network.compile_onnx(onnx_model.read(path), {}, wide=wide)


@pytest.mark.parametrize("name", CASES)
def test_what_they_compute(name: str, tmp_path: Path) -> None:
    found = made(name, tmp_path, wide=True)
    assert found.differences["y"] <= found.tolerance
    kernels = "\n".join(found.layout.plan.kernels)
    assert bool(VECTOR.search(kernels)) == (name != "odd strides")
    gated = [line for line in kernels.splitlines() if "bvec4(" in line]
    assert bool(gated) == (name == "padded by vectors")
    assert ("ivec4" in kernels) == (name == "whole numbers")


def test_fewer_loads(tmp_path: Path) -> None:
    """What a thread of a pointwise layer takes of a row and of the weights is a load of four each."""
    loads = {}
    for wide in (False, True):
        kernels = "\n".join(made("pointwise", tmp_path, wide=wide).layout.plan.kernels)
        loads[wide] = len(re.findall(r"val\d+ = data", kernels))
        assert bool(VECTOR.search(kernels)) == wide
    assert 3 * loads[True] < loads[False]


def test_a_workgroup_s_own_array() -> None:
    """It has no second array of vectors: its elements are read and written one by one."""
    from tinygrad import Tensor
    from tinygrad.codegen import to_program
    from tinygrad.codegen.opt import Opt, OptOps
    from tinygrad.uop.ops import Ops

    (item,) = Tensor.zeros(64, 1024).contiguous().realize().sum(axis=1).schedule_linear().src
    opts = (Opt(OptOps.GROUPTOP, 0, 16), Opt(OptOps.UPCAST, 0, 4))
    made = to_program(item.src[0].replace(arg=replace(item.src[0].arg, opts_to_apply=opts)), Glsl(wide=True))
    source = next(str(part.arg) for part in made.src if part.op is Ops.SOURCE)
    assert re.search(r"buf\d\[.*\+1\] = ", source), "four sums of an item side by side"
    assert re.search(r"= \(?vec4\(buf\d\[", source)

    given = GENERATOR.normal(0, 1, (64, 1024)).astype(np.float32)
    buffers = [
        Buffer(Kind.OUTPUT, 256, b"", "y", "float32", (64,)),
        Buffer(Kind.CONSTANT, given.nbytes, given.tobytes()),
    ]
    views = tuple(View(at, 0, buffer.size) for at, buffer in enumerate(buffers))
    groups = int(made.arg.global_size[0])
    plan = Plan(buffers, [source], [Call(0, (groups, 1, 1), views, (0,), "sum")])
    left: Any = runner.judged(laid_out(plan), spirv(plan.kernels), {})["y"]
    np.testing.assert_allclose(left, given.sum(axis=1), rtol=1e-4, atol=1e-4)


def test_a_kernel_that_reads_what_it_writes() -> None:
    """Two arrays at one binding are one to nobody but us."""
    from tinygrad import Tensor
    from tinygrad.codegen import to_program

    values = Tensor.zeros(1024).contiguous().realize()
    (item,) = values.assign(values + 1).schedule_linear().src
    assert "data0_1024" in str(to_program(item.src[0], Glsl()))
    with pytest.raises(NotImplementedError, match="reads what it writes, in vectors"):
        to_program(item.src[0], Glsl(wide=True))


def test_who_gets_them() -> None:
    """Mesa joins a V3D's loads itself (ADR 0077)."""
    assert speed_of("mali_g52r1").loads_vectors
    assert not speed_of("v3d42").loads_vectors


def test_the_recorder_asks_for_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the GPU, which is the default one where none is named."""
    asked: list[object] = []

    def compiled(*_: Any, wide: bool, **__: Any) -> str:
        asked.append(wide)
        return "compiled"

    def recorded(what: str, *, gpu: str, **_: Any) -> str:
        asked.append(gpu)
        return what

    monkeypatch.setattr(network, "compile_onnx", compiled)
    monkeypatch.setattr(network, "record_compiled", recorded)
    path = graph(tmp_path / "n.onnx", [node("Relu", "x", "y")], {"x": ("float32", SHAPE)}, {"y": "float32"})
    settings: tuple[dict[str, Any], ...] = ({}, {"gpu": "mali_g31"})
    for how in settings:
        found: Any = frontends.record_onnx(path, {}, name="n", compiler=TINYGRAD, **how)
        assert found == "compiled"
    assert asked == [False, DEFAULT_GPU, True, "mali_g31"]
