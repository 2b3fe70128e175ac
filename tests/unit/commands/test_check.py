# SPDX-License-Identifier: BSD-2-Clause
"""`gramophone check`: what it says is what `record` does; what it refuses, `record` refuses before any boot."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from host_tools.cli import main
from host_tools.demo import PARAM, RAW, WEIGHTS
from host_tools.record import needs, onnx_model
from host_tools.record.compiled.network import compile_onnx
from host_tools.record.compiled.plan import Buffer, Call, Kind, Plan, View
from host_tools.record.foreseen import (
    ACCESS_S,
    BOUNDED_S,
    CALL_S,
    CHARACTER_S,
    PLAN_S,
    WAITING_S,
    Foreseen,
    of_plan,
)
from host_tools.record.frontends import convert_onnx
from host_tools.record.ncnn import dispatches
from host_tools.record.preflight import preflight
from host_tools.record.ways import foreseen_ncnn
from tests.support import detector, json_schemas, mixed, networks, onnx_networks
from tests.support.onnx_graphs import cast, graph, node
from trace_format.trace import Trace

LENET = (str(PARAM), str(WEIGHTS), "--shape", "data=1x28x28")


def checked(*words: object, status: int = 0) -> dict[str, Any]:
    done = CliRunner().invoke(main, ["check", *map(str, words), "--json"])
    assert done.exit_code == status, done.output
    data: dict[str, Any] = json.loads(done.stdout)
    if status < 2:
        json_schemas.check("check", data)
    return data


def refused(*words: object) -> str:
    return str(checked(*words, status=2)["error"])


def test_jobs_by_ncnn_are_those_of_the_recording() -> None:
    data = checked(*LENET)
    assert (data["compiler"], data["jobs"], data["missing"]) == ("ncnn", Trace.read(RAW).jobs, [])
    assert data["inputs"] == {"data": {"dtype": "float32", "shape": [1, 28, 28]}}
    assert data["secure_bytes"] is None


@pytest.mark.parametrize(
    ("network", "shape", "raw"),
    [
        (detector.network(), detector.SHAPE, detector.RAW),
        ((mixed.graph(), mixed.weights()), mixed.SHAPE, mixed.RAW),
    ],
    ids=["detector", "mixed"],
)
def test_jobs_where_the_processor_computes_layers(
    network: tuple[bytes, bytes], shape: tuple[int, ...], raw: Path
) -> None:
    """Also a blob that a job downloads as it is packed, which the guest's GPU copies to other memory first."""
    shapes = {"data": shape}
    checked = preflight(*network, shapes)
    assert foreseen_ncnn(network[0], checked, shapes).jobs == Trace.read(raw).jobs


@pytest.mark.parametrize(("name", "jobs"), [("mobilenet_v1", 51), ("squeezenet_v1_1", 63)])
def test_jobs_of_known_networks(name: str, jobs: int) -> None:
    """As they were recorded (docs/BREADTH.md has the numbers after `build`)."""
    shape = {"data": networks.shape(name)}
    assert dispatches.counted(networks.network(name), shape)[0] == jobs


def test_jobs_of_sums_without_arithmetic_in_subgroups() -> None:
    """As a V3D 4.2 was recorded with a network of tests/bench/strangers.py (wake-deepa): 11 jobs for such a layer,
    one for the input and one for the output. Lavapipe itself takes 3 for the layer.
    """
    param = b"7767517\n2 2\nInput in 0 1 x 0=32\nLayerNorm norm 1 1 x y 0=32 1=1.000000e-05 2=1\n"
    assert dispatches.counted((param, np.ones(64, np.float32).tobytes()), {"x": (32,)})[0] == 13


def test_jobs_by_tinygrad_are_those_of_its_plan(tmp_path: Path) -> None:
    """Inputs have the types of slots, and kernels that prepare constants are no jobs."""
    generator = np.random.default_rng(2)
    constants = {"w": generator.normal(0, 1, (8, 4)).astype(np.float32), "t": np.ones((3, 8), np.float32)}
    nodes = [node("Gather", "t i", "g"), node("Relu", "w", "r"), node("MatMul", "g r", "m"), node("Exp", "m", "y")]
    path = graph(tmp_path / "n.onnx", nodes, {"i": ("int64", [5])}, {"y": "float32"}, constants)
    data = checked(path)
    assert data["compiler"] == "tinygrad"
    assert data["why"].startswith("ncnn does not take it: ")
    assert data["inputs"] == {"i": {"dtype": "int32", "shape": [5]}}
    assert data["jobs"] == len(compile_onnx(onnx_model.read(path), {}).layout.plan.calls)
    assert data["constant_bytes"] < data["secure_bytes"]


def test_multiplications_of_ncnn(tmp_path: Path) -> None:
    """Two convolutions of 8 by 8 places, and a dense layer."""
    files = convert_onnx(onnx_networks.classifier(tmp_path / "net.onnx"), {})
    _, found = dispatches.counted((files.param, files.weights), files.shapes)
    weights = onnx_networks.weights()
    assert found == 8 * 8 * (weights["w1"].size + weights["w2"].size) + weights["w3"].size


