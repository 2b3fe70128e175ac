# SPDX-License-Identifier: BSD-2-Clause
"""The public MNIST recording with trained weights: what its shaders compute is what NumPy computes."""

from __future__ import annotations

import functools
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from host_tools.model.interpreter import Interpreter, interpreter
from host_tools.passes import PASSES
from host_tools.passes.parameters import bind
from host_tools.passes.pipeline import build
from host_tools.record.importers.gpureplay_trace import import_gpureplay
from trace_format.trace import Trace

Floats = NDArray[np.float32]
POWER_NS = 6_000  # what the recorded machine took for what takes time
TOLERANCE = 1e-5  # of a probability
JOBS, SLOTS = 23, 13_109_516  # of a replay; SLOTS: operations times threads, as another interpreter counts them


@functools.cache
def weights(recordings: Path) -> dict[str, Floats]:
    """W1 [9][32], W2, W3 [y, x, in][32], WF [y, x, channel][10], and biases."""
    path = recordings / "weights" / "mnist.npz"
    if not path.exists():
        pytest.skip(f"no weights at {path}")
    return dict(np.load(path))


def parameters(w: dict[str, Floats], trace: Trace) -> dict[str, Floats]:
    """By slot; the network takes [out][y][x][in], and rows of twelve classes, of which ten are used."""
    full = np.zeros((12, 1568), np.float32)
    full[:10] = w["WF"].T
    kernels = {name: w[name].reshape(3, 3, 32, 32).transpose(3, 0, 1, 2) for name in ("W2", "W3")}
    values: dict[str, Any] = {
        "param0": np.zeros(trace.slot("param0").shape),
        "param1": w["W1"].T,
        "param2": w["b1"],
        "param3": kernels["W2"],
        "param4": w["b2"],
        "param5": kernels["W3"],
        "param6": w["b3"],
        "param7": full,
        "param8": w["bf"],
    }
    return {
        name: np.ascontiguousarray(value, np.float32).reshape(trace.slot(name).shape)
        for name, value in values.items()
    }


def convolved(x: NDArray[np.float64], kernel: Floats, bias: Floats) -> NDArray[np.float64]:
    """3 x 3, padded by 1; kernel [y, x, in][out]; no activation."""
    height, width, channels = x.shape
    padded = np.zeros((height + 2, width + 2, channels))
    padded[1:-1, 1:-1] = x
    columns = [padded[y : y + height, x : x + width] for y in range(3) for x in range(3)]
    result: NDArray[np.float64] = np.concatenate(columns, 2) @ kernel.astype(np.float64) + bias
    return result


def pooled(x: NDArray[np.float64]) -> NDArray[np.float64]:
    height, width, channels = x.shape
    result: NDArray[np.float64] = x.reshape(height // 2, 2, width // 2, 2, channels).max((1, 3))
    return result


def probabilities(w: dict[str, Floats], image: Floats) -> NDArray[np.float64]:
    """Of ten classes, for 28 x 28 pixels."""
    x = convolved(image[:, :, None].astype(np.float64), w["W1"], w["b1"])
    x = pooled(convolved(x, w["W2"], w["b2"]))
    x = pooled(convolved(x, w["W3"], w["b3"]))
    logits = x.ravel() @ w["WF"].astype(np.float64) + w["bf"]
    raised = np.exp(logits - logits.max())
    result: NDArray[np.float64] = raised / raised.sum()
    return result


def images(count: int) -> list[Floats]:
    """Strokes of some width, as digits are made of, and one of noise."""
    generator = np.random.default_rng(28)
    ys, xs = np.mgrid[:28, :28]
    found = [generator.random((28, 28), np.float32)]
    while len(found) < count:
        image = np.zeros((28, 28), np.float32)
        for y0, x0, y1, x1 in generator.integers(4, 24, (3, 4)):
            for t in np.linspace(0, 1, 40):
                near = (ys - y0 - t * (y1 - y0)) ** 2 + (xs - x0 - t * (x1 - x0)) ** 2 < 3
                image[near] = 1
        found.append(image)
    return found


def given(trace: Trace, image: Floats) -> dict[str, Floats]:
    """The input slot: pixels are every other float, what is between them is not read."""
    rows = np.full((784, 2), np.nan, np.float32)
    rows[:, 0] = image.ravel()
    return {"input": rows.reshape(trace.slot("input").shape)}


@pytest.fixture(scope="module")
def raw(recordings: Path) -> Trace:
    trace = import_gpureplay(recordings / "mnist", "mnist")
    return bind(trace, parameters(weights(recordings), trace))


def raw_but_for_polls(trace: Trace) -> Trace:
    for step in ("volatile", "polls"):
        trace = PASSES[step].apply(trace)
    return trace


@pytest.mark.parametrize("form", [raw_but_for_polls, build], ids=["raw", "built"])
def test_classes_and_probabilities_are_numpys(recordings: Path, raw: Trace, form: Any) -> None:
    """Replay after replay on one device: jobs overwrite parameters, which each replay puts in place anew."""
    w, trace = weights(recordings), form(raw)
    with closing(Interpreter(trace, latency_ns=POWER_NS)) as run:
        for number, image in enumerate(images(6), 1):
            found = run.run(given(trace, image))["output"].ravel()[:10]
            wanted = probabilities(w, image)
            assert np.abs(found - wanted).max() < TOLERANCE
            assert found.argmax() == wanted.argmax()
            counters = run.gpu.counters()
            assert (counters.jobs, counters.faults) == (JOBS * number, 0)
            assert counters.instructions == SLOTS * number


def test_results_do_not_depend_on_the_number_of_threads(raw: Trace) -> None:
    trace, image = build(raw), images(1)[0]
    memory = []
    for threads in (1, 2, 3):
        with interpreter(trace, threads=threads) as run:
            run.run(given(trace, image))
            memory.append(run.memory.tobytes())
    assert memory[0] == memory[1] == memory[2]
