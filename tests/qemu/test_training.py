# SPDX-License-Identifier: BSD-2-Clause
"""Training by replays: a step is recorded once, and replayed with other data on the weights that it has left."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from host_tools import runners
from host_tools.machine.root import RecordRoot
from host_tools.passes.pipeline import build
from host_tools.record.differences import relative_difference
from host_tools.runners.replay import ReplayResult
from signing.delivery import Delivery
from signing.keys import Algorithm, generate
from signing.sign import FileSigner, sign_trace
from tests.support import wheels
from tests.support.guest_programs import cross_compile, record
from trace_format.trace import Trace

Floats = NDArray[np.float32]
WEBGPU, IREE = (Path(__file__).with_name(name) for name in ("webgpu", "iree"))
# As in perceptron.wgsl.
SAMPLES, INPUTS, HIDDEN, OUTPUTS, RATE = 8, 16, 32, 4, np.float32(0.05)
STEPS = 500
TOLERANCE = 1e-5  # of the weights after all steps, relative to the largest; NumPy sums in another order
STATES = {"w1": "w1_next", "w2": "w2_next"}
# As in step.py.
SHAPES = {"c1": (3, 3, 1, 4), "c2": (3, 3, 4, 8), "d1": (128, 16), "d2": (16, 4), "x": (4, 8, 8, 1), "t": (4, 4)}
NET_STATES = {name: f"{name}_next" for name in ("c1", "c2", "d1", "d2")}


def step(w1: Floats, w2: Floats, x: Floats, t: Floats) -> tuple[Floats, Floats, Floats]:
    """The next weights, and by how much the outputs are off."""
    h = np.maximum(x @ w1, np.float32(0))
    d = h @ w2 - t
    g = d @ w2.T * (h > 0)
    rate = RATE / np.float32(SAMPLES)
    return w1 - rate * (x.T @ g), w2 - rate * (h.T @ d), d


def given(folder: Path, values: Mapping[str, NDArray[np.floating[Any]]]) -> list[object]:
    """Write the values to files; the options of `record run` that make inputs of them."""
    words: list[object] = []
    for name, value in values.items():
        value.astype("<f4").tofile(folder / f"{name}.bin")
        words += ["--input", f"{name}={folder / name}.bin"]
    return words


def trained(raw: Path, states: dict[str, str], data: dict[str, Floats], each: str) -> ReplayResult:
    """What 500 replays of a recorded step in the secure world of QEMU come to, each with its own data."""
    trace = build(Trace.read(raw), states=states, open_slots=states.values())
    signer = FileSigner(generate(Algorithm.ES256))
    series = {name: value.reshape(STEPS, -1) for name, value in data.items()}
    signed = sign_trace(trace.build(), signer)
    result = runners.run(
        "qemu", Delivery(signed), signer.public, repeat=STEPS, series=series, each=frozenset({each})
    )
    assert result.ok, result.error
    return result


def check(result: ReplayResult, states: dict[str, str], weights: Sequence[Floats]) -> None:
    for name, expected in zip(states.values(), weights, strict=True):
        difference = relative_difference(result.outputs[name], expected.reshape(-1))
        print(f"{name}: {difference:.1e} after {STEPS} steps of {result.jobs} jobs")
        assert difference <= TOLERANCE


@pytest.mark.exhaustive  # two boots, and 500 replays in an emulated secure world
def test_a_perceptron_by_webgpu(root: RecordRoot, tmp_path: Path) -> None:
    """wgpu-native's own code, recorded; 500 replays on QEMU reach the weights that NumPy does."""
    parts = wheels.unpacked(wheels.WGPU, tmp_path / "wgpu") / "wgpu" / "resources"
    program, raw = tmp_path / "perceptron", tmp_path / "perceptron.raw.gtr"
    library = "libwgpu_native-release.so"
    link = [f"-I{parts}", f"-L{parts}", f"-l:{library}", "-Wl,--allow-shlib-undefined"]
    cross_compile(WEBGPU / "perceptron.c", program, *link)
    random = np.random.default_rng(7)
    first = {
        "x": random.normal(0, 1, (SAMPLES, INPUTS)),
        "t": random.normal(0, 1, (SAMPLES, OUTPUTS)),
        "w1": random.normal(0, INPUTS**-0.5, (INPUTS, HIDDEN)),
        "w2": random.normal(0, HIDDEN**-0.5, (HIDDEN, OUTPUTS)),
    }
    values = given(tmp_path, first)
    for name in (*STATES.values(), "d"):
        values += ["--result", f"{name}={name}.bin"]
    record("-o", raw, "--file", parts / library, "--file", WEBGPU / "perceptron.wgsl", *values, "--", program)
    x = random.normal(0, 1, (STEPS, SAMPLES, INPUTS)).astype(np.float32)
    t = np.tanh(x @ random.normal(0, 0.5, (INPUTS, OUTPUTS))).astype(np.float32)
    result = trained(raw, STATES, {"x": x, "t": t}, "d")
    w1, w2 = (first[name].astype(np.float32) for name in STATES)
    for number in range(STEPS):
        w1, w2, d = step(w1, w2, x[number], t[number])
        assert relative_difference(result.outputs["d"][number], d.reshape(-1)) < 100 * TOLERANCE
    losses = np.square(result.outputs["d"]).mean(1)
    assert losses[-20:].mean() < losses[:20].mean() / 3
    check(result, STATES, (w1, w2))


