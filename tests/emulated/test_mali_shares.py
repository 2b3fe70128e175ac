# SPDX-License-Identifier: BSD-2-Clause
"""Two networks at the same time on parts of a Mali's cores, in firmware that was compiled as for any trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from host_tools import runners
from host_tools.accesses.observe import random_inputs
from host_tools.model.interpreter import interpreter
from signing.delivery import Delivery
from tests.support import replayer_samples as s
from tests.support.firmware_samples import kept
from tests.support.mali_shares import at_once, lenet
from tests.support.replayer_samples import signed

LATENCY = 6_000
SEEDS = (0, 1)


@pytest.fixture(scope="module")
def folder() -> Path:
    return kept("mali_g71")


@pytest.mark.parametrize("trouble", [{}, {"fault_job": 2}])
def test_outputs_are_those_of_the_single_traces(folder: Path, trouble: dict[str, Any]) -> None:
    """Also after the second network's first job has faulted, and both begin anew."""
    trace = at_once([lenet(), lenet()]).trace
    trace = trace.with_(meta=trace.meta | {"retry_limit": 1})
    inputs = [random_inputs(lenet(), seed) for seed in SEEDS]
    given = {f"{name}/data": own["data"] for name, own in zip("ab", inputs, strict=True)}
    found = runners.run(
        "unicorn",
        Delivery(signed(trace)),
        s.KEY,
        given,
        firmware=folder,
        latency_ns=LATENCY,
        repeat=2,
        **trouble,
    )
    assert found.ok, found.error
    assert (found.jobs, found.retries) == (trace.jobs, 0)
    for name, own in zip("ab", inputs, strict=True):
        with interpreter(lenet()) as device:
            assert found.outputs[f"{name}/prob"].tobytes() == device.run(own)["prob"].tobytes()
