# SPDX-License-Identifier: BSD-2-Clause
"""Streamed traces on real firmware, which has memory for the budget and no more."""

from __future__ import annotations

import numpy as np
import pytest

from host_tools import runners
from host_tools.passes.pipeline import build
from host_tools.passes.streaming import PASS
from host_tools.runners.needs import secure_bytes
from signing.delivery import Delivery
from tests.support import replayer_samples as s
from tests.support.small_jobs import weighted
from trace_format.errors import TraceError
from trace_format.schema import PAGE_BYTES

WEIGHTS, LATENCY_NS = 12, 6_000
INPUT = np.arange(16, dtype=np.int32)


@pytest.mark.parametrize("more", [0, 4 * PAGE_BYTES])
def test_it_replays_as_on_the_host(more: int) -> None:
    with pytest.raises(TraceError) as refused:
        build(weighted(WEIGHTS), asked={PASS.name: PAGE_BYTES})
    least = int(str(refused.value).split("at least ")[1].split()[0])
    delivery = Delivery(s.signed(build(weighted(WEIGHTS), asked={PASS.name: least + more})))
    assert secure_bytes(delivery) <= least + more
    options = {"latency_ns": LATENCY_NS, "repeat": 2}
    here = runners.run("vgpu", delivery, s.KEY, {"in": INPUT}, **options)
    there = runners.run("unicorn", delivery, s.KEY, {"in": INPUT}, **options)
    assert (here.ok, there.ok, there.report.name) == (True, True, "OK")
    assert there.outputs["out"].tolist() == here.outputs["out"].tolist()
    assert (here.jobs, here.actions, here.secure_bytes) == (there.jobs, there.actions, there.secure_bytes)