def patches(x: Floats, stride: int, before: int) -> Floats:
    """What a kernel of 3x3 sees: pictures of NHWC, padded with one row and column less `before` behind."""
    around = (before, 1)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), around, around, (0, 0))), (3, 3), (1, 2))
    return windows[:, ::stride, ::stride].transpose(0, 1, 2, 4, 5, 3)


def folded(seen: Floats, height: int, stride: int, before: int) -> Floats:
    """The sum of what was seen of each pixel: the reverse of `patches`."""
    x = np.zeros((len(seen), height + before + 1, height + before + 1, seen.shape[-1]), np.float32)
    count = seen.shape[1]
    for row, column in np.ndindex(3, 3):
        end_row, end_column = row + stride * (count - 1) + 1, column + stride * (count - 1) + 1
        x[:, row:end_row:stride, column:end_column:stride] += seen[:, :, :, row, column]
    return x[:, before : before + height, before : before + height]


def convolutional_step(w: list[Floats], x: Floats, t: Floats) -> tuple[list[Floats], np.float32]:
    """The next weights, and the loss: what step.py says, in NumPy."""
    c1, c2, d1, d2 = w
    axes = ([3, 4, 5], [0, 1, 2])
    seen1 = patches(x, 1, 1)
    h1 = np.maximum(np.tensordot(seen1, c1, axes), np.float32(0))
    seen2 = patches(h1, 2, 0)
    h2 = np.maximum(np.tensordot(seen2, c2, axes), np.float32(0))
    flat = h2.reshape(len(x), -1)
    h3 = np.maximum(flat @ d1, np.float32(0))
    scores = h3 @ d2
    shifted = scores - scores.max(1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    g = (np.exp(logs) - t) / np.float32(len(x))
    g3 = g @ d2.T * (h3 > 0)
    g2 = (g3 @ d1.T).reshape(h2.shape) * (h2 > 0)
    g1 = folded(np.tensordot(g2, c2, ([3], [3])), h1.shape[1], 2, 0) * (h1 > 0)
    gradients = (
        np.tensordot(seen1, g1, ([0, 1, 2], [0, 1, 2])),
        np.tensordot(seen2, g2, ([0, 1, 2], [0, 1, 2])),
        flat.T @ g3,
        h3.T @ g,
    )
    loss = -(logs * t).sum() / np.float32(len(x))
    return [a - RATE * b for a, b in zip(w, gradients, strict=True)], loss


@pytest.mark.exhaustive
def test_a_convolutional_network_by_iree(root: RecordRoot, tmp_path: Path) -> None:
    """A step that JAX differentiated and IREE compiled: 500 replays on QEMU reach what NumPy does."""
    tools = wheels.unpacked(wheels.IREE_COMPILER, tmp_path / "compiler") / "iree" / "compiler" / "_mlir_libs"
    parts = wheels.unpacked(wheels.IREE, tmp_path / "runtime") / "iree" / "_runtime_libs"
    module, raw = tmp_path / "step.vmfb", tmp_path / "step.raw.gtr"
    compiler = wheels.runnable(tools / "iree-compile", tools / "iree-lld")
    target = "--iree-hal-target-backends=vulkan-spirv"
    subprocess.run([compiler, target, IREE / "step.mlir", "-o", module], check=True)
    random = np.random.default_rng(7)
    first = {
        name: random.normal(0, 1 if name == "x" else (2 / np.prod(shape[:-1])) ** 0.5, shape)
        for name, shape in SHAPES.items()
    }
    values = given(tmp_path, first | {"t": np.eye(4)})
    results = [*NET_STATES.values(), "loss"]
    for name in results:
        values += ["--result", f"{name}={name}.bin"]
    words = ["--device=vulkan", f"--module={module.name}", "--function=main"]
    words += [f"--input={'x'.join(map(str, shape))}xf32=@{name}.bin" for name, shape in SHAPES.items()]
    words += [f"--output=@{name}.bin" for name in results]
    record("-o", raw, "--file", module, *values, "--", parts / "iree-run-module", *words)
    labels = random.integers(0, 4, (STEPS, 4))
    x = random.normal(0, 1, (4, 8, 8, 1))[labels] + random.normal(0, 0.5, (STEPS, 4, 8, 8, 1))
    t = np.eye(4, dtype=np.float32)[labels]
    result = trained(raw, NET_STATES, {"x": x.astype(np.float32), "t": t}, "loss")
    weights = [first[name].astype(np.float32) for name in NET_STATES]
    for number in range(STEPS):
        weights, loss = convolutional_step(weights, x[number].astype(np.float32), t[number])
        assert abs(result.outputs["loss"][number, 0] - loss) < 100 * TOLERANCE
    assert result.outputs["loss"][-20:].mean() < 0.1 < 0.5 < result.outputs["loss"][:20].mean()
    check(result, NET_STATES, weights)
