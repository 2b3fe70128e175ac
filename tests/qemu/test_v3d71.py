# SPDX-License-Identifier: BSD-2-Clause
"""LeNet's recording on a V3D 7.1: built, signed, replayed with digits that were not recorded."""

from __future__ import annotations

import numpy as np

from host_tools import runners
from host_tools.demo import PARAM, WEIGHTS
from host_tools.demo.digits import load as load_digits
from host_tools.demo.ncnn_model import classify
from host_tools.passes.pipeline import build
from host_tools.record.differences import relative_difference
from host_tools.record.tolerances import TOLERANCE
from signing.delivery import Delivery
from signing.sign import sign_trace
from tests.support.networks import COMMITTED
from tests.support.sampling import SomeOf
from tests.support.signing_samples import ES256
from trace_format.trace import Trace


def test_lenet_on_a_v3d71(some_of: SomeOf) -> None:
    """The same bytes from all runners, in the secure world too, and what ncnn computes."""
    signed = sign_trace(build(Trace.read(COMMITTED["v3d71"])).build(), ES256)
    inputs = np.stack(some_of(list(load_digits()[:3].inputs()), 1))
    found = []
    for pixels in inputs:
        results = {
            name: runners.run(name, Delivery(signed), ES256.public, {"data": pixels})
            for name in ("vgpu", "unicorn", "qemu")
        }
        assert all(result.ok for result in results.values()), {k: r.error for k, r in results.items()}
        assert len({result.outputs["prob"].tobytes() for result in results.values()}) == 1
        found.append(results["qemu"].outputs["prob"])
    assert relative_difference(np.stack(found), classify(PARAM, WEIGHTS, inputs)) <= TOLERANCE