@pytest.mark.parametrize("command", ["check", "record onnx -o raw.gtr"])
def test_what_is_wrong_with_inputs_is_said_before_anything_is_compiled(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    nodes = [cast("rate", "r", "float32"), node("Mul", "sound r", "y")]
    path = graph(tmp_path / "n.onnx", nodes, {"sound": ("float32", [4]), "rate": ("int64", [])}, {"y": "float32"})
    np.save("half.npy", np.array(0.5))
    np.save("three.npy", np.zeros(3, np.float32))

    def said(*words: str) -> str:
        first, *options = command.split()
        more = options[:1] if options[:1] == ["onnx"] else []
        done = CliRunner().invoke(main, [first, *more, str(path), *options[len(more) :], *words])
        assert done.exit_code == 2
        return done.stderr.strip()

    unknown = f"error: {path}: no input 'soud' (did you mean 'sound'?); the network has sound, rate"
    assert said("--input", "soud=three.npy") == unknown
    assert said("--shape", "soud=4") == unknown
    assert said("--constant", "soud=three.npy") == unknown
    assert (
        said("--constant", "rate=half.npy")
        == f"error: {path}: input rate: expected values that are int64, found 0.5"
    )
    assert said("--input", "rate=half.npy").endswith("input rate: expected values that are int64, found 0.5")
    assert said("--input", "sound=three.npy").endswith("input sound: expected a value of shape 4, found 3")
    assert not Path("raw.gtr").exists()


def test_all_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [node("Mul", "x x", "y")]
    path = graph(tmp_path / "n.onnx", nodes, {"x": ("float32", [4])}, {"y": "float32"})
    words = [str(path), "--compiler", "tinygrad"]
    monkeypatch.setattr(shutil, "which", lambda name, **_: None)
    monkeypatch.setattr(needs, "DRIVERS", tmp_path)
    packages = ["glslang-tools", "mesa-vulkan-drivers", "gcc-aarch64-linux-gnu", "qemu-system-arm", "gcc"]
    assert checked(*words, status=1)["missing"] == packages
    done = CliRunner().invoke(main, ["record", "onnx", *words, "-o", str(tmp_path / "raw.gtr")])
    assert done.exit_code == 2
    names = "glslangValidator, lavapipe, aarch64-linux-gnu-gcc, qemu-system-aarch64, gcc are missing"
    assert f"{names}; as root: apt-get install {' '.join(packages)}\n" in done.stderr


def test_memory_is_known_where_work_is() -> None:
    assert Foreseen("tinygrad", {}, 100, 10_000_000, 2_000_000, 9.0).secure_bytes == 12_000_000 + (1 << 20)
    assert Foreseen("ncnn", {}, None, 10_000_000, None, None).secure_bytes is None


KERNEL = """layout(local_size_x = 8, local_size_y = 4, local_size_z = 1) in;
layout(std430, binding = 0) buffer B0 { float data0[]; };
void main() { // r
  for (int Ridx0 = 0; Ridx0 < 128; Ridx0++) {
    float val0 = data0[Ridx0];
    for (int Ridx1 = 0; Ridx1 < 3; Ridx1++) {
      float val1 = mix(0.0f,data0[mix(0,Ridx1,gate)],gate);
    }
  }
  data0[0] = val0;
}
"""


def test_seconds_follow_what_kernels_do() -> None:
    """A loop's accesses by its rounds, its conditions by how often the driver writes them, and all by items."""
    waiting = KERNEL.replace("  data0[0] = val0;", "  barrier();")
    work = [Buffer(Kind.WORK, 4)]
    calls = [Call(number, (5, 2, 1), (View(0, 0, 4),), (0,)) for number in (0, 0, 1)]
    accesses = 1 + 128 * (1 + 3)  # the first of the declaration
    wanted = (
        PLAN_S
        + CALL_S * len(calls)
        + CHARACTER_S * (len(KERNEL) + len(waiting))
        + WAITING_S * len(waiting)
        + BOUNDED_S * (3 + 3)
    )
    wanted += ACCESS_S * 10 * 32 * (2 * (accesses + 1) + accesses)
    assert of_plan(Plan(work, [KERNEL, waiting], calls)) == pytest.approx(wanted, rel=1e-12)


def test_a_network_that_nobody_takes(tmp_path: Path) -> None:
    path = graph(tmp_path / "n.onnx", [node("Bernoulli", "x", "y")], {"x": ("float32", [2, 3])}, {"y": "float32"})
    assert "(RandomUniformLike): there is no such operator" in refused(path)


def test_files_that_nobody_records(tmp_path: Path) -> None:
    (tmp_path / "net.xml").write_text("<net/>")
    assert "expected a name that ends in one of .param, .onnx" in refused(tmp_path / "net.xml")
    assert "only ncnn's networks have a second file, of weights" in refused("net.onnx", "net.bin")
