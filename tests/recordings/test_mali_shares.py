# SPDX-License-Identifier: BSD-2-Clause
"""GPUReplay's recordings at the same time on parts of the cores: outputs are those of each alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from host_tools.accesses.job_times import job_times, replayed
from host_tools.accesses.observe import random_inputs
from host_tools.extras.importers.gpureplay_trace import import_gpureplay
from host_tools.extras.importers.networks import file
from host_tools.extras.importers.networks.weights import describe, slot_values
from host_tools.model.interpreter import interpreter
from host_tools.model.timing import chip_of
from host_tools.passes.parameters import bind
from host_tools.passes.pipeline import build
from tests.support.described_networks import made_up, weighted
from tests.support.mali_shares import LATENCY_NS, Watching, at_once
from trace_format.trace import Trace

CHIP = chip_of("mali_g71")


def trained(recordings: Path, weights: bytes) -> Trace:
    return build(weighted(recordings / "mnist", weights))


def drawn(folder: Path) -> Trace:
    """A recording with made-up weights, built."""
    network = file.load(folder.name)
    trace = describe(import_gpureplay(folder, folder.name), network)
    values = slot_values(made_up(network, np.random.default_rng(7)), network)
    return build(bind(trace, values).with_(raw=True))


def share_times(trace: Trace, cores: int) -> Sequence[float]:
    return [time.us for _, time in job_times(trace, CHIP, cores)]


@pytest.mark.parametrize("other", ["mnist", pytest.param("mobilenet", marks=pytest.mark.exhaustive)])
def test_outputs_are_those_of_the_single_traces(recordings: Path, mnist_weights: bytes, other: str) -> None:
    traces = [trained(recordings, mnist_weights), drawn(recordings / other)]
    made = at_once(traces, [share_times(trace, 4) for trace in traces])
    assert made.rendezvous == 0  # each flushes its caches once, after its last job
    device = Watching(made.trace, latency_ns=LATENCY_NS)
    try:
        for seeds in ((0, 1), (1, 0)):
            inputs = [random_inputs(trace, seed)["input"] for trace, seed in zip(traces, seeds, strict=True)]
            found = device.run({"a/input": inputs[0], "b/input": inputs[1]})
            for name, trace, own in zip("ab", traces, inputs, strict=True):
                with interpreter(trace) as alone:
                    assert found[f"{name}/output"].tobytes() == alone.run({"input": own})["output"].tobytes()
        assert device.both
    finally:
        device.close()


def test_half_the_cores(recordings: Path, mnist_weights: bytes) -> None:
    """What a network takes on half the cores, and on a quarter: by the cores that its jobs can use."""
    trace = trained(recordings, mnist_weights)
    whole, half, quarter = (replayed(trace, job_times(trace, CHIP, cores)).us for cores in (0, 4, 2))
    assert half / whole == pytest.approx(1.35, abs=0.01)
    assert quarter / whole == pytest.approx(2.06, abs=0.01)
