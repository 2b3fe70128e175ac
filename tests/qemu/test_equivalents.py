# SPDX-License-Identifier: BSD-2-Clause
"""What refusals name in place of a layer, recorded: it computes what the refused layer does on the CPU, for inputs
that the recorder did not see."""

from __future__ import annotations

import numpy as np
import pytest

from host_tools.passes.pipeline import build
from host_tools.record.inputs import normal_inputs
from host_tools.record.ncnn import cpu, network
from host_tools.support.gpu_folders import DEFAULT_GPU
from tests.support.random_networks import on_virtual_gpu
from tests.unit.record.ncnn.test_equivalents import PAIRS, files, inputs
from trace_format.trace import Trace

POSITIVE = ("Log", "Power")


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", PAIRS)
def test_what_is_named_is_recorded(name: str) -> None:
    refused, taken = PAIRS[name]
    shapes = {name: value.shape for name, value in inputs(taken).items()}
    raw = network.record_network(*files(taken), shapes, name="taken", gpu=DEFAULT_GPU)
    given = normal_inputs(shapes, 3, 0.7)
    if name in POSITIVE:
        given = {name: np.abs(value) for name, value in given.items()}
    (found,) = on_virtual_gpu(build(Trace.parse(raw.build(), "taken")), given).values()
    same = {name: given[name].reshape(value.shape) for name, value in inputs(refused).items()}
    (expected,) = cpu.run_files(files(refused), same).values()
    assert np.ptp(expected) > 0
    np.testing.assert_allclose(found.reshape(expected.shape), expected, atol=1e-4)
