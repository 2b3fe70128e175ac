# SPDX-License-Identifier: BSD-2-Clause
"""A network that ends in boxes, in the secure world of QEMU; the short way to the same is tests/emulated/."""

import numpy as np
import pytest

from host_tools import runners
from host_tools.demo.record import same_versions
from host_tools.passes.pipeline import build
from host_tools.support.tensors import boxes_found
from signing.delivery import Delivery
from signing.sign import sign_trace
from tests.support import detector
from tests.support.signing_samples import ES256
from trace_format.trace import Trace

PICTURE = 12
NEAR = 1e-5


def test_boxes_come_out_of_the_secure_world() -> None:
    """Two replays in a row; those of ncnn's CPU back end, within 1e-5."""
    trace = build(Trace.read(detector.RAW))
    inputs = {"data": detector.picture(PICTURE)[0]}
    result = runners.run("qemu", Delivery(sign_trace(trace.build(), ES256)), ES256.public, inputs, repeat=2)
    assert result.ok, result.error
    expected = detector.found_by_ncnn(PICTURE)
    assert len(expected) > 1
    np.testing.assert_allclose(boxes_found(trace, result.outputs)["boxes"], expected, rtol=NEAR, atol=NEAR)
    assert not result.outputs["boxes"][len(expected) :].any()


@pytest.mark.exhaustive
def test_the_recording_comes_out_identical() -> None:
    fresh, committed = detector.record(), Trace.read(detector.RAW)
    expected = committed if same_versions(fresh, committed) else detector.record()
    assert fresh.build() == expected.build()
