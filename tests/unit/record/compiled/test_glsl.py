# SPDX-License-Identifier: BSD-2-Clause
"""Operations of every type that kernels compute with, on lavapipe, against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from host_tools.record.compiled import runner
from host_tools.record.compiled.network import compile_onnx
from tests.support.onnx_graphs import cast, model, node

ODD = np.array([0, 1, -1, 127, 128, -128, -129, 255, 256, 32767, 32768, -32769, 65535, 65536, 2**31 - 1, -(2**31)])
NARROW = ("int8", "uint8", "int16", "uint16")


def test_whole_numbers_of_every_size(tmp_path: Path) -> None:
    """Division and remainder of negative numbers, wrapping, and each narrow type from and to 32 bits."""
    nodes = [
        node("Add", "a odd", "shifted"),
        node("Max", "b one", "divisor"),
        node("Neg", "divisor", "negative"),
        node("Div", "shifted divisor", "quotient"),
        node("Div", "shifted negative", "quotient2"),
        node("Mod", "shifted divisor", "remainder"),
        node("Mod", "shifted negative", "remainder2"),
        node("Mod", "shifted negative", "remainder3", fmod=1),
        node("Mul", "shifted shifted", "wrapped"),
    ]
    outputs = dict.fromkeys(("quotient", "quotient2", "remainder", "remainder2", "remainder3", "wrapped"), "int32")
    for kind in NARROW:
        nodes += [cast("shifted", f"{kind}-narrow", kind), cast(f"{kind}-narrow", f"{kind}-wide", "int32")]
        outputs |= {f"{kind}-narrow": kind, f"{kind}-wide": "int32"}
    constants = {"odd": ODD.astype(np.int32), "one": np.array([1], np.int32)}
    inputs = {"a": ("int32", [16]), "b": ("int32", [16])}
    found = compile_onnx(model(tmp_path / "net.onnx", nodes, inputs, outputs, constants), {})
    assert set(found.differences) == set(outputs)
    assert not any(found.differences.values())


@pytest.mark.exhaustive  # takes 10 s; test_node_tests.py negates numbers of 64 bits, products are tried here only
def test_inputs_and_outputs_of_64_bits_become_32(tmp_path: Path) -> None:
    """Products of more than 32 bits on the way are computed in 64."""
    nodes = [node("Mul", "x big", "y"), node("Div", "y big", "z"), node("Add", "z x", "sum")]
    constants = {"big": np.array([3_000_000_017], np.int64)}
    net = model(tmp_path / "net.onnx", nodes, {"x": ("int64", [8])}, {"sum": "int64"}, constants)
    found = compile_onnx(net, {})
    assert {buffer.dtype for buffer in found.layout.plan.buffers if buffer.name} == {"int32"}
    assert found.differences == {"sum": 0.0}


def test_a_load_under_a_condition_is_no_branch(tmp_path: Path) -> None:
    """Of each type that is stored in fewer bits, too: padding, which is where there is nothing to load."""
    nodes, outputs = [], {}
    for kind in ("float32", "int32", "int8", "uint8"):
        nodes += [cast("x", f"{kind}-as", kind), cast("pad", f"{kind}-pad", kind)]
        nodes.append(node("Pad", f"{kind}-as sizes {kind}-pad", f"{kind}-out"))
        outputs[f"{kind}-out"] = kind
    constants = {"sizes": np.array([2, 3], np.int64), "pad": np.array(7, np.int32)}
    found = compile_onnx(model(tmp_path / "net.onnx", nodes, {"x": ("int32", [16])}, outputs, constants), {})
    loads = [line for kernel in found.layout.plan.kernels for line in kernel.splitlines() if "mix(" in line]
    assert loads
    assert not any(
        "?" in line.split("mix(", 1)[1] and "[" in line.split("?", 1)[1] for line in loads if "?" in line
    )
    assert not any(found.differences.values())


@pytest.mark.exhaustive  # whole numbers take the same path; ONNX's own tests have them
def test_truth_values(tmp_path: Path) -> None:
    nodes = [
        node("Greater", "x y", "more"),
        node("And", "more given", "both"),
        node("Or", "more given", "any"),
        node("Xor", "more given", "one"),
        node("Not", "one", "same"),
        node("Equal", "more given", "equal"),
        node("Where", "same x y", "chosen"),
    ]
    outputs = dict.fromkeys(("both", "any", "one", "same", "equal"), "bool") | {"chosen": "float32"}
    inputs = {"x": ("float32", [32]), "y": ("float32", [32]), "given": ("bool", [32])}
    found = compile_onnx(model(tmp_path / "net.onnx", nodes, inputs, outputs), {})
    assert not any(found.differences.values())


FUNCTIONS = ("Exp", "Sin", "Cos", "Tanh", "Erf", "Sigmoid", "Softplus", "Floor", "Ceil", "Round", "Sign", "Abs")


def test_functions(tmp_path: Path) -> None:
    """Of both signs, up to a few hundred for those that repeat."""
    nodes = [node("Mul", "x wide", "angle"), node("Abs", "x", "size"), node("Add", "size tiny", "positive")]
    for kind in FUNCTIONS:
        nodes.append(node(kind, "angle" if kind in ("Sin", "Cos") else "x", kind.lower()))
    nodes += [node(kind, "positive", kind.lower()) for kind in ("Log", "Sqrt", "Reciprocal")]
    nodes += [node("Pow", "positive x", "pow"), cast("x", "half", "float16")]
    names = [*map(str.lower, FUNCTIONS), "log", "sqrt", "reciprocal", "pow", "half"]
    outputs = {name: "float16" if name == "half" else "float32" for name in names}
    constants = {"wide": np.array([100], np.float32), "tiny": np.array([1e-3], np.float32)}
    found = compile_onnx(model(tmp_path / "net.onnx", nodes, {"x": ("float32", [64])}, outputs, constants), {})
    worst = max(found.differences, key=lambda name: found.differences[name])
    assert found.differences[worst] < 5e-6, worst
    assert found.differences["half"] == 0


def test_terms_are_added_to_each_other_before_they_are_added_to_the_sum(tmp_path: Path) -> None:
    """2^24 and then ones, four a round: one after the other, each would be lost in a float32."""
    size, wide = 256, 64  # so many results that no sum is shared between threads
    weights = np.ones((size, wide), np.float32)
    weights[0] = 1 << 24
    nodes = [node("MatMul", "x w", "y")]
    path = model(tmp_path / "net.onnx", nodes, {"x": ("float32", [wide, size])}, {"y": "float32"}, {"w": weights})
    x = np.ones((wide, size), np.float32)
    found = compile_onnx(path, {}, values={"x": x}, tolerance=1.0)
    left = runner.judged(found.layout, found.shaders, {"x": x})["y"]
    exact = (1 << 24) + size - 1
    assert np.abs(left.astype(np.float64) - exact).max() < 8  # one after the other: 255


@pytest.mark.parametrize("steps", [pytest.param(1, marks=pytest.mark.exhaustive), 5])
def test_products_and_windows(steps: int, tmp_path: Path) -> None:
    """Sums over workgroups, arrays of an item, and slices with steps."""
    nodes = [
        node("Conv", "x w", "c", strides=[steps, steps], pads=[1, 1, 1, 1]),
        node("Slice", "c from to axes by", "s"),
        node("ReduceMean", "c", "mean", axes=[2, 3]),
        node("Softmax", "c", "soft", axis=-1),
    ]
    constants = {
        "w": np.random.default_rng(1).normal(0, 1, (6, 3, 3, 3)).astype(np.float32),
        "from": np.array([-1], np.int64),
        "to": np.array([-(2**31)], np.int64),
        "axes": np.array([3], np.int64),
        "by": np.array([-2], np.int64),
    }
    outputs = dict.fromkeys(("s", "mean", "soft"), "float32")
    found = compile_onnx(
        model(tmp_path / "net.onnx", nodes, {"x": ("float32", [1, 3, 20, 20])}, outputs, constants), {}
    )
    assert max(found.differences.values()) < 5e-6
