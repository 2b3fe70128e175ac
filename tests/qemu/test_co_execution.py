# SPDX-License-Identifier: BSD-2-Clause
"""A network of which the CPU computes a part beside the GPU, in the secure world of QEMU and recorded anew."""

import pytest

from host_tools import runners
from host_tools.demo.record import same_versions
from host_tools.passes.pipeline import build
from host_tools.record.differences import relative_difference
from signing.delivery import Delivery
from signing.sign import sign_trace
from tests.support import pointwise
from tests.support.signing_samples import ES256
from trace_format.operators import Operator, used
from trace_format.trace import Trace

SEED = 41
NEAR = 1e-5


def test_the_secure_world_computes_a_part_on_its_cpu() -> None:
    """Two replays in a row with an input that was not recorded give what ONNX Runtime does, within 1e-5."""
    trace = build(Trace.read(pointwise.RAW), asked={"co-execute": pointwise.GFLOPS})
    assert used(trace.actions) == [Operator.CONV1X1, Operator.DENSE]
    signed = Delivery(sign_trace(trace.build(), ES256))
    result = runners.run("qemu", signed, ES256.public, pointwise.given(SEED), repeat=2)
    assert result.ok, result.error
    expected = pointwise.by_onnx(SEED)
    assert relative_difference(result.outputs["classes"].reshape(expected.shape), expected) <= NEAR


@pytest.mark.exhaustive
def test_the_recording_comes_out_identical() -> None:
    fresh, committed = pointwise.record(), Trace.read(pointwise.RAW)
    expected = committed if same_versions(fresh, committed) else pointwise.record()
    assert fresh.build() == expected.build()
