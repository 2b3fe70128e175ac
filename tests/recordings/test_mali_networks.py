# SPDX-License-Identifier: BSD-2-Clause
"""The public recordings with weights, built and replayed: results are those of the described networks in NumPy."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from docs.examples.reference import forward
from host_tools.demo.digits import load as load_digits
from host_tools.extras.importers.gpureplay_trace import import_gpureplay
from host_tools.extras.importers.networks import file
from host_tools.extras.importers.networks.weights import describe, read_weights, slot_values
from host_tools.model.interpreter import Interpreter, interpreter
from host_tools.passes.listing import PASSES
from host_tools.passes.parameters import bind
from host_tools.passes.pipeline import build
from host_tools.vgpu.binding import Counters
from tests.support.described_networks import TOLERANCE, held_out, made_up, weighted
from tests.support.mali_watch import LATENCY_NS
from tests.support.sampling import SomeOf
from trace_format.trace import Trace

# Of a replay of mnist. Slots are operations times threads; another interpreter counted as many.
JOBS, SLOTS = 23, 13_109_516
ONCE, ONCE_SLOTS = 5, 1_106_464  # of these, what is done when the trace is built, with these weights


def hardly_built(trace: Trace) -> Trace:
    """What a recording needs in order to be replayed: no polling of registers that change."""
    for step in ("volatile", "polls"):
        trace = PASSES[step].apply(trace)
    return trace


def replays(trace: Trace, inputs: NDArray[np.float32]) -> tuple[NDArray[np.float32], Counters]:
    """The output for each input, from one replay after the other, and what the GPU counted."""
    with closing(Interpreter(trace, latency_ns=LATENCY_NS)) as device:
        found = np.stack([device.run({"input": one})["output"] for one in inputs])
        return found, device.gpu.counters()


def prepared_each_time(trace: Trace) -> Trace:
    return build(trace, skip=["preparation"])


# The three have the same kinds of jobs, MobileNet more of them, AlexNet larger ones.
OTHERS = pytest.mark.exhaustive


@pytest.mark.parametrize(
    ("form", "prepares"),
    [(hardly_built, 20), pytest.param(prepared_each_time, 20, marks=OTHERS), (build, 0)],
)
def test_digits(recordings: Path, mnist_weights: bytes, form: Callable[[Trace], Trace], prepares: int) -> None:
    """Weights are intact in each of 20 replays, although every one overwrites them."""
    network, digits = file.load("mnist"), load_digits()[:20]
    pictures = digits.inputs()[:, 0]
    found, counters = replays(form(weighted(recordings / "mnist", mnist_weights)), pictures)
    expected = forward(network, read_weights(mnist_weights, "mnist.npz", network), pictures)
    np.testing.assert_allclose(found, expected, atol=TOLERANCE)
    assert (found.argmax(1) == digits.labels).all()
    spared = 20 - prepares
    jobs, slots = 20 * JOBS - spared * ONCE, 20 * SLOTS - spared * ONCE_SLOTS
    assert (counters.jobs, counters.instructions, counters.faults) == (jobs, slots, 0)


def test_held_out_digits(recordings: Path, mnist_weights: bytes, some_of: SomeOf) -> None:
    """Digits of the test split get the class that NumPy gives them, be it the right one or not."""
    digits = held_out()
    which = list(some_of(range(1000), 50))
    network, pictures = file.load("mnist"), digits.inputs()[which, 0]
    found, _ = replays(build(weighted(recordings / "mnist", mnist_weights)), pictures)
    expected = forward(network, read_weights(mnist_weights, "mnist.npz", network), pictures)
    np.testing.assert_allclose(found, expected, atol=TOLERANCE)
    assert (found.argmax(1) == expected.argmax(1)).all()
    assert (found.argmax(1) == digits.labels[which]).mean() >= 0.97


def test_memory_does_not_depend_on_the_number_of_threads(recordings: Path, mnist_weights: bytes) -> None:
    trace = build(weighted(recordings / "mnist", mnist_weights))
    memory = []
    for threads in (1, 2, 3):
        with interpreter(trace, threads=threads) as device:
            device.run({"input": load_digits()[:1].inputs()[0, 0]})
            memory.append(device.memory.tobytes())
    assert memory[0] == memory[1] == memory[2]


# With `make test` passes over memory and weights; what jobs find after each pass: test_mali_recordings_passes.py.
KEPT = {"constants", "dead-memory", "plan-memory", "preparation", "relocate"}
STEPS: list[Any] = [pytest.param("mnist", step, marks=() if step in KEPT else OTHERS) for step in PASSES]
STEPS += [pytest.param("mobilenet", step, marks=OTHERS) for step in PASSES]
STEPS += [pytest.param("alexnet", step, marks=OTHERS) for step in ("dead-memory", "plan-memory")]


@functools.cache
def recorded(folder: Path) -> tuple[Trace, NDArray[np.float32], NDArray[np.float32]]:
    """The recording with made-up weights, two inputs and what it makes of them."""
    network, generator = file.load(folder.name), np.random.default_rng(7)
    trace = describe(import_gpureplay(folder, folder.name), network)
    trace = bind(trace, slot_values(made_up(network, generator), network)).with_(raw=True)
    inputs = generator.standard_normal((2, *network.slots["input"].shape), np.float32)
    return trace, inputs, replays(hardly_built(trace), inputs)[0]


@pytest.mark.parametrize(("name", "step"), STEPS)
def test_a_pass_keeps_outputs(recordings: Path, name: str, step: str) -> None:
    """By itself, and where it is left out; without `volatile` no recording replays elsewhere."""
    trace, inputs, expected = recorded(recordings / name)
    assert abs(expected[0] - expected[1]).max() > 0.01 * expected.max()  # of 1,001 classes none is likely
    made = [PASSES[step](hardly_built(trace))]
    made += [build(trace, skip=[step])] if step != "volatile" else []
    for after in made:
        assert np.array_equal(replays(after, inputs)[0], expected)


# MobileNet takes ten seconds, AlexNet's 244 MB of weights take minutes. Mnist is compared with NumPy above.
@OTHERS
@pytest.mark.parametrize("name", ["mobilenet", "alexnet"])
def test_made_up_weights(recordings: Path, name: str) -> None:
    network, generator = file.load(name), np.random.default_rng(5)
    tensors = made_up(network, generator)
    content = io.BytesIO()
    np.savez(content, **tensors)  # type: ignore[arg-type]
    inputs = generator.standard_normal((2, *network.slots["input"].shape), np.float32)
    found, _ = replays(build(weighted(recordings / name, content.getvalue())), inputs)
    expected = forward(network, tensors, inputs)
    least = TOLERANCE * expected.max()
    assert expected.max() > 10 * expected.mean()  # weights and input decide
    assert abs(expected[0] - expected[1]).max() > 1000 * least
    np.testing.assert_allclose(found, expected, rtol=10 * TOLERANCE, atol=least)
