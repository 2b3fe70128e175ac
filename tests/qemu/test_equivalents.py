# SPDX-License-Identifier: BSD-2-Clause
"""What refusals name in place of a layer, recorded: all of it as one network. It computes what the refused layers
do on the CPU, for inputs that the recorder did not see."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pytest

from host_tools.passes.pipeline import build
from host_tools.record.inputs import normal_inputs
from host_tools.record.ncnn import cpu, network
from host_tools.support.gpu_folders import DEFAULT_GPU
from tests.support import ncnn_text
from tests.support.random_networks import on_virtual_gpu
from tests.unit.record.ncnn.test_equivalents import PAIRS, Network
from trace_format.trace import Trace

Files = tuple[bytes, bytes]


def side_by_side(networks: Mapping[str, Network]) -> Files:
    """One network's files; names of layers and blobs begin with those of the network that they are of."""
    lines = [line for name, made in networks.items() for line in _lines(name, made)]
    return ncnn_text.param(lines), b"".join(weights for _, weights, _ in networks.values())


def _lines(name: str, made: Network) -> Iterator[str]:
    layers, _, given = made
    for at, value in enumerate(given):
        width_first = " ".join(f"{option}={size}" for option, size in enumerate(reversed(value.shape)))
        yield f"Input {name}_in{at} 0 1 {name}_in{at} {width_first}"
    for layer in layers:
        kind, *rest = layer.split()
        blobs = 3 + int(rest[1]) + int(rest[2])
        names = (f"{name}_{blob}" for blob in rest[3:blobs])
        yield " ".join([kind, f"{name}_{rest[0]}", *rest[1:3], *names, *rest[blobs:]])


def inputs_of(networks: Mapping[str, Network]) -> dict[str, tuple[int, ...]]:
    """Their inputs' shapes, by name."""
    return {f"{name}_in{at}": x.shape for name, (_, _, given) in networks.items() for at, x in enumerate(given)}


@pytest.mark.exhaustive
def test_what_is_named_is_recorded() -> None:
    refused = {name: refused for name, (refused, _) in PAIRS.items()}
    taken = {name: taken for name, (_, taken) in PAIRS.items()}
    raw = network.record_network(*side_by_side(taken), inputs_of(taken), name="equivalents", gpu=DEFAULT_GPU)
    inputs = normal_inputs(inputs_of(taken), 3, 0.7)
    for name in ("Log_in0", "Power_in0"):  # of numbers that are not negative
        inputs[name] = np.abs(inputs[name])
    found = on_virtual_gpu(build(Trace.parse(raw.build(), "equivalents")), inputs)
    given = {name: inputs[name].reshape(shape) for name, shape in inputs_of(refused).items()}
    for output, expected in cpu.run_files(side_by_side(refused), given).items():
        assert np.ptp(expected) > 0
        np.testing.assert_allclose(found[output].reshape(expected.shape), expected, atol=1e-4, err_msg=output)
