# SPDX-License-Identifier: BSD-2-Clause
"""A network with layers on the CPU between those on the GPU, in the secure world of QEMU and recorded anew."""

import numpy as np
import pytest

from host_tools import runners
from host_tools.demo.record import same_versions
from host_tools.passes.pipeline import build
from host_tools.record.differences import relative_difference
from signing.delivery import Delivery
from signing.sign import sign_trace
from tests.support import mixed
from tests.support.signing_samples import ES256
from trace_format.trace import Trace

SEED = 41
NEAR = 1e-5


def check(raw: Trace) -> None:
    """Two replays in a row with an input that was not recorded give what ncnn's CPU back end does, within 1e-5."""
    signed = Delivery(sign_trace(build(raw).build(), ES256))
    inputs = {"data": mixed.given(SEED)}
    result = runners.run("qemu", signed, ES256.public, inputs, repeat=2)
    assert result.ok, result.error
    expected = mixed.by_ncnn(SEED)
    assert result.outputs.keys() == expected.keys() == set(mixed.OUTPUTS)
    for name, tensor in expected.items():
        found = result.outputs[name].reshape(tensor.shape)
        assert np.ptp(tensor) > 0
        assert relative_difference(found, tensor) <= NEAR


def test_layers_on_the_cpu_are_computed_in_the_secure_world() -> None:
    check(Trace.read(mixed.RAW))


@pytest.mark.exhaustive
def test_the_recording_comes_out_identical() -> None:
    fresh, committed = mixed.record(), Trace.read(mixed.RAW)
    expected = committed if same_versions(fresh, committed) else mixed.record()
    assert fresh.build() == expected.build()


@pytest.mark.exhaustive
@pytest.mark.parametrize("gpu", ["v3d71"])
def test_on_another_gpu(gpu: str) -> None:
    check(mixed.record(gpu))
